"""Where the interrupt of a cancelled task may be raised: in user code or a poll, not where it would lose something."""

from __future__ import annotations

import signal
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from sundog.owner import context, interrupts, reactor
from sundog.worker import answers
from sundog.worker.serving import Serving

TASK = b"t" * 16


class Bare(Serving):
    """As much of a serving as an interrupt needs."""

    def __init__(self) -> None:
        self.current = TASK
        self.main_thread = threading.get_ident()
        self.owner: Any = SimpleNamespace(
            lock=threading.RLock(), reactor=None, cancels=SimpleNamespace(childless=set())
        )
        self.owner.reactor = SimpleNamespace(
            lock=self.owner.lock,
            waiting=set(),
            is_busy=lambda frame: reactor.Reactor.is_busy(self.owner.reactor, frame),
        )
        self.executor: Any = SimpleNamespace(
            interrupting=TASK,
            cancelled={b"ended before its interrupt came"},
            unsent=SimpleNamespace(writing=False),
            generators={},
            ring=SimpleNamespace(started_at=float),
        )


def frame_of(module: Any) -> Any:
    """A frame of code that stands in this module."""
    inside: dict[str, Any] = {"getframe": sys._getframe}
    exec(compile("frame = getframe()", module.__file__, "exec"), inside)
    return inside["frame"]


@pytest.fixture
def again(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The signals that are to come again."""
    found: list[int] = []
    monkeypatch.setattr(interrupts, "send_later", lambda *asked: found.append(asked[-1]))
    monkeypatch.setattr(context, "main_task", (TASK, "f", 0, b"o" * 8))
    return found


def test_it_is_raised_in_the_code_of_the_user(again: list[int]) -> None:
    with pytest.raises(KeyboardInterrupt):
        Bare().interrupt(signal.SIGINT, sys._getframe())
    assert again == []


def test_it_waits_while_a_reply_is_being_queued_or_sent(again: list[int]) -> None:
    Bare().interrupt(signal.SIGINT, frame_of(answers))
    assert again == [signal.SIGINT]


def test_it_waits_while_the_owner_is_in_the_midst_of_something_but_not_in_a_poll(again: list[int]) -> None:
    serving = Bare()
    inside = frame_of(reactor)
    serving.interrupt(signal.SIGINT, inside)
    assert again == [signal.SIGINT]
    serving.owner.reactor.waiting = {threading.get_ident()}
    with pytest.raises(KeyboardInterrupt):
        serving.interrupt(signal.SIGINT, inside)
    with serving.owner.lock:
        serving.interrupt(signal.SIGINT, inside)
    assert again == [signal.SIGINT] * 2


def test_it_waits_while_this_thread_is_in_the_midst_of_something_and_another_polls(again: list[int]) -> None:
    serving = Bare()
    serving.owner.reactor.waiting = {threading.get_ident() + 1}
    for module in (reactor, answers):
        serving.interrupt(signal.SIGINT, frame_of(module))
    assert again == [signal.SIGINT] * 2


def test_notes_of_tasks_that_ended_before_their_interrupt_came_do_not_stay(
    again: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = Bare()
    monkeypatch.setattr(signal, "pthread_kill", lambda *_: None)
    serving._interrupt_current(TASK, False)
    assert serving.executor.cancelled == {TASK}
