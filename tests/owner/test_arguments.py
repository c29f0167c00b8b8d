"""Arguments: how they are packed, and that a task goes on when the last of them is here."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from sundog import refs
from sundog.owner.arguments import Arguments
from sundog.owner.rows import DONE, QUEUED, WAITING, ArgumentWaiter, Fn, Shape, Task
from sundog.refs import ObjectRef
from sundog.serialize.pack import SLOTS_ALONE, Slot
from sundog.state.lease_spec import LeaseSpec
from sundog.wire.lanes import EXTRA_VALUES
from tests.owner.fakes import OTHER, FakeOwner, new_id


class Noting:
    """Dispatch and replies, which note what they are asked."""

    def __init__(self) -> None:
        self.looked: list[Any] = []
        self.failed: list[tuple[Task, bytes]] = []

    def look_at(self, shape: Any) -> Any:
        self.looked.append(shape)
        return shape

    def fail_by_argument(self, task: Task, oid: bytes, _value: Any) -> None:
        self.failed.append((task, oid))


@pytest.fixture
def owner(monkeypatch: pytest.MonkeyPatch) -> FakeOwner:
    made = FakeOwner(inline_max=200)
    monkeypatch.setattr(refs, "_note", made.objects.ops.append)
    return made


@pytest.fixture
def noting() -> Noting:
    return Noting()


@pytest.fixture
def arguments(owner: Any, noting: Any) -> Arguments:
    made = Arguments(owner, noting)
    made.dispatch = noting
    return made


def make_task() -> Task:
    fn = Fn(1, "f")
    fn.shape = Shape(1, LeaseSpec((), ""), {})
    return Task(b"t" * 16, fn, None, 0.0)


def test_plain_arguments_travel_as_their_pickle(arguments: Arguments) -> None:
    task = make_task()
    arguments.pack(task, (1, "a"), {})
    assert pickle.loads(task.args) == (1, "a")
    assert task.state == QUEUED and task.holds is None


@pytest.mark.parametrize("count", [1, 2, 3])
def test_nothing_is_pickled_for_arguments_that_are_refs_alone(
    arguments: Arguments, owner: FakeOwner, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.delattr(type(owner.objects), "pack_value")
    task = make_task()
    given = [new_id() for _ in range(count)]
    arguments.pack(task, tuple(ObjectRef(each) for each in given), {})
    assert task.args == SLOTS_ALONE[count] and task.deps == given and task.state == WAITING
    assert [slot.index for slot in pickle.loads(task.args)] == list(range(count))


def test_many_refs_and_refs_beside_values_are_pickled_as_slots(arguments: Arguments) -> None:
    many, mixed = make_task(), make_task()
    arguments.pack(many, tuple([ObjectRef(new_id()) for _ in range(9)]), {})
    assert [slot.index for slot in pickle.loads(many.args)] == list(range(9))
    arguments.pack(mixed, (ObjectRef(new_id()), 5), {})
    slot, number = pickle.loads(mixed.args)
    assert type(slot) is Slot and slot.index == 0 and number == 5


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
    around: Any = owner.objects.around
    assert around.notes == [("asked", oid)] and owner.dependents == {oid: [task]}
    owner.ready[oid] = b"value"
    arguments.enqueue(task)
    assert task.state == QUEUED and task.extra == {EXTRA_VALUES: [(oid, (0, b"value", None, None))]}
    assert task.fn.shape is not None and list(task.fn.shape.queue) == [task]


def test_a_task_whose_argument_is_lost_again_waits_again(arguments: Arguments, noting: Noting) -> None:
    task = make_task()
    task.deps, task.state = [new_id(OTHER)], WAITING
    arguments.enqueue(task)
    assert task.state == WAITING and task.missing == 1 and noting.looked == []


def test_a_failed_argument_fails_the_task_and_one_that_has_ended_is_left_alone(
    arguments: Arguments, owner: FakeOwner, noting: Noting
) -> None:
    oid = new_id()
    owner.objects.fail_object(oid, KeyError("k"))
    task = make_task()
    task.deps, task.state = [oid], WAITING
    arguments.enqueue(task)
    assert noting.failed == [(task, oid)]
    task.state = DONE
    arguments.enqueue(task)
    assert len(noting.failed) == 1


def test_a_constructor_is_told_of_its_arguments_and_of_an_error(
    arguments: Arguments, owner: FakeOwner, noting: Noting
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
    assert heard == ["start", "fail"] and noting.failed == []
