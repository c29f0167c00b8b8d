"""Profiles of this whole process, begun and ended by messages."""

from __future__ import annotations

import os
from pathlib import Path

from sundog.profiling import recorder, rows
from sundog.wire.profiles import ProfileSpec


def test_a_recorder_writes_its_part_when_it_is_stopped_and_only_once(tmp_path: Path) -> None:
    folder = str(tmp_path / "p")
    rows.begin(folder, "wall", "a test")
    recorder.start(ProfileSpec("p", "wall", 1000.0, 60.0, folder), "driver", "s")
    recorder.stop("p")
    (part,) = rows.read(folder).parts
    assert part.pid == os.getpid() and part.samples is not None and part.samples.kind == "wall"
    before = os.stat(f"{folder}/{part.pid}.json").st_mtime_ns
    recorder.stop("p")
    assert os.stat(f"{folder}/{part.pid}.json").st_mtime_ns == before


def test_a_recorder_that_nobody_ends_ends_by_itself(tmp_path: Path) -> None:
    folder = str(tmp_path / "p")
    rows.begin(folder, "wall", "a test")
    made = recorder.Recorder(ProfileSpec("q", "wall", 1000.0, 0.01, folder), "driver", "s")
    made.start()
    made._timer.join(120)
    assert rows.read(folder).parts
