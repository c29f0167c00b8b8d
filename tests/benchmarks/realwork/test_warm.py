"""Processor seconds of one more repetition (benchmarks/realwork/warm.py): whose time is counted."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.realwork import warm

_BURN = "import time\nwhile time.process_time() < 0.3: pass\n"


def test_the_time_of_a_child_counts_while_it_runs_and_when_it_has_ended() -> None:
    before_s = warm.spent_s(os.getpid())
    child = subprocess.Popen(
        [sys.executable, "-c", _BURN + "print(flush=True)\ninput()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        running_s = warm.spent_s(os.getpid())
    finally:
        child.communicate(b"\n")
    assert running_s - before_s >= 0.25
    assert warm.spent_s(os.getpid()) >= running_s
