"""When the handlers of the program are called: never in the middle of a step of ours, and none is lost."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sundog.owner import core as verbs
from sundog.owner import interrupts
from sundog.worker.serving import Serving
from tests.integration.gates import await_true


class Interrupting:
    """A worker whose task is being interrupted, and what runs the task."""

    interrupting, on_signal = b"task", None

    def __init__(self) -> None:
        self.current, self.main_thread = b"task", threading.get_ident()
        self.executor = self


@pytest.fixture
def interrupted() -> Iterator[list[int]]:
    """The interrupts that came, instead of exceptions."""
    found: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, _: found.append(number))
    yield found
    signal.signal(signal.SIGINT, previous)


def test_an_interrupt_is_put_off_even_while_the_main_thread_is_inside_threading(
    interrupted: list[int],
) -> None:
    serving: Any = Interrupting()
    # Held in the middle of a join(), where Python has it (before 3.13); Timer.start() would wait for it.
    lock = getattr(threading, "_shutdown_locks_lock", threading.Lock())
    with lock:
        Serving.interrupt(serving, signal.SIGINT, sys._getframe())
    await_true(lambda: interrupted, "the second interrupt")


def test_an_interrupt_is_not_lost_when_no_thread_can_be_started(
    interrupted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    interrupts.send_later(0.002, signal.raise_signal, signal.SIGINT)
    assert interrupted == [signal.SIGINT]


@pytest.fixture
def guarded() -> Iterator[Any]:
    """As in a driver: the program's handlers are called by us."""
    lock = threading.RLock()
    interrupts.install(lock)
    before = signal.getsignal(signal.SIGUSR1)
    yield lock
    signal.signal(signal.SIGUSR1, before)
    interrupts.uninstall()


def call_ours(do: Callable[[], Any]) -> Any:
    """Call a function as a verb of ours does."""
    inside: dict[str, Any] = {"do": do}
    exec(compile("def verb():\n    return do()\nvalue = verb()", verbs.__file__, "exec"), inside)
    return inside["value"]


def test_a_handler_runs_at_once_in_the_code_of_the_user(guarded: Any) -> None:
    found: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: found.append(number))
    signal.raise_signal(signal.SIGUSR1)
    assert found == [signal.SIGUSR1]


def test_a_handler_waits_for_the_end_of_a_verb_and_signals_of_one_number_are_one(guarded: Any) -> None:
    found: list[str] = []
    signal.signal(signal.SIGUSR1, lambda *_: found.append("handler"))

    def step() -> None:
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR1)
        found.append("step")

    call_ours(step)
    assert found == ["step", "handler"]
    assert sys.gettrace() is None


def test_a_verb_may_take_ctrl_c_for_itself_but_not_from_a_handler_of_the_program(guarded: Any) -> None:
    def step() -> tuple[bool, bool, bool]:
        early = interrupts.take(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        return early, interrupts.take(signal.SIGINT), interrupts.take(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    found: list[int] = []
    try:
        assert call_ours(step) == (False, True, False)  # and no KeyboardInterrupt comes out of the verb
        signal.signal(signal.SIGINT, lambda number, _: found.append(number))
        assert call_ours(step) == (False, True, True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert found == [signal.SIGINT]


def test_what_a_handler_raises_at_the_end_of_a_verb_comes_out_of_it(guarded: Any) -> None:
    def handler(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGUSR1, handler)
    with pytest.raises(TimeoutError):
        call_ours(lambda: signal.raise_signal(signal.SIGUSR1))
    assert sys.gettrace() is None
    assert call_ours(lambda: 7) == 7


def test_a_verb_that_c_code_calls_again_and_again_is_left_before_its_next_call(guarded: Any) -> None:
    def handler(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGUSR1, handler)
    calls: list[int] = []

    def step(number: int) -> None:
        calls.append(number)
        signal.raise_signal(signal.SIGUSR1)

    inside: dict[str, Any] = {"step": step}
    exec(compile("def verb(number):\n    step(number)", verbs.__file__, "exec"), inside)
    with pytest.raises(TimeoutError):
        list(map(inside["verb"], range(5)))
    assert calls == [0]


def test_a_handler_waits_while_the_owners_lock_is_held(guarded: Any) -> None:
    found: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: found.append(number))
    with guarded:
        signal.raise_signal(signal.SIGUSR1)
        assert not found
    await_true(lambda: found, "the handler")


def test_a_blocking_call_is_left_before_a_handler_runs(guarded: Any) -> None:
    found: list[str] = []
    signal.signal(signal.SIGUSR1, lambda *_: found.append("handler"))
    gate = threading.Lock()
    gate.acquire()
    main = threading.get_ident()
    interrupts.send_later(0.01, signal.pthread_kill, main, signal.SIGUSR1)

    def wait() -> None:
        interrupts.wait_in(gate.acquire)
        found.append("left")
        assert interrupts.due()
        interrupts.heed()

    call_ours(wait)
    assert found == ["left", "handler"]


def test_a_signal_that_comes_with_what_a_verb_waits_for_is_heeded_when_the_verb_ends(guarded: Any) -> None:
    def handler(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGUSR1, handler)
    found: list[str] = []

    def wait() -> None:
        interrupts.wait_in(signal.raise_signal, signal.SIGUSR1)
        found.append("its answer is there")

    with pytest.raises(TimeoutError):
        call_ours(wait)
    assert found == ["its answer is there"]
    assert not interrupts.due() and sys.gettrace() is None


def test_a_blocking_call_does_not_begin_while_a_handler_waits(guarded: Any) -> None:
    found: list[str] = []
    signal.signal(signal.SIGUSR1, lambda *_: found.append("handler"))

    def wait() -> None:
        signal.raise_signal(signal.SIGUSR1)
        interrupts.wait_in(threading.Event().wait)
        found.append("left")

    call_ours(wait)
    assert found == ["left", "handler"]


def test_a_handler_that_raises_does_not_lose_the_signal_behind_it(guarded: Any) -> None:
    found: list[int] = []

    def handler(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGUSR2, lambda number, _: found.append(number))
    signal.signal(signal.SIGUSR1, handler)

    def step() -> None:
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR2)

    with pytest.raises(TimeoutError):
        call_ours(step)
    await_true(lambda: found, "the second handler")
    signal.signal(signal.SIGUSR2, before)


def test_a_handler_that_interrupts_a_finaliser_raises_in_the_code_around_it(guarded: Any) -> None:
    class Mortal:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGUSR1)

    def handler(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGUSR1, handler)
    with pytest.raises(TimeoutError):
        mortal: Any = Mortal()
        mortal = None
        assert mortal is None
    assert sys.gettrace() is None
