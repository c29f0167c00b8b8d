"""What a session takes beyond its tasks (benchmarks/beyond.py): whose threads are counted, and as what."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks import beyond


def test_the_body_tells_its_own_processor_time() -> None:
    assert beyond.body(200_000) > beyond.body(10) >= 0.0


def test_a_process_and_its_descendants_are_found() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        found = beyond.below(os.getpid())
        assert found[os.getpid()] == 0 and found[child.pid] == 1
    finally:
        child.communicate(b"\n")
    assert child.pid not in beyond.below(os.getpid())


def test_the_time_of_this_process_is_the_drivers_and_grows() -> None:
    before = beyond.spent(os.getpid())["driver"]
    beyond.body(1_000_000)
    assert beyond.spent(os.getpid())["driver"] > before > 0.0
