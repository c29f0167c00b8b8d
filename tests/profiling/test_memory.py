"""memray in this process, read into rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sundog.profiling import memory
from sundog.profiling.rows import ProfileFrame
from tests.profiling.parts import HOT, F

ROOT = Path(__file__).parents[2]
kept: list[bytearray] = []


def leak() -> None:
    kept.append(bytearray(300_000))


def test_an_allocation_in_a_library_is_told_by_the_users_line() -> None:
    library = ProfileFrame("zeros", "/lib/site-packages/numpy/core.py", 1)
    assert memory.users_frames([library, HOT, F]) == (F, HOT)
    assert memory.users_frames([library]) == ()


def measure(folder: str) -> None:
    """In a process of its own, for memray keeps a pipe open."""
    tracker = memory.Tracker(f"{folder}/1.bin")
    assert tracker.start()
    assert not memory.Tracker(f"{folder}/2.bin").start(), "one at a time"
    leak()
    len(bytearray(2_000_000))
    found = tracker.stop("leak")
    line = leak.__code__.co_firstlineno + 1
    assert found.kept[0].stack[-1] == ProfileFrame("leak", __file__, line), found.kept
    assert found.kept[0].size_bytes >= 300_000 and found.calls == {"leak": (1, found.peak_bytes)}
    assert found.peak_bytes > 2_000_000 and found.file == "1.bin"


def test_what_is_not_freed_is_told_with_its_line_and_only_one_tracker_works_at_a_time(tmp_path: Path) -> None:
    program = f"from tests.profiling.test_memory import measure; measure({str(tmp_path)!r})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
