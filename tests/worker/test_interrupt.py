"""Where the interrupt of a cancelled task may be raised: in user code or a poll, not where it would lose something."""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

import pytest

from sundog.owner import context, interrupts
from sundog.worker.gates import Gates
from sundog.worker.serving import Serving

TASK = b"t" * 16


class _Cancels:
    def __init__(self) -> None:
        self.childless: set[bytes] = set()


class _Owner:
    def __init__(self) -> None:
        self.cancels = _Cancels()


class _Ring:
    def started_at(self) -> float:
        return 0.0


class _Executor:
    """Interrupts `TASK`."""

    on_signal = None

    def __init__(self) -> None:
        self.interrupting = TASK
        self.cancelled = {b"ended before its interrupt came"}
        self.gates, self.ring = Gates(), _Ring()


class Bare(Serving):
    """As much of a serving as an interrupt needs."""

    def __init__(self) -> None:
        self.current = TASK
        self.main_thread = threading.get_ident()
        self.owner: Any = _Owner()
        self.executor: Any = _Executor()


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


def test_it_comes_again_while_no_code_of_the_user_runs(
    again: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "main_task", None)
    Bare().interrupt(signal.SIGINT, sys._getframe())
    assert again == [signal.SIGINT]


def test_it_is_not_raised_in_another_task(again: list[int]) -> None:
    serving = Bare()
    serving.current = b"o" * 16
    serving.interrupt(signal.SIGINT, sys._getframe())
    assert again == []


def test_notes_of_tasks_that_ended_before_their_interrupt_came_do_not_stay(
    again: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = Bare()
    monkeypatch.setattr(signal, "pthread_kill", lambda *_: None)
    serving._interrupt_current(TASK, False)
    assert serving.executor.cancelled == {TASK}
