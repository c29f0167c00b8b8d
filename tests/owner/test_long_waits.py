"""Gets that last: told to the node, reported with their stacks, broken when they are part of a deadlock."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from sundog.config import Config
from sundog.exceptions import DeadlockError
from sundog.ids import result_id
from sundog.owner import context
from sundog.owner.lanes import ActorLane, LeasedLane
from sundog.owner.long_waits import LongWaits
from sundog.owner.rows import QUEUED, SENT, WAITING, Fn, Shape, Task
from sundog.state import wait_facts
from sundog.state.lease_spec import LeaseSpec
from sundog.state.wait_facts import RunSlot, TaskFact
from sundog.wire.control import Deadlock, Stalled, TellWaits, WaitsTold
from tests.owner.fakes import ME, OTHER, FakeActors, FakeReplies, make_owner, new_id


class FakeDispatch:
    """No leased worker."""

    def __init__(self) -> None:
        self.lanes: dict[bytes, LeasedLane] = {}


class Replies(FakeReplies):
    """Replies that lie in a socket until somebody reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.drained: list[Any] = []

    def drain_lane(self, lane: Any) -> None:
        self.drained.append(lane)


@pytest.fixture
def waits() -> Any:
    owner = make_owner(Config(deadlock_check_s=2.0))
    return LongWaits(owner, owner.control, Replies(), FakeDispatch(), FakeActors())  # type: ignore[arg-type]


def _missing(*oids: bytes, need: int = 1) -> Any:
    return lambda: ("get", need, oids)


def _report(waits: Any, *tasks: bytes) -> wait_facts.Report:
    waits.tell(TellWaits(5, tasks))
    told = waits.control.sent[-1]
    assert isinstance(told, WaitsTold) and told.number == 5
    return told.report


def _task(waits: Any, state: int, **facts: Any) -> Task:
    fn = Fn(1, "f")
    fn.shape = Shape(3, LeaseSpec(resources=(("CPU", 1.0),), env_key=""), {})
    task = Task(waits.basics.ids.task(), fn, None, 0.0)
    task.state = state
    for name, value in facts.items():
        setattr(task, name, value)
    waits.basics.table[task.id] = task
    return task


def test_the_node_hears_how_many_waits_last(waits: Any) -> None:
    first, second = waits.note(_missing(), 1.0), waits.note(_missing(), 2.0)
    waits.forget(first)
    waits.forget(second)
    assert waits.control.sent == [Stalled(1), Stalled(2), Stalled(1), Stalled(0)]


def test_the_check_can_be_switched_off() -> None:
    for enabled, patience in ((True, 2.0), (False, None)):
        owner = make_owner(Config(deadlock_check_s=2.0, enable_deadlock_check=enabled))
        made = LongWaits(owner, owner.control, Replies(), FakeDispatch(), FakeActors())  # type: ignore[arg-type]
        assert made.patience_s == patience


def test_a_wait_is_reported_with_the_task_whose_code_it_is_and_its_stack(waits: Any) -> None:
    token = context.running.set((b"task", "f", 0, b""))
    oid = new_id()
    waits.note(_missing(oid), 7.0)
    context.running.reset(token)
    [told] = _report(waits).waits
    assert (told.verb, told.runs, told.name, told.targets, told.since_s) == ("get", b"task", "f", (oid,), 7.0)
    assert told.holds_slot  # the main thread waits
    assert told.stack[-1].function == "_report" and told.stack[-1].file == __file__


def test_a_thread_of_the_user_holds_no_slot(waits: Any) -> None:
    thread = threading.Thread(target=lambda: waits.note(_missing(new_id()), 1.0))
    thread.start()
    thread.join()
    assert [each.holds_slot for each in _report(waits).waits] == [False]


