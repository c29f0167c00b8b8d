"""What the chaos has stopped goes on, however its driver ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos import members, processes
from tests.integration.gates import await_true


@contextlib.contextmanager
def _sleeper(*words: str) -> Iterator[int]:
    """A process that waits for its end and has some words in its command line."""
    program = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()", *words], stdin=-1)
    try:
        yield program.pid
    finally:
        program.kill()
        program.communicate()


def _stands_still(pid: int) -> bool:
    return processes.state(f"/proc/{pid}/stat") == "T"


def test_what_a_killed_driver_had_stopped_of_its_session_goes_on_and_nothing_else(tmp_path: Path) -> None:
    ours, other = f"{tmp_path}/session_ours", f"{tmp_path}/session_other"
    with _sleeper(ours) as stopped, _sleeper(ours) as running, _sleeper(other) as foreign:
        for pid in (stopped, foreign):
            os.kill(pid, signal.SIGSTOP)
        await_true(lambda: _stands_still(stopped) and _stands_still(foreign), "both to stop")
        assert processes.let_go_on(ours) == [stopped]
        await_true(lambda: not _stands_still(stopped), "it to go on")
        assert _stands_still(foreign)
        assert not _stands_still(running)


def test_a_node_that_was_stopped_to_be_lost_goes_on_when_that_fails() -> None:
    with _sleeper() as pid:
        with pytest.raises(RuntimeError, match="no room"), members._frozen(pid) as below:
            assert below == []
            assert _stands_still(pid)
            raise RuntimeError("no room")
        await_true(lambda: not _stands_still(pid), "it to go on")
