"""Which error follows from which death, and what it carries."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from sundog.exceptions import ActorUnavailableError, OutOfMemoryError, WorkerCrashedError
from sundog.owner import death_errors
from sundog.wire.cause import EXIT, KERNEL_OOM, MEMORY, SIGNAL, Cause

WORKER = b"\x01" * 8
ACTOR = b"\x02" * 16


class Fn:
    name = "resize"


class Running:
    """As much of a task as its errors tell."""

    id = b"\x03" * 16
    fn = Fn
    attempt = 1


TASK: Any = Running


def test_a_crash_names_worker_task_attempt_cause_and_output() -> None:
    cause = Cause(exit_code=3, kind=EXIT, last_line="a.py:1 f, 0.2 s before", facts={"peak_bytes": 7})
    error: Any = death_errors.task_error(TASK, WORKER, 812, cause, "/logs/w.err")
    assert type(error) is WorkerCrashedError
    assert str(error) == (
        f"Worker {WORKER.hex()} (pid 812) died running resize() (task {Running.id.hex()}, attempt 2): its process "
        "exited by itself with code 3.\nIts code was last seen at a.py:1 f, 0.2 s before.\n"
        f"Why: sundog why {Running.id.hex()}. Its output: /logs/w.err"
    )
    facts = (error.exit_code, error.signal, error.pid, error.attempt, error.peak_bytes, error.function_name)
    assert facts == (3, None, 812, 2, 7, "resize")
    assert (error.task_id, error.worker_id) == (Running.id.hex(), WORKER.hex())
    assert error.last_line == "a.py:1 f, 0.2 s before"


@pytest.mark.parametrize("kind", [KERNEL_OOM, MEMORY])
def test_memory_is_an_out_of_memory_error_whoever_killed_for_it(kind: str) -> None:
    cause = Cause(signal=9, kind=kind, facts={"total_bytes": 5})
    for error in (
        death_errors.task_error(TASK, WORKER, 812, cause, ""),
        death_errors.call_error(TASK, "Counter", ACTOR, 812, cause, cause.text()),
    ):
        assert type(error) is OutOfMemoryError
        assert error.total_bytes == 5


def test_a_call_lost_in_a_restart_says_that_it_may_have_run() -> None:
    cause = Cause(signal=9, kind=SIGNAL)
    error = death_errors.call_error(TASK, "Counter", ACTOR, 0, cause, cause.text())
    assert type(error) is ActorUnavailableError
    assert "The call may or may not have run." in str(error)
    assert (error.signal, error.pid, error.actor_id) == (9, None, ACTOR.hex())


@pytest.mark.parametrize(
    ("program", "code", "number"),
    [
        ("raise SystemExit(3)", 3, None),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", None, signal.SIGKILL),
    ],
)
def test_the_end_of_a_child_is_read_and_left_to_be_reaped(
    program: str, code: int | None, number: int | None
) -> None:
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.read() == b""  # it has ended, or is about to
        cause = death_errors.child_cause(child.pid)
        assert cause is not None and (cause.exit_code, cause.signal) == (code, number)
        assert child.wait() == (code if number is None else -number)


def test_of_a_process_that_is_no_child_nothing_is_known() -> None:
    assert death_errors.child_cause(os.getppid()) is None
