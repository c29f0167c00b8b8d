"""Which task goes to which worker when, and how many leases the node is asked for. Real sockets, no worker."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from sundog.config import Config
from sundog.net import sockets as socket
from sundog.owner.dispatch import Dispatch
from sundog.owner.lanes import LeasedLane
from sundog.owner.replies import Replies
from sundog.owner.rows import DONE, QUEUED, SENT, Code, Fn, Shape, Task
from sundog.state.lease_spec import LeaseSpec
from sundog.wire.control import LeaseGranted, OpenLane, Release, ReturnLease
from tests.owner.fakes import make_owner
from tests.shortages import no_descriptor_free


class World:
    """A dispatch with one shape of demand, and workers that the node has granted."""

    def __init__(self) -> None:
        self.owner = owner = make_owner(Config(prefetch_ms=10))
        self.dispatch = Dispatch(owner, owner.control, owner.replies, owner.cancels)
        self.dispatch.actors = owner.actors
        self.shape: Shape = self.dispatch.shape_for(LeaseSpec(resources=(("CPU", 1.0),), env_key="01:"), {})
        self.fn = Fn(1, "f")
        self.fn.code, self.fn.shape = Code(b"h", b"code"), self.shape
        self.leases = 0

    def grant(self) -> LeasedLane:
        self.leases += 1
        worker = bytes([self.leases]) * 8
        self.dispatch.granted(
            LeaseGranted(self.shape.key, self.leases, worker, 100 + self.leases, (), self.leases)
        )
        return self.dispatch.lanes[worker]

    def queue(self, count: int, **facts: Any) -> list[Task]:
        made = []
        for _ in range(count):
            task = Task(self.owner.ids.task(), self.fn, None, 0.0)
            for name, value in facts.items():
                setattr(task, name, value)
            self.shape.queue.append(task)
            made.append(task)
        return made

    def told(self, kind: type) -> list[Any]:
        return [message for message in self.owner.control.sent if isinstance(message, kind)]


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    for lane in made.dispatch.lanes.values():
        lane.close()
    for fd in made.owner.control.fds:
        os.close(fd)


def packet(lane: LeasedLane) -> Any:
    """The next packet that the worker would read."""
    assert lane.peer is not None
    return pickle.loads(lane.peer.recv(1 << 20, socket.MSG_DONTWAIT))


def test_without_a_worker_the_node_is_told_how_many_would_help(world: World) -> None:
    world.queue(3)
    world.dispatch.send_now(world.shape)
    assert world.owner.control.wants == [(world.shape.key, 3)]


def test_a_granted_worker_gets_a_lane_through_the_node_and_the_function_once(world: World) -> None:
    lane = world.grant()
    assert world.told(OpenLane) == [OpenLane(lane.worker)]
    [first] = world.queue(1)
    world.dispatch.dispatch_all()
    fns, items, _, setup = packet(lane)
    assert [fn[0] for fn in fns] == [1] and [item[0] for item in items] == [first.id]
    assert setup["lease"] == 1 and first.state == SENT and first.lane is lane
    world.fn.estimate_s = 1.0
    world.queue(1)
    world.dispatch.dispatch_all()
    assert packet(lane)[0] is None, "the worker knows the function"


def test_tasks_of_an_unknown_function_spread_and_known_short_ones_share_a_packet(world: World) -> None:
    one, two = world.grant(), world.grant()
    world.queue(2)
    world.dispatch.dispatch_all()
    assert [len(lane.inflight) for lane in (one, two)] == [1, 1]
    for lane in (one, two):
        lane.inflight.clear()
        lane.load_s = 0.0
        packet(lane)
    world.fn.estimate_s = 1e-5
    world.queue(20)
    world.dispatch.dispatch_all()
    assert min(len(packet(lane)[1]) for lane in (one, two)) > 1 and not world.shape.queue


def test_packets_grow_with_what_waits_and_one_more_waits_at_the_worker(world: World) -> None:
    lane = world.grant()
    world.fn.estimate_s = 10e-3
    world.queue(4)
    world.dispatch.dispatch_all()
    assert [len(packet(lane)[1]), len(packet(lane)[1])] == [1, 1] and len(world.shape.queue) == 2
    lane.inflight.clear()
    lane.load_s = 0.0
    world.queue(198)
    world.dispatch.dispatch_all()
    assert [len(packet(lane)[1]), len(packet(lane)[1])] == [19, 19], "near to twenty times `prefetch_ms`"
    assert len(lane.inflight) == 38 and len(world.shape.queue) == 162


def test_leases_are_looked_at_seldom_while_all_have_work_and_more_waits(world: World) -> None:
    lane = world.grant()
    reactor = world.owner.reactor
    world.fn.estimate_s = 10e-3
    world.queue(200)
    world.dispatch.dispatch_all()
    world.dispatch.release_idle()
    seldom_s = reactor.tick_s
    assert seldom_s > world.dispatch.idle_lease_s
    world.shape.queue.clear()
    world.dispatch.dispatch_all()
    assert reactor.tick_s == world.dispatch.idle_lease_s and lane.inflight


def test_one_that_may_not_run_again_has_a_packet_of_its_own(world: World) -> None:
    lane = world.grant()
    world.fn.estimate_s = 1e-5
    world.queue(2, retries=0)
    world.dispatch.dispatch_all()
    assert [len(packet(lane)[1]), len(packet(lane)[1])] == [1, 1]


def test_a_task_that_ended_while_it_waited_is_not_sent(world: World) -> None:
    lane = world.grant()
    world.queue(1, state=DONE)
    [alive] = world.queue(1)
    world.dispatch.dispatch_all()
    assert list(lane.inflight) == [alive.id] and not world.shape.queue


def test_unread_packets_are_taken_back_for_a_worker_that_idles(world: World) -> None:
    busy = world.grant()
    world.fn.estimate_s = 1.0
    tasks = world.queue(2)
    world.dispatch.dispatch_all()
    assert len(busy.inflight) == 2, "one runs, one is ahead"
    packet(busy)  # it reads the first
    idle = world.grant()
    world.dispatch.dispatch_all()
    assert list(idle.inflight) == [tasks[1].id] and list(busy.inflight) == [tasks[0].id]


def test_nothing_waits_at_a_worker_behind_a_task_that_may_take_long(world: World) -> None:
    first = world.grant()
    tasks = world.queue(3)
    world.dispatch.dispatch_all()
    assert list(first.inflight) == [tasks[0].id] and len(world.shape.queue) == 2
    second = world.grant()
    world.dispatch.dispatch_all()
    assert list(second.inflight) == [tasks[1].id]


def test_the_next_task_is_not_the_one_behind_a_task_that_runs_longer_than_others(world: World) -> None:
    slow, quick = world.grant(), world.grant()
    world.fn.estimate_s = 0.1
    tasks = world.queue(6)
    world.dispatch.dispatch_all()
    assert [len(lane.inflight) for lane in (slow, quick)] == [2, 2]
    behind = list(slow.inflight)[1]
    packet(slow)  # its worker runs the first one, which takes long
    slow.last_s -= 0.2
    quick.inflight.clear()
    quick.load_s = 0.0
    world.dispatch.dispatch_all()
    assert list(slow.inflight) == [tasks[0].id]
    assert next(iter(quick.inflight)) == behind


def test_a_blocked_worker_gets_nothing_more(world: World) -> None:
    lane = world.grant()
    lane.blocked = True
    [task] = world.queue(1)
    world.dispatch.dispatch_all()
    assert task.state == QUEUED and world.owner.control.wants == [(world.shape.key, 1)]


def test_a_lease_that_the_node_wants_back_is_given_when_its_last_task_has_ended(world: World) -> None:
    lane = world.grant()
    [running] = world.queue(1)
    world.dispatch.dispatch_all()
    packet(lane)
    world.dispatch.reclaim(ReturnLease(1))
    assert world.told(Release) == [] and lane.reclaim
    lane.inflight.pop(running.id)
    world.dispatch.release(lane)
    assert world.told(Release) == [Release(1, True)]
    world.dispatch.release(lane)
    assert len(world.told(Release)) == 1, "once"


def test_a_lease_for_a_demand_that_was_withdrawn_goes_back_at_once(world: World) -> None:
    world.dispatch.granted(LeaseGranted(99, 7, b"w" * 8, 1, (), 3))
    assert world.told(Release) == [Release(7, True)] and not world.dispatch.lanes
    assert world.owner.control.last_grant == 3, "it was read all the same"


def test_tasks_that_come_back_stand_first_in_order_and_cancelled_ones_end(world: World) -> None:
    later = world.queue(1)
    back = [Task(world.owner.ids.task(), world.fn, None, 0.0) for _ in range(3)]
    back[1].cancelled = True
    world.fn.estimate_s = 1e-5
    world.dispatch.requeue(None, back)
    assert list(world.shape.queue) == [back[0], back[2], *later]
    assert world.owner.cancels.failed == [back[1]]
    assert world.fn.estimate_s >= 1e-3, "such tasks take longer than it seemed"


def test_a_function_never_seen_to_end_stays_unknown_when_its_task_is_taken_back(world: World) -> None:
    lane = world.grant()
    unknown, short = Fn(2, "g"), Fn(3, "h")
    unknown.shape = short.shape = world.shape
    short.estimate_s = 1e-5
    tasks = [Task(world.owner.ids.task(), fn, None, 0.0) for fn in (unknown, short)]
    for task in tasks:
        task.estimate_s = 1.0
    lane.load_s = 2.0
    world.dispatch.requeue(lane, tasks)
    assert list(world.shape.queue) == tasks and lane.load_s == 0
    assert unknown.estimate_s < 0 and short.estimate_s > 1e-5


def test_idle_leases_go_back_and_the_clock_stops(world: World) -> None:
    lane = world.grant()
    lane.idle_since_s = -1e9
    world.dispatch.release_idle()
    assert world.told(Release) == [Release(1, True)] and not world.owner.reactor.ticking


def test_the_clock_stops_while_each_worker_has_one_task_and_goes_on_with_the_reply(world: World) -> None:
    lane = world.grant()
    (task,) = world.queue(1)
    world.dispatch.dispatch_all()
    world.dispatch.release_idle()
    reactor = world.owner.reactor
    assert reactor.ticking, "the task may be a short one"
    lane.last_s = -1e9
    world.dispatch.release_idle()
    assert not reactor.ticking
    replies = Replies(world.owner, world.owner.control)
    replies.dispatch = world.dispatch
    replies.handle(lane, [(task.id, 0, b"", 0.0)])
    assert reactor.ticking and world.told(Release) == []


def test_the_clock_goes_on_when_a_second_task_is_sent_to_a_busy_worker_or_one_comes_back(
    world: World,
) -> None:
    lane = world.grant()
    world.fn.estimate_s = 1e-5
    world.queue(1)
    world.dispatch.dispatch_all()
    reactor = world.owner.reactor
    reactor.ticking = False
    world.dispatch.requeue(lane, [])
    assert not reactor.ticking
    world.queue(1)
    world.dispatch.dispatch_all()
    assert len(lane.inflight) == 2 and reactor.ticking
    lane.last_s = -1e9
    world.dispatch.release_idle()
    assert reactor.ticking, "an idle worker may come, to take one of them over"
    reactor.ticking = False
    world.dispatch.requeue(lane, list(lane.inflight.values()))
    assert reactor.ticking


def test_equal_demands_share_a_shape_unless_one_is_private(world: World) -> None:
    spec = LeaseSpec(resources=(("CPU", 1.0),), env_key="01:")
    assert world.dispatch.shape_for(spec, {}) is world.shape
    assert world.dispatch.private_shape(spec, {}) is not world.shape


def test_a_worker_that_no_lane_can_be_opened_to_is_kept_until_a_descriptor_is_free(world: World) -> None:
    world.queue(1)
    world.dispatch.send_now(world.shape)
    with no_descriptor_free():
        world.dispatch.granted(LeaseGranted(world.shape.key, 1, b"w" * 8, 101, (), 1))
        assert not world.dispatch.leases and world.owner.actors.shortages == 1
    world.dispatch.granted(LeaseGranted(99, 2, b"v" * 8, 102, (), 2))
    assert world.owner.control.wants == [(world.shape.key, 1)] and world.shape.wanted == 1
    [again] = world.owner.agenda.due
    again()
    assert world.owner.control.last_grant == 2, (
        "it was read before the second one, whenever there is a lane for it"
    )
    world.dispatch.dispatch_all()
    assert len(packet(world.dispatch.leases[1])[1]) == 1
