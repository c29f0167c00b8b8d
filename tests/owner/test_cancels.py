"""Cancelling what a task has submitted."""

from __future__ import annotations

from typing import Any

from sundog.owner.cancels import Cancels
from sundog.owner.lanes import ActorLane, OwnLane
from sundog.owner.rows import SENT, Fn, Task
from sundog.wire.peers import CancelTold
from tests.owner.fakes import make_owner

PARENT = b"p" * 16


def test_a_child_is_interrupted_once_though_its_parent_was_cancelled_before_it_ended() -> None:
    owner = make_owner()
    child = Task(b"c" * 16, Fn(1, "child"), None, 5.0)
    child.state, child.parent, child.lane = SENT, PARENT, ActorLane(b"a" * 16, "A", set())
    owner.table[child.id] = child
    cancels = make_cancels(owner)
    cancels.childless.add(PARENT)

    cancels.cancel_late(PARENT)  # by the thread that ran the parent, which was interrupted at once
    cancels.cancel_children_of(PARENT)

    assert owner.actors.told == [("cancel_task", child.id, True, 0)]


def test_children_are_known_by_their_parent_whatever_the_clock_said_when_they_were_submitted() -> None:
    """What an earlier task left running is not cancelled, though a clock that was set back makes it younger."""
    owner = make_owner()

    def submitted(letter: bytes, parent: bytes, at_s: float, lane: Any) -> None:
        task = Task(letter * 16, Fn(1, "child"), None, at_s)
        task.state, task.parent, task.lane = SENT, parent, lane
        owner.table[task.id] = task

    there = ActorLane(b"a" * 16, "A", set())
    submitted(b"e", b"earlier parent..", 90_000.0, there)
    submitted(b"c", PARENT, 5.0, there)
    submitted(b"i", PARENT, 5.0, OwnLane(b"w" * 8, 1, None, None))  # runs in this process, and has a child
    submitted(b"g", b"i" * 16, 5.0, there)
    make_cancels(owner).cancel_children_of(PARENT)
    assert [message.task_id for message in owner.actors.told] == [b"c" * 16, b"g" * 16]


def make_cancels(owner: Any) -> Cancels:
    """Cancels among the fakes of an owner."""
    cancels = Cancels(owner, owner.control, owner.peers, owner.getting, owner.replies, owner.lineage)
    cancels.actors = owner.actors
    return cancels


class Site:
    """A process with one task of its own that runs elsewhere, and what it has told others."""

    def __init__(self, task_id: bytes, parent: bytes = b"") -> None:
        self.task = Task(task_id, Fn(1, "f"), None, 5.0)
        self.task.state, self.task.parent = SENT, parent
        self.task.lane = ActorLane(b"a" * 16, "A", set())
        self.task.lane.worker = b"w" * 8
        owner = make_owner()
        owner.table[task_id] = self.task
        self.told: list[Any] = owner.actors.told
        self.answered: list[Any] = owner.peers.sent
        self.announced: list[bytes] = []
        self.waiters: dict[bytes, Any] = owner.waiters
        self.cancels = make_cancels(owner)

    def awaits(self, number: int) -> None:
        """A thread waits for the end of this round."""
        self.waiters[b"cancel" + number.to_bytes(8, "little")] = [self.announced.append]


def test_a_recursive_cancel_is_answered_when_the_workers_of_the_children_have_answered() -> None:
    driver, worker = Site(PARENT), Site(b"c" * 16, PARENT)
    made = driver.cancels.begin(driver.task, force=False, recursive=True)
    driver.awaits(made.number)
    [message] = driver.told
    assert message[:3] == ("cancel_task", PARENT, True) and message[3]
    assert made.left == 1 and not driver.announced

    worker.cancels.cancel_here(
        b"d" * 8, message, lambda task_id, _recursive: worker.cancels.cancel_children_of(task_id)
    )
    [down] = worker.told
    assert down[:3] == ("cancel_task", worker.task.id, True), (
        "its child's worker is told, and nobody is answered yet"
    )
    worker.cancels.told(b"w" * 8, CancelTold(down[3]))
    assert worker.answered == [(b"d" * 8, "cancel_told", message[3])]
    worker.cancels.told(b"w" * 8, CancelTold(down[3]))
    assert len(worker.answered) == 1, "an answer that comes twice is nothing new"

    driver.cancels.told(b"w" * 8, CancelTold(message[3]))
    assert made.left == 0 and len(driver.announced) == 1


def test_a_cancel_that_is_not_recursive_asks_for_no_answer() -> None:
    driver = Site(PARENT)
    made = driver.cancels.begin(driver.task, force=False, recursive=False)
    assert driver.told == [("cancel_task", PARENT, False, 0)] and made.left == 0
