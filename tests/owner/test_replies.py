"""Replies of a worker that is gone."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from sundog.net.packets import make_pair
from sundog.owner.lanes import ActorLane, Lane, LeasedLane
from sundog.owner.replies import Replies
from sundog.owner.rows import Fn, Task
from tests.owner.fakes import make_owner


class Taking(Replies):
    """Replies that are only noted."""

    def __init__(self, found: list[Any]) -> None:
        self.found = found

    def handle(self, _lane: Lane, batch: Any) -> None:
        self.found.extend(batch)


@pytest.mark.parametrize("unread", [0, 1, 5])
def test_replies_that_an_actor_sent_before_it_died_are_read_whatever_calls_it_had_not_read(
    unread: int,
) -> None:
    ours, theirs = make_pair()
    for number in range(3):
        theirs.send(pickle.dumps([number]))
    for number in range(unread):
        ours.send(b"call %d" % number)
    theirs.close()
    found: list[Any] = []
    lane = ActorLane(b"a" * 16, "A", set())
    lane.sock = ours
    Taking(found).drain_lane(lane)
    ours.close()
    assert found == [0, 1, 2]


def test_what_a_lease_needs_is_told_with_every_packet_until_one_is_answered() -> None:
    ours, theirs = make_pair()
    lane = LeasedLane(b"w", 1, ours, theirs, lambda *_: None)
    lane.setup = {"accelerators": (("GPU", (0,)),), "lease": 3}
    owner = make_owner()
    fn = Fn(1, "f")

    def send(number: int) -> Any:
        lane.inflight[bytes([number])] = Task(bytes([number]), fn, None, 0.0)
        assert lane.send(None, [(bytes([number]), 1, None, 0.0, None)], "")
        return pickle.loads(theirs.recv(1 << 16))[3]

    assert send(1) == send(2) == {"accelerators": (("GPU", (0,)),), "lease": 3}
    Replies(owner, owner.control).handle(lane, [(b"\x01", 0, b"", 0.0)])
    assert send(3) is None
    ours.close()
    theirs.close()
