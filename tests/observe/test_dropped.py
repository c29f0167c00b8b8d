"""Totals of segments that are dropped: each event is counted once, whether or not the segment could be removed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sundog import events
from sundog.observe import dropped, segments

WORKER, NODE = b"w" * 8, b"n" * 16
TASK = b"o" * 8 + (1).to_bytes(8, "little")


def a_session(tmp_path: Path, *, counts: tuple[int, ...] = (3, 4)) -> list[str]:
    """A session whose worker is gone, with one segment for each count of tasks; their paths."""
    (tmp_path / "rings").mkdir()
    ring = events.Ring(str(tmp_path / "rings" / f"{WORKER.hex()}.ring"), 64, "worker", b"\1\0\0\0")
    writer = segments.Writer(str(tmp_path), NODE, 1000, 0.0)
    after = 0
    for count in counts:
        for _ in range(count):
            ring.write(events.TASK, TASK, ring.name("f"), 1.0, 2.0, 3.0)
        slots = events.read_slots(ring.path, after)
        assert slots is not None
        writer.append(segments.EVENTS, slots.data, WORKER, pid=5, role="worker", first=slots.first)
        after = slots.first - 1 + len(slots.data) // events.EVENT_BYTES
        writer.close()
    ring.close()
    writer.append(segments.NAMES, Path(f"{ring.path}.names").read_bytes(), WORKER)
    writer.close()
    for end in ("", ".names"):
        os.unlink(ring.path + end)
    return [segments.path_of(str(tmp_path), number) for number in range(1, len(counts) + 1)]


def text(tmp_path: Path) -> str:
    return json.dumps(dropped.read(str(tmp_path)))


def test_nothing_is_known_before_the_first_fold(tmp_path: Path) -> None:
    assert dropped.read(str(tmp_path)) == {}


def test_the_totals_say_of_how_many_events_they_are(tmp_path: Path) -> None:
    first, second = a_session(tmp_path)
    dropped.fold(str(tmp_path), first)
    assert dropped.read(str(tmp_path))["upto"] == 3
    os.unlink(first)
    dropped.fold(str(tmp_path), second)
    assert dropped.read(str(tmp_path))["upto"] == 7


def test_names_of_a_process_that_is_gone_come_from_the_segments(tmp_path: Path) -> None:
    first, _ = a_session(tmp_path)
    dropped.fold(str(tmp_path), first)
    assert '"f"' in text(tmp_path) and '"?"' not in text(tmp_path)


def test_a_segment_that_could_not_be_removed_is_not_counted_again(tmp_path: Path) -> None:
    first, _ = a_session(tmp_path)
    dropped.fold(str(tmp_path), first)
    once = text(tmp_path)
    dropped.fold(str(tmp_path), first)
    assert text(tmp_path) == once


def test_a_damaged_file_of_totals_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "usage.json").write_text("{half")
    assert dropped.read(str(tmp_path)) == {}
    (tmp_path / "usage.json").write_text("[]")
    assert dropped.read(str(tmp_path)) == {}


def test_totals_that_cannot_be_written_are_an_error_and_leave_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = a_session(tmp_path)
    dropped.fold(str(tmp_path), first)
    before = text(tmp_path)

    def full(*_args: object, **_kwargs: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        dropped.fold(str(tmp_path), second)
    assert text(tmp_path) == before and not (tmp_path / "usage.json.new").exists()
