"""Crews: tasks for a fixed number of workers, and what becomes of both at the end."""

from __future__ import annotations

from typing import Any

import pytest

from sundog.exceptions import RaySystemError
from sundog.ids import RESULT_SUFFIX
from sundog.owner.crews import Crew
from sundog.owner.lanes import LeasedLane
from sundog.owner.rows import Fn, Shape, Task
from sundog.state.lease_spec import LeaseSpec
from sundog.wire.control import KillWorker
from tests.owner.fakes import make_owner


class FakeDispatch:
    """Notes which shapes are looked at and which leases are given back."""

    def __init__(self) -> None:
        self.looked: list[Shape] = []
        self.released: list[LeasedLane] = []
        self.rounds = 0

    def private_shape(self, spec: LeaseSpec, setup: Any) -> Shape:
        return Shape(1, spec, setup)

    def look_at(self, shape: Shape) -> Shape:
        self.looked.append(shape)
        return shape

    def kick(self) -> None:
        pass

    def dispatch_all(self) -> None:
        self.rounds += 1

    def release(self, lane: LeasedLane) -> None:
        self.released.append(lane)


class FakeTasks:
    """Submits one task the long way."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.submitted: list[tuple[object, ...]] = []

    def submit(self, fn: Fn, args: tuple[object, ...], _kwargs: dict[str, object]) -> Task:
        self.submitted.append(args)
        return Task(self.owner.ids.task(), fn, None, 0.0)


class FakeGetting:
    """Waits: what the test says is ready, or idle after some looks."""

    def __init__(self) -> None:
        self.asked: list[list[bytes]] = []
        self.there: list[bytes] = []
        self.looks = 0

    def wait(self, oids: list[bytes], _count: int, _timeout_s: float | None) -> list[bytes]:
        self.asked.append(oids)
        return [oid for oid in oids if oid in self.there][:1]

    def block_until(self, done: Any, _key: bytes, _timeout_s: float | None) -> bool:
        self.looks += 1
        return self.looks > 2 or bool(done())


class FakeCancels:
    """Tasks that were cancelled."""

    def __init__(self) -> None:
        self.cancelled: list[Task] = []

    def cancel_task(self, task: Task, *, force: bool, recursive: bool) -> None:
        assert force and recursive
        self.cancelled.append(task)


@pytest.fixture
def crew() -> Any:
    owner = make_owner(inline_max=100)
    owner.dispatch, owner.getting, owner.cancels = FakeDispatch(), FakeGetting(), FakeCancels()
    owner.tasks = FakeTasks(owner)
    return Crew(owner, 3, LeaseSpec(resources=(), env_key=""), {}, spoiled=True)


def _lane(*tasks: Task) -> LeasedLane:
    lane = LeasedLane(bytes([len(tasks)]) * 8, 7, None, None, lambda *_: None)  # type: ignore[arg-type]
    lane.inflight = {task.id: task for task in tasks}
    return lane


def _task(number: int) -> Task:
    return Task(bytes([number]) * 16, Fn(1, "f"), None, 0.0)


def test_each_worker_gets_one_task_first_and_then_whichever_is_free_does(crew: Any) -> None:
    numbers = iter(range(10))
    assert crew.size == 3 and crew.muster(lambda: next(numbers)) == [0, 1, 2]
    assert crew._row.mustering and crew._row.spoiled
    crew.mustered()
    assert not crew._row.mustering and crew._owner.dispatch.rounds == 1


def test_the_tasks_of_a_function_go_to_the_crew_alone(crew: Any) -> None:
    fn = Fn(1, "f")
    crew.employ(fn)
    assert fn.shape is crew._shape and fn.together


def test_small_plain_items_are_packed_here_and_others_go_the_long_way(crew: Any) -> None:
    fn = Fn(1, "f")
    crew.employ(fn)
    large, odd = "x" * 1000, object()
    found = crew.submit(fn, [1, large, odd, None])
    assert crew._owner.tasks.submitted == [(large,), (odd,)]
    assert [task.id + RESULT_SUFFIX for task in crew._shape.queue] == [found[0].binary(), found[3].binary()]
    assert len(found) == 4 and crew._owner.dispatch.looked == [crew._shape]


def test_results_in_order_end_before_the_first_that_is_not_there(crew: Any) -> None:
    one, two, three = b"1" * 20, b"2" * 20, b"3" * 20
    crew._owner.ready |= {one: b"", three: b""}
    crew._owner.getting.there = [one, three]
    assert crew.ready([one, two, three], 1.0, in_order=True) == [one]
    assert crew.ready([one, two, three], 1.0, in_order=False) == [one, three]
    assert crew.ready([two, three], 0, in_order=True) == []
    assert crew._owner.getting.asked == [[one], [one, two, three], [two]]


def test_the_end_gives_back_idle_workers_alone(crew: Any) -> None:
    idle, busy = _lane(), _lane(_task(1))
    crew._shape.lanes = [idle, busy]
    crew.close()
    assert not crew._row.open and crew._owner.reactor.ticking and crew._owner.dispatch.released == []
    crew.end()
    assert crew._owner.dispatch.released == [idle]


def test_waiting_for_idle_workers_ends_with_the_session(crew: Any) -> None:
    crew._shape.queue.append(_task(1))
    crew.await_idle()
    assert crew._owner.getting.looks == 3
    crew._owner.closed, crew._owner.getting.looks = RaySystemError("over"), 0
    with pytest.raises(RaySystemError, match=r"over"):
        crew.await_idle()


def test_an_abort_cancels_what_waits_and_kills_what_runs(crew: Any) -> None:
    waiting, running = _task(1), _task(2)
    busy = _lane(running)
    crew._shape.queue.append(waiting)
    crew._shape.lanes = [busy]
    crew.abort("its Pool was terminated")
    assert crew._owner.cancels.cancelled == [waiting] and running.cancelled
    assert crew._owner.control.sent == [KillWorker(busy.worker, "its Pool was terminated")]


def test_an_abort_after_the_session_does_nothing(crew: Any) -> None:
    crew._shape.queue.append(_task(1))
    crew._owner.closed = RaySystemError("over")
    crew.abort("late")
    assert crew._owner.cancels.cancelled == [] and crew._owner.control.sent == []
