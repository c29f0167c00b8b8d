"""What a worker hears: each message reaches the part that it is for, and when a worker may end."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sundog.wire import control, peers
from sundog.worker import exits, messages
from tests.owner.fakes import OTHER, make_owner, new_id

TASK = b"t" * 16


class Noting:
    """Notes every call of a method that the tables name."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []


class FakeServing(Noting):
    def __init__(self) -> None:
        super().__init__()
        self.lanes = {7: "a lane"}

    def add_lane(self, owner: bytes, fd: int) -> None:
        self.calls.append(("lane", owner, fd))

    def cancel(self, task_id: bytes, recursive: bool) -> None:
        self.calls.append(("cancel", task_id, recursive))


class FakeLife(Noting):
    def __init__(self) -> None:
        super().__init__()
        self.serving = FakeServing()

    def construct(self, message: control.ConstructActor) -> None:
        self.calls.append(("construct", message.actor_id))

    def terminate(self, message: control.TerminateActor) -> None:
        self.calls.append(("terminate", message.graceful))

    def stop(self, reason: str) -> None:
        self.calls.append(("stop", reason))


class FakeBreakpoints(Noting):
    def set_triggers(self, message: control.SetTriggers) -> None:
        self.calls.append(("triggers", message))

    def set_captures(self, message: control.SetCaptures) -> None:
        self.calls.append(("captures", message))


class FakeDeadlines(Noting):
    def expire(self, process: bytes, message: peers.Expire, lanes: list[str]) -> None:
        self.calls.append(("expire", process, message.task_id, lanes))


class FakeGates(Noting):
    def consumed(self, task_id: bytes, items: int) -> None:
        self.calls.append(("consumed", task_id, items))


class FakeUnwanted(Noting):
    def told(self, process: bytes, message: peers.Unwanted) -> None:
        self.calls.append(("unwanted", process, message.indexes))


class FakeResults:
    def __init__(self) -> None:
        self.unwanted = FakeUnwanted()


class FakeExecutor:
    def __init__(self) -> None:
        self.deadlines, self.gates, self.results = FakeDeadlines(), FakeGates(), FakeResults()


class CancelsHere(Noting):
    def cancel_here(self, process: bytes, message: peers.CancelTask, cancel: Any) -> None:
        self.calls.append(("for", process))
        cancel(message.task_id, message.recursive)


@pytest.fixture
def owner() -> Any:
    made = make_owner()
    made.actors.scopes = {}
    return made


def test_messages_of_the_node_reach_the_actor_s_life_and_the_breakpoints(owner: Any) -> None:
    life, breakpoints = FakeLife(), FakeBreakpoints()
    table = messages.from_node(owner, cast(Any, life), cast(Any, breakpoints))
    assert table.handle(control.ConstructActor(b"a", 1, cast(Any, {})))
    assert table.handle(control.TerminateActor(True))
    assert table.handle(control.StopServing("idle"))
    assert table.handle(control.SetTriggers(()))
    assert table.handle(control.SetCaptures(("f",)))
    assert life.calls == [("construct", b"a"), ("terminate", True), ("stop", "idle")]
    assert [call[0] for call in breakpoints.calls] == ["triggers", "captures"]


def test_a_lane_goes_to_the_serving_that_the_worker_has_by_then(owner: Any) -> None:
    life = FakeLife()
    table = messages.from_node(owner, cast(Any, life), cast(Any, FakeBreakpoints()))
    before, life.serving = life.serving, FakeServing()  # it has become an asyncio actor
    assert table.handle(control.LaneOpened(OTHER), fds=(9,))
    assert before.calls == [] and life.serving.calls == [("lane", OTHER, 9)]


def test_messages_of_owners_reach_cancels_deadlines_gates_and_results(owner: Any) -> None:
    life, executor = FakeLife(), FakeExecutor()
    owner.cancels = CancelsHere()
    table = messages.from_peers(owner, cast(Any, life), cast(Any, executor))
    assert table.handle(peers.CancelTask(TASK, True, 0), OTHER)
    assert table.handle(peers.Expire(TASK, "f", 1.0, 0), OTHER)
    assert table.handle(peers.Consumed(TASK, 3), OTHER)
    assert table.handle(peers.Unwanted(TASK, [1]), OTHER)
    assert owner.cancels.calls == [("for", OTHER)] and life.serving.calls == [("cancel", TASK, True)]
    assert executor.deadlines.calls == [("expire", OTHER, TASK, ["a lane"])]
    assert executor.gates.calls == [("consumed", TASK, 3)]
    assert executor.results.unwanted.calls == [("unwanted", OTHER, [1])]


def test_a_worker_may_end_or_act_while_no_process_needs_it(owner: Any) -> None:
    table = messages.from_node(owner, cast(Any, FakeLife()), cast(Any, FakeBreakpoints()))
    for number, free in enumerate((True, False)):
        table.handle(control.MayExit())
        table.handle(control.MayAct())
        assert owner.control.sent[2 * number :] == [control.ExitOk(free), control.ActOk(free)]
        owner.table[TASK] = object()  # a task of its own is under way
    del owner.table[TASK]
    assert exits.may_exit(owner)
    owner.actors.scopes[b"a"] = object()  # an actor that it created lives as long as its handles
    assert not exits.may_exit(owner)


def test_a_worker_whose_object_another_process_holds_may_not_end(owner: Any) -> None:
    oid = new_id()
    owner.refs.hold(oid)
    assert exits.may_exit(owner)
    owner.refs.give(OTHER, [oid])
    assert not exits.may_exit(owner)