def test_a_wait_that_is_about_to_end_or_of_an_unknown_target_is_not_reported(waits: Any) -> None:
    oid = new_id()
    waits.note(lambda: None, 1.0)
    waits.note(_missing(oid, need=0), 1.0)
    waits.note(_missing(oid, need=2), 1.0)  # one of the two came meanwhile
    assert _report(waits).waits == ()


def test_a_deadlock_wakes_its_wait_which_raises_the_cycle(waits: Any) -> None:
    wait = waits.note(_missing(new_id()), 1.0)
    woken: list[bytes] = []
    wait.gate = woken.append
    waits.deadlock(Deadlock(99, []))
    assert woken == []
    link = {
        "name": "driver",
        "pid": 7,
        "verb": "get",
        "waits_for": "f()",
        "why": "",
        "stack": [],
        "task_id": "",
    }
    waits.deadlock(Deadlock(wait.serial, [link]))
    assert woken == [b""] and _report(waits).waits == ()  # told once
    error = wait.error()
    assert isinstance(error, DeadlockError) and error.cycle == [link]


def test_replies_that_lie_in_a_socket_are_read_before_the_report(waits: Any) -> None:
    task = _task(waits, SENT)
    lane = LeasedLane(OTHER, 7, None, None, lambda *_: None)  # type: ignore[arg-type]
    lane.inflight[task.id] = task
    waits.dispatch.lanes[OTHER] = lane
    _report(waits)
    assert waits.replies.drained == [lane]


def test_where_a_task_is_follows_from_its_state(waits: Any) -> None:
    lane = LeasedLane(OTHER, 7, None, None, lambda *_: None)  # type: ignore[arg-type]
    actor = ActorLane(b"a" * 16, "A", set())
    theirs = new_id(OTHER)
    waiting = _task(waits, WAITING, deps=[theirs])
    queued, sent = _task(waits, QUEUED), _task(waits, SENT, lane=lane)
    first = _task(waits, WAITING, actor=actor, deps=[theirs])
    behind = _task(waits, QUEUED, actor=actor)
    actor.queue.extend((first, behind))
    call = _task(waits, SENT, actor=actor, lane=actor)
    everything = [task.id for task in (waiting, queued, sent, behind, call)]
    facts = dict(_report(waits, *everything).tasks)
    assert facts[waiting.id] == TaskFact(wait_facts.ARGUMENTS, "f", needs=(theirs,))
    assert facts[queued.id] == TaskFact(wait_facts.LEASE, "f", key=3)
    assert facts[sent.id] == TaskFact(wait_facts.SENT, "f", key=3, worker=OTHER)
    assert facts[behind.id] == TaskFact(wait_facts.BEHIND, "f", ahead=first.id)
    assert facts[call.id] == TaskFact(wait_facts.CALL, "f", actor=b"a" * 16)
    assert first.id in facts  # what it is behind is told, though nobody asked for it
    actor.out_of_order = True
    assert dict(_report(waits, behind.id).tasks)[behind.id].where == wait_facts.CALL


def test_tasks_that_make_what_is_missing_are_told_too(waits: Any) -> None:
    maker = _task(waits, QUEUED)
    oid = result_id(maker.id, 1)
    assert oid[: len(ME)] == ME
    user = _task(waits, WAITING, deps=[oid])
    waits.note(_missing(result_id(user.id, 1)), 1.0)
    assert {task for task, _ in _report(waits).tasks} == {maker.id, user.id}


def test_the_worker_says_where_it_runs_calls_and_whose_main_thread_waits(waits: Any) -> None:
    asked: list[bytes] = []

    def places(main_runs: bytes) -> Any:
        asked.append(main_runs)
        return (RunSlot("main", 1, (b"t",)),), ((b"u", "main"),), True

    waits.places = places
    token = context.running.set((b"task", "f", 0, b""))
    waits.note(_missing(new_id()), 1.0)
    context.running.reset(token)
    report = _report(waits)
    assert asked == [b"task"] and report.slots[0].running == (b"t",)
    assert report.queued == ((b"u", "main"),) and report.exclusive
