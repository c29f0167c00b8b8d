"""Streams of generator tasks: items in order, an end, an error, a consumer that closes or forgets."""

from __future__ import annotations

from typing import Any

import pytest

from sundog.ids import RESULT_SUFFIX, result_id
from sundog.owner.lanes import LeasedLane
from sundog.owner.rows import DONE, Fn, Task
from sundog.owner.streams import Streams
from sundog.serialize.pack import unpack
from sundog.wire.lanes import ERROR, OK
from sundog.wire.peers import Consumed
from tests.owner.fakes import OTHER, make_owner


class FakeLineage:
    """Nothing is made again: what came a second time."""

    def __init__(self) -> None:
        self.resumed: list[Task] = []
        self.rebuilt: list[int] = []

    def replaced(self, _task: Task, _oid: bytes, _value: Any) -> bool:
        return False

    def resume(self, task: Task) -> None:
        self.resumed.append(task)

    def item(self, _task: Task, index: int, _value: Any, _lane: Any) -> None:
        self.rebuilt.append(index)


class FakeCancels:
    """Tasks that were cancelled, and whether quietly."""

    def __init__(self) -> None:
        self.cancelled: list[tuple[Task, bool]] = []

    def cancel_task(self, task: Task, *, force: bool, recursive: bool, quiet: bool) -> None:
        self.cancelled.append((task, quiet))


class World:
    """One generator task that runs in a worker."""

    def __init__(self, backpressure: int = -1) -> None:
        self.owner = make_owner()
        fakes: tuple[Any, Any] = FakeLineage(), FakeCancels()
        made = Streams(self.owner, self.owner.peers, self.owner.getting)
        made.lineage, made.cancels = fakes
        self.streams: Any = made
        fn = Fn(1, "count")
        fn.returns, fn.one, fn.backpressure = "streaming", False, backpressure
        self.task = Task(self.owner.ids.task(), fn, None, 0.0)
        self.lane = LeasedLane(OTHER, 7, None, None, lambda *_: None)  # type: ignore[arg-type]
        self.task.lane = self.lane
        self.streams.open(self.task)

    def yields(self, *indexes: int) -> None:
        for index in indexes:
            self.streams.item(self.task, index, (OK, b"item", None, None), self.lane)

    def take(self) -> Any:
        return self.streams.take(self.task.id)


def test_items_are_given_in_order_and_then_the_end() -> None:
    world = World()
    assert world.take() is None
    world.yields(1, 2)
    assert [world.take(), world.take(), world.take()] == [
        result_id(world.task.id, 1),
        result_id(world.task.id, 2),
        None,
    ]
    world.streams.ended(world.task, 2)
    assert world.take() is False and world.streams.is_finished(world.task.id)


def test_a_reader_that_waits_is_woken_by_each_item_and_by_the_end() -> None:
    world = World()
    woken: list[str] = []
    stream = world.streams.of(world.task)
    stream.wakers.append(lambda: woken.append("item"))
    world.yields(1)
    stream.wakers.append(lambda: woken.append("end"))
    world.streams.ended(world.task, 1)
    assert woken == ["item", "end"]


def test_items_of_a_second_attempt_that_were_there_already_are_dropped() -> None:
    world = World()
    world.yields(1, 2, 1, 2, 3)
    assert world.streams.of(world.task).arrived == 3
    assert len([oid for oid in world.owner.ready if oid[:16] == world.task.id]) == 3


def test_a_second_attempt_that_yields_less_is_an_error_that_says_so() -> None:
    world = World()
    world.yields(1, 2, 3)
    world.task.attempt = 1
    world.streams.ended(world.task, 1)
    value = world.owner.objects.value(result_id(world.task.id, 4))
    assert value[0] == ERROR
    error = unpack(value[1], None)
    assert "count() (task" in str(
        error
    ) and "ended after 1 items, but an earlier attempt had yielded 3" in str(error)
    assert (error.attempt, error.yielded, error.expected) == (2, 1, 3)


def test_an_error_is_one_more_item_and_then_the_end() -> None:
    world = World()
    world.yields(1)
    world.streams.failed(world.task, world.owner.objects.error_value(ValueError("no")))
    world.take()
    assert world.take() == result_id(world.task.id, 2)
    assert world.take() is False


def test_whether_the_next_item_would_block_is_known() -> None:
    world = World()
    assert not world.streams.peek_ready(world.task.id) and world.streams.expects(result_id(world.task.id, 1))
    world.yields(1)
    assert world.streams.peek_ready(world.task.id) and not world.streams.expects(result_id(world.task.id, 1))
    assert world.streams.peek_ready(b"unknown" * 3)  # `next` ends at once


def test_a_consumer_that_closes_drops_what_waits_and_cancels_the_task_quietly() -> None:
    world = World()
    world.yields(1, 2)
    world.take()
    world.streams.close(world.task.id)
    world.streams.close(world.task.id)
    assert world.streams.cancels.cancelled == [(world.task, True)]
    assert world.task.retries_at_close == 3  # not the task's fault: what it yielded can be made again
    assert result_id(world.task.id, 2) not in world.owner.refs.owned
    assert result_id(world.task.id, 1) in world.owner.refs.owned


def test_a_stream_that_was_closed_is_forgotten_with_its_task() -> None:
    world = World()
    world.streams.close(world.task.id)
    assert world.task.id in world.streams.streams
    world.task.state = DONE
    world.streams.failed(world.task, world.owner.objects.error_value(ValueError("cancelled")))
    assert world.streams.streams == {}


def test_a_generator_object_that_is_dropped_lets_its_task_go_on() -> None:
    world = World(backpressure=1)
    world.yields(1)
    world.streams.drop(world.task.id)
    assert world.streams.cancels.cancelled == []
    world.yields(2)
    assert world.owner.peers.sent[-1] == (OTHER, *Consumed(world.task.id, 2))
    assert result_id(world.task.id, 2) not in world.owner.ready


def test_a_producer_with_a_limit_hears_of_each_item_that_was_read_and_others_do_not() -> None:
    for limit, told in ((2, 1), (-1, 0)):
        world = World(backpressure=limit)
        world.yields(1, 2)
        world.take()
        assert len(world.owner.peers.sent) == told
    world = World(backpressure=2)
    world.yields(1)
    world.streams.hurry(world.task)
    world.streams.hurry(world.task)
    [(_, _, _, count)] = world.owner.peers.sent
    assert count > 1 << 60  # it runs on to its end


@pytest.mark.parametrize("early", [True, False])
def test_the_completion_of_a_generator_is_an_object_of_its_own(early: bool) -> None:
    world = World()
    oid = world.streams.completion(world.task.id) if early else b""
    world.yields(1)
    assert oid not in world.owner.ready
    world.streams.ended(world.task, 1)
    oid = oid or world.streams.completion(world.task.id)
    assert unpack(world.owner.objects.value(oid)[1], None) is None


def test_an_item_of_a_run_for_lost_results_goes_to_the_lineage() -> None:
    world = World()
    world.task.rebuilding = set()
    world.yields(1)
    assert world.streams.lineage.rebuilt == [1] and world.streams.of(world.task).arrived == 0


def test_all_items_of_a_dynamic_task_are_refs_inside_one_result() -> None:
    world = World()
    values = [(OK, b"a", None, None), (OK, b"b", None, None)]
    world.streams.dynamic(world.task, values, world.lane)
    assert world.owner.objects.value(result_id(world.task.id, 2))[1] == b"a"
    whole = world.owner.objects.value(world.task.id + RESULT_SUFFIX)
    assert sorted(whole[3]) == [result_id(world.task.id, 2), result_id(world.task.id, 3)]
