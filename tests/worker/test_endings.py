"""The last steps of a worker, and what SIGTERM does to it."""

from __future__ import annotations

import atexit
import faulthandler
import signal
import subprocess
import sys
from collections.abc import Iterator
from textwrap import dedent
from typing import Any

import pytest

from sundog.owner import context, interrupts
from sundog.worker import endings
from sundog.worker.exits import Terminated


class FakeExecutor:
    """As much of an executor as its end needs."""

    concurrent = False
    exit_after: str | None = None
    exit_code = 0

    def __init__(self, actor: object = None) -> None:
        self.actor = actor


class FakeServing:
    """What the main thread serves."""

    def __init__(self, current: bytes | None) -> None:
        self.current = current
        self.stopping: str | None = None
        self.woken = 0
        self.main_thread = 7

    def wake(self) -> None:
        self.woken += 1


class FakeLife:
    """A life with one serving."""

    def __init__(self, current: bytes | None = None) -> None:
        self.serving = FakeServing(current)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The steps in their order; neither a watchdog nor the handlers of pytest are run."""
    seen: list[str] = []
    monkeypatch.setattr(atexit, "_run_exitfuncs", lambda: seen.append("atexit"))
    monkeypatch.setattr(
        faulthandler, "dump_traceback_later", lambda limit_s, **_: seen.append(f"limit {limit_s}")
    )
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: seen.append("in time"))
    before = signal.getsignal(signal.SIGTERM)
    yield seen
    signal.signal(signal.SIGTERM, before)


def test_an_actor_is_shut_down_then_let_go_then_the_exit_handlers_run(steps: list[str]) -> None:
    class Actor:
        """Tells what happens to it."""

        def __ray_shutdown__(self) -> None:
            steps.append("shutdown")

        def __del__(self) -> None:
            steps.append("del")

    executor: Any = FakeExecutor(Actor())
    endings.let_go(executor, 5.0)
    assert steps == ["limit 5.0", "shutdown", "del", "atexit", "in time"]
    assert executor.actor is None and signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_an_actor_in_a_reference_cycle_is_finalised_too(steps: list[str]) -> None:
    class Actor:
        """Refers to itself."""

        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            steps.append("del")

    endings.let_go(FakeExecutor(Actor()), 5.0)  # type: ignore[arg-type]
    assert steps == ["limit 5.0", "del", "atexit", "in time"]


def test_a_shutdown_that_raises_is_shown_and_the_end_goes_on(
    steps: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    class Actor:
        """Cannot be shut down."""

        def __ray_shutdown__(self) -> None:
            raise ValueError("the socket is gone")

    endings.let_go(FakeExecutor(Actor()), 5.0)  # type: ignore[arg-type]
    told = capsys.readouterr().err
    assert (
        "__ray_shutdown__() raised this error; the actor ends nevertheless" in told
        and "the socket is gone" in told
    )
    assert steps[-2:] == ["atexit", "in time"]


def test_a_worker_without_an_actor_runs_its_exit_handlers(steps: list[str]) -> None:
    endings.let_go(FakeExecutor(), 1.0)  # type: ignore[arg-type]
    assert steps == ["limit 1.0", "atexit", "in time"]


def _arrive(life: FakeLife, executor: FakeExecutor) -> None:
    endings.Terminations(life, executor).arrived(signal.SIGTERM, None)  # type: ignore[arg-type]


def test_sigterm_raises_in_the_task_that_runs() -> None:
    life, executor = FakeLife(b"task"), FakeExecutor()
    token = context.running.set((b"task", "f", 0, b""))
    with pytest.raises(Terminated):
        _arrive(life, executor)
    context.running.reset(token)
    assert (executor.exit_after, executor.exit_code) == ("it received SIGTERM", 1)
    assert life.serving.stopping is None


def test_sigterm_ends_an_idle_worker_and_comes_again_if_a_task_was_about_to_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later: list[tuple[Any, ...]] = []
    monkeypatch.setattr(interrupts, "send_later", lambda *call: later.append(call))
    life, executor = FakeLife(), FakeExecutor()
    _arrive(life, executor)
    assert (life.serving.stopping, life.serving.woken) == ("it received SIGTERM", 1)
    assert later[0][1:] == (signal.pthread_kill, 7, signal.SIGTERM)


def test_sigterm_lets_the_calls_of_a_concurrent_actor_end_by_themselves() -> None:
    life, executor = FakeLife(b"call"), FakeExecutor()
    executor.concurrent = True
    _arrive(life, executor)
    assert life.serving.stopping == "it received SIGTERM"


def test_the_reason_of_an_end_that_was_decided_before_stays() -> None:
    life, executor = FakeLife(b"call"), FakeExecutor()
    executor.concurrent, executor.exit_after = True, "exit_actor() was called"
    _arrive(life, executor)
    assert (executor.exit_after, executor.exit_code) == ("exit_actor() was called", 0)


def test_a_child_that_user_code_forks_does_not_lose_a_sigterm_that_comes_at_once() -> None:
    program = """
        import os, signal
        from sundog.worker.endings import Terminations

        sent, tell = os.pipe()

        def stand_still():
            os.read(sent, 1)  # the child has no core while its parent sends the signal

        os.register_at_fork(after_in_child=stand_still)
        Terminations(None, None).install()
        for blocked in ((), (signal.SIGUSR1,)):
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            child = os.fork()
            if child == 0:
                os.read(sent, 1)
                os._exit(0)
            os.kill(child, signal.SIGTERM)
            os.write(tell, b"12")
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
            assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set(blocked)
            os.set_blocking(sent, False)
            os.read(sent, 2)
            os.set_blocking(sent, True)
    """
    done = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
