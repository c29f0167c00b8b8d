"""Signals that come again: the handlers must be safe wherever the main thread happens to be."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from sundog.engines.local import LocalEngine
from sundog.owner import interrupts
from sundog.worker.serving import Serving
from tests.integration.gates import await_true


@pytest.fixture
def interrupted() -> Iterator[list[int]]:
    """The interrupts that came, instead of exceptions."""
    found: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, _: found.append(number))
    yield found
    signal.signal(signal.SIGINT, previous)


def driver_handler() -> Callable[..., Any]:
    reactor = SimpleNamespace(is_busy=lambda frame: True)  # as in the middle of our bookkeeping
    engine: Any = SimpleNamespace(owner=SimpleNamespace(reactor=reactor))
    return lambda *args: LocalEngine._interrupt(engine, *args)


def worker_handler() -> Callable[..., Any]:
    executor = SimpleNamespace(interrupting=b"task")
    serving: Any = SimpleNamespace(current=b"task", executor=executor, main_thread=threading.get_ident())
    return lambda *args: Serving.interrupt(serving, *args)


@pytest.mark.parametrize("make", [driver_handler, worker_handler])
def test_an_interrupt_is_put_off_even_while_the_main_thread_is_inside_threading(
    make: Callable[[], Callable[..., Any]], interrupted: list[int]
) -> None:
    handler = make()
    # Held in the middle of a join(), where Python has it (before 3.13); Timer.start() would wait for it.
    lock = getattr(threading, "_shutdown_locks_lock", threading.Lock())
    with lock:
        handler(signal.SIGINT, sys._getframe())
    await_true(lambda: interrupted, "the second interrupt")


def test_an_interrupt_is_not_lost_when_no_thread_can_be_started(
    interrupted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    interrupts.send_later(0.002, signal.raise_signal, signal.SIGINT)
    assert interrupted == [signal.SIGINT]
