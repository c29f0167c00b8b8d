"""Arguments: how they are packed, and that a task goes on when the last of them is here."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from sundog import refs
from sundog.owner.arguments import Arguments
from sundog.owner.rows import DONE, QUEUED, WAITING, ArgumentWaiter, Fn, Shape, Task
from sundog.refs import ObjectRef
from sundog.state.lease_spec import LeaseSpec
from sundog.wire.lanes import EXTRA_VALUES
from tests.owner.fakes import OTHER, make_objects, new_id


class FakeOwner:
    """An owner with objects, whose other parts only note what they are asked."""

    def __init__(self) -> None:
        self.objects = objects = make_objects(inline_max=200)
        self.me, self.lock, self.ids = objects.me, objects.lock, objects.ids
        self.ready, self.refs, self.dependents = objects.ready, objects.refs, objects.dependents
        self.segments, self.ring, self.inline_max = objects.segments, objects.ring, objects.inline_max
        self.unread = objects.unread
        self.dispatch = self.replies = self
        self.looked: list[Any] = []
        self.failed: list[tuple[Task, bytes]] = []
        around: Any = objects.around
        self.asked = around.notes

    def look_at(self, shape: Any) -> Any:
        self.looked.append(shape)
        return shape

    def fail_by_argument(self, task: Task, oid: bytes, _value: Any) -> None:
        self.failed.append((task, oid))


@pytest.fixture
def owner(monkeypatch: pytest.MonkeyPatch) -> FakeOwner:
    made = FakeOwner()
    monkeypatch.setattr(refs, "_note", made.objects.ops.append)
    return made


@pytest.fixture
def arguments(owner: FakeOwner) -> Arguments:
    return Arguments(owner)  # type: ignore[arg-type]


def make_task() -> Task:
    fn = Fn(1, "f")
    fn.shape = Shape(1, LeaseSpec((), ""), {})
    return Task(b"t" * 16, fn, None, 0.0)


def test_plain_arguments_travel_as_their_pickle(arguments: Arguments) -> None:
    task = make_task()
    arguments.pack(task, (1, "a"), {})
    assert pickle.loads(task.args) == (1, "a")
    assert task.state == QUEUED and task.holds is None


def test_named_arguments_travel_beside_the_others(arguments: Arguments) -> None:
    task = make_task()
    arguments.pack(task, (1,), {"b": [2]})
    assert pickle.loads(task.args) == [(1,), {"b": [2]}]


def test_large_arguments_become_an_object_that_the_task_holds(arguments: Arguments, owner: FakeOwner) -> None:
    task = make_task()
    arguments.pack(task, (b"x" * 100_000,), {})
    kind, oid, _, location = task.args
    assert kind == "obj" and location[0] == "segment-1"
    assert task.holds == [oid] and oid in owner.ready


def test_a_task_with_a_ref_waits_until_its_value_is_here(arguments: Arguments, owner: FakeOwner) -> None:
    oid = new_id(OTHER)
    task = make_task()
    arguments.pack(task, (ObjectRef(oid, None), 1), {})
    assert (task.state, task.deps, task.holds) == (WAITING, [oid], [oid])
    arguments.await_all(task)
    assert owner.asked == [("asked", oid)] and owner.dependents == {oid: [task]}
    owner.ready[oid] = b"value"
    arguments.enqueue(task)
    assert task.state == QUEUED and task.extra == {EXTRA_VALUES: [(oid, (0, b"value", None, None))]}
    assert task.fn.shape is not None and list(task.fn.shape.queue) == [task]


def test_a_task_whose_argument_is_lost_again_waits_again(arguments: Arguments, owner: FakeOwner) -> None:
    task = make_task()
    task.deps, task.state = [new_id(OTHER)], WAITING
    arguments.enqueue(task)
    assert task.state == WAITING and task.missing == 1 and owner.looked == []


def test_a_failed_argument_fails_the_task_and_one_that_has_ended_is_left_alone(
    arguments: Arguments, owner: FakeOwner
) -> None:
    oid = new_id()
    owner.objects.fail_object(oid, KeyError("k"))
    task = make_task()
    task.deps, task.state = [oid], WAITING
    arguments.enqueue(task)
    assert owner.failed == [(task, oid)]
    task.state = DONE
    arguments.enqueue(task)
    assert len(owner.failed) == 1


def test_a_constructor_is_told_of_its_arguments_and_of_an_error(
    arguments: Arguments, owner: FakeOwner
) -> None:
    heard: list[str] = []

    class Constructor(ArgumentWaiter):
        def start(self, task: Task) -> None:
            heard.append("start")

        def fail(self, task: Task, error: bytes) -> None:
            heard.append("fail")

    good, bad = new_id(), new_id()
    owner.ready[good] = b"v"
    owner.objects.fail_object(bad, KeyError("k"))
    for oid in (good, bad):
        task = make_task()
        task.deps, task.state, task.waiter = [oid], WAITING, Constructor()
        arguments.enqueue(task)
    assert heard == ["start", "fail"] and owner.failed == []
