"""Lanes over real socket pairs: packets sent, taken back and handed back, and the readers of replies."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from sundog.net import sockets as socket
from sundog.net.packets import make_pair
from sundog.owner.lanes import ActorLane, Lane, LeasedLane
from sundog.owner.rows import DONE, QUEUED, SENT, WAITING, Fn, Task


class Wires:
    """Lanes whose sockets are closed at the end, and what their tasks were queued as."""

    def __init__(self) -> None:
        self.lanes: list[Lane] = []
        self.requeued: list[tuple[list[bytes], bool]] = []
        self.busy: set[ActorLane] = set()

    def leased(self) -> LeasedLane:
        def requeue(_lane: LeasedLane | None, tasks: list[Task], late: bool) -> None:
            self.requeued.append(([task.id for task in tasks], late))

        lane = LeasedLane(b"w" * 8, 1, *make_pair(), requeue)
        self.lanes.append(lane)
        return lane

    def actor(self) -> ActorLane:
        lane = ActorLane(b"a" * 16, "A", self.busy)
        lane.sock, lane.peer = make_pair()
        self.lanes.append(lane)
        return lane


@pytest.fixture
def wires() -> Iterator[Wires]:
    made = Wires()
    yield made
    for lane in made.lanes:
        lane.close()


def send(lane: Lane, *numbers: int, fns: Any = None) -> list[Task]:
    """One packet with these tasks, which are in flight from then on."""
    tasks = [Task(bytes([number]) * 16, Fn(number, "f"), None, 0.0) for number in numbers]
    assert lane.send(fns, [(task.id, task.fn.number, None, 0.0, None) for task in tasks], "")
    for task in tasks:
        task.state, task.lane = SENT, lane
        lane.inflight[task.id] = task
    return tasks


def received(lane: Lane) -> Any:
    """What the worker would read next."""
    assert lane.peer is not None
    return pickle.loads(lane.peer.recv(1 << 16, socket.MSG_DONTWAIT))


def test_a_packet_has_tasks_freed_segments_and_setup_and_frees_are_told_once(wires: Wires) -> None:
    lane = wires.leased()
    lane.freed, lane.setup = [("s", 8)], {"lease": 3}
    [task] = send(lane, 1)
    assert received(lane) == (None, [(task.id, 1, None, 0.0, None)], [("s", 8)], {"lease": 3})
    send(lane, 2)
    assert received(lane)[2:] == ([], {"lease": 3})


def test_a_full_socket_takes_no_packet_and_nothing_is_forgotten(wires: Wires) -> None:
    lane = wires.leased()
    lane.freed = [("s", 8)]
    item = (b"t" * 16, 1, bytes(50_000), 0.0, None)
    while lane.send(None, [item], ""):
        lane.freed = [("s", 8)]
    assert lane.freed == [("s", 8)]


def test_an_idle_worker_is_told_what_it_may_use_again(wires: Wires) -> None:
    lane = wires.leased()
    lane.freed = [("s", 8)]
    lane.send_freed()
    assert received(lane) == (None, [], [("s", 8)], None)
    assert lane.freed == []


def test_one_unread_packet_is_taken_back_and_its_functions_are_unknown_again(wires: Wires) -> None:
    lane = wires.leased()
    lane.known = {1, 2}
    lane.freed = [("s", 8)]
    first = send(lane, 1, fns=[(1, b"", b"", "f", 1, False, 0)])
    second = send(lane, 2)
    assert lane.take_back(late=False) == 1
    assert wires.requeued == [([first[0].id], False)]
    assert lane.known == {2} and lane.freed == [("s", 8)] and list(lane.inflight) == [second[0].id]


def test_all_packets_are_taken_back_from_a_worker_that_is_blocked(wires: Wires) -> None:
    lane = wires.leased()
    tasks = send(lane, 1) + send(lane, 2)
    lane.blocked = True
    assert lane.take_back() == 2
    assert wires.requeued == [([task.id for task in tasks], True)]


def test_what_a_worker_hands_back_is_queued_unless_it_ended_meanwhile(wires: Wires) -> None:
    lane = wires.leased()
    lane.known = {1, 2, 3}
    one, two = send(lane, 1, 2)
    two.state = DONE
    lane.hand_back([one.id, two.id, b"unknown"])
    assert wires.requeued == [([one.id], True)] and lane.known == {3}


def test_calls_that_an_actor_has_not_read_stand_first_in_its_queue_again(wires: Wires) -> None:
    lane = wires.actor()
    later = Task(b"\x09" * 16, Fn("m", "m"), None, 0.0)
    lane.queue.append(later)
    one, two = send(lane, 1, 2)
    assert lane.take_back() == 2
    assert list(lane.queue) == [one, two, later] and one.state == QUEUED
    assert wires.busy == {lane} and not lane.inflight


def test_nothing_is_taken_back_once_the_actor_is_up(wires: Wires) -> None:
    lane = wires.actor()
    send(lane, 1)
    lane.close_peer()
    assert lane.take_back() == 0 and len(lane.inflight) == 1 and not wires.busy


def test_a_call_is_put_back_between_those_made_before_and_after_it(wires: Wires) -> None:
    lane = wires.actor()
    calls = [Task(b"o" * 8 + number.to_bytes(8, "little"), Fn("m", "m"), None, 0.0) for number in (1, 2, 3)]
    lane.queue.extend([calls[0], calls[2]])
    lane.put_back(calls[1])
    assert list(lane.queue) == calls


def test_replies_are_handled_and_the_end_of_the_worker_is_noticed(wires: Wires) -> None:
    lane = wires.actor()
    heard: list[Any] = []
    read = lane.reader(
        memoryview(bytearray(4096)),
        lambda which, batch: heard.append((which, batch)),
        lambda: heard.append("end"),
    )
    read()
    assert heard == []
    assert lane.peer is not None
    lane.peer.send(pickle.dumps([(b"t", 0, b"", 0.0)]))
    read()
    lane.close_peer()
    read()
    assert heard == [(lane, [(b"t", 0, b"", 0.0)]), "end"]


@pytest.mark.parametrize(("out_of_order", "taken"), [(False, [1]), (True, [1, 4])])
def test_calls_without_retries_that_nothing_held_up_are_taken_out_of_the_queue(
    wires: Wires, out_of_order: bool, taken: list[int]
) -> None:
    lane = wires.actor()
    lane.out_of_order = out_of_order
    calls = [Task(bytes([number]) * 16, Fn(number, "f"), None, 0.0) for number in range(1, 5)]
    for call in calls:
        call.state, call.retries = QUEUED, 0
    calls[1].retries = 2
    calls[2].state = WAITING
    lane.queue.extend(calls)
    assert [call.id[0] for call in lane.take_unsent()] == taken
    assert [call.id[0] for call in lane.queue] == [each for each in (1, 2, 3, 4) if each not in taken]
