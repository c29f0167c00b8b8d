"""Profiles asked for from outside: who is told, and what is waited for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sundog.profiling import rows
from sundog.profiling.session import RunningProfile
from sundog.wire.requests import BeginProfile, EndProfile


def test_a_profile_ends_when_all_processes_that_live_have_written(tmp_path: Path) -> None:
    asked: list[Any] = []

    def ask(request: object) -> Any:
        asked.append(request)
        if isinstance(request, EndProfile):
            rows.write_part(running.folder, rows.Part(os.getpid(), "driver", "s"))
            return [os.getpid(), 1 << 30]  # the second is gone
        return [os.getpid()]

    running = RunningProfile(ask, str(tmp_path), "cpu", "a test", [], rate_hz=50.0)
    assert running.end().parts == [rows.Part(os.getpid(), "driver", "s")]
    begun, ended = asked
    assert (
        isinstance(begun, BeginProfile) and begun.spec.rate_hz == 50.0 and begun.spec.folder == running.folder
    )
    assert ended.profile_id == begun.spec.id == running.folder.rpartition("/")[2]


def test_a_profile_that_no_process_takes_part_in_leaves_nothing(tmp_path: Path) -> None:
    def ask(_request: object) -> Any:
        return []

    running = RunningProfile(ask, str(tmp_path), "cpu", "a test", [])
    assert rows.profiles_of(str(tmp_path))
    running.drop()
    assert not rows.profiles_of(str(tmp_path))
