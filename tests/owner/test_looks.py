"""Answers to commands that look at this process."""

from __future__ import annotations

import _thread
import threading
from typing import Any

import pytest

from sundog.owner.looks import answer
from sundog.owner.rows import DONE, Fn, Task
from sundog.wire import looks
from sundog.wire.control import Look, Looked
from tests.owner.fakes import FakeControl, make_owner


class Control(FakeControl):
    """A line to the node on which a test can wait for the next message."""

    def __init__(self) -> None:
        super().__init__()
        self.told = threading.Event()

    def send(self, message: Any, fds: tuple[int, ...] = ()) -> None:
        super().send(message, fds)
        self.told.set()


class FakeCancels:
    """Tasks that were cancelled, with what was asked."""

    def __init__(self) -> None:
        self.cancelled: list[tuple[Task, bool, bool]] = []

    def cancel_task(self, task: Task, *, force: bool, recursive: bool) -> None:
        self.cancelled.append((task, force, recursive))


def _owner() -> Any:
    owner = make_owner()
    owner.control, owner.cancels = Control(), FakeCancels()
    owner.call_of = lambda _frame: None
    owner.actors.scopes = set()
    return owner


def _asked(owner: Any, question: str, *arguments: object) -> Any:
    answer(owner, Look(9, question, arguments))
    assert owner.control.told.wait(30)
    [told] = owner.control.sent
    assert isinstance(told, Looked) and told.token == 9
    return told.row


def test_each_question_gets_a_row_of_its_kind() -> None:
    assert isinstance(_asked(_owner(), looks.STACKS), looks.ProcessStacks)
    assert isinstance(_asked(_owner(), looks.PULSE), looks.Pulse)
    assert isinstance(_asked(_owner(), looks.MEMORY, 10), looks.MemoryReport)
    assert _asked(_owner(), looks.RETENTION, ()) == []


def test_a_look_that_fails_is_answered_with_the_reason() -> None:
    assert _asked(_owner(), "weather").startswith("KeyError")


def test_a_task_is_cancelled_with_its_children_unless_it_has_ended() -> None:
    owner = _owner()
    task = Task(b"t" * 16, Fn(1, "f"), None, 0.0)
    owner.table[task.id] = task
    assert _asked(owner, looks.CANCEL, task.id.hex(), True) == ""
    assert owner.cancels.cancelled == [(task, True, True)]
    task.state = DONE
    owner.control = Control()
    assert _asked(owner, looks.CANCEL, task.id.hex(), False) == "it has ended already"
    owner.control = Control()
    assert _asked(owner, looks.CANCEL, "00" * 16, False) == "it has ended already"
    assert len(owner.cancels.cancelled) == 1


def test_where_the_system_allows_no_thread_the_reader_answers_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    owner = _owner()
    answer(owner, Look(9, looks.PULSE, ()))
    assert len(owner.control.sent) == 1


def test_a_session_that_has_ended_hears_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_thread, "start_new_thread", lambda call, arguments: call(*arguments))
    owner = _owner()
    owner.closed = RuntimeError("over")
    answer(owner, Look(9, looks.PULSE, ()))
    assert owner.control.sent == []
