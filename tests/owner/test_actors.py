"""An actor as its caller sees it, between two of its lives."""

from __future__ import annotations

import os
import pickle
from typing import Any

import pytest

from sundog.net.packets import make_pair
from sundog.owner.actors import ActorCalls
from sundog.owner.lanes import ActorLane, Lane
from sundog.owner.rows import Fn, Task
from sundog.wire.control import ActorChanged
from tests.owner.fakes import make_owner
from tests.shortages import no_descriptor_free

ACTOR = b"a" * 16


class Taking:
    """Replies: each id that comes ends its call."""

    def handle(self, lane: Lane, ids: Any) -> None:
        for each in ids:
            lane.inflight.pop(each, None)


@pytest.mark.parametrize("answered", [True, False])
def test_an_answer_of_its_next_life_ends_the_restart_before_the_node_says_so(answered: bool) -> None:
    owner = make_owner()
    calls = ActorCalls(owner, owner.control, owner.peers, Taking(), *[None] * 3)  # type: ignore[arg-type]
    link = ActorLane(ACTOR, "A", calls.busy)
    link.state, link.away, link.incarnation = "RESTARTING", True, 1
    task = Task(b"t" * 16, Fn(1, "m"), None, 0.0)
    link.inflight[b"call"] = task
    ours, theirs = make_pair()
    theirs.send(pickle.dumps([b"call"] if answered else []))

    link.sock = ours
    link.reader(owner.control.receive_buffer, calls._heard)()

    assert (link.state, link.away) == (("ALIVE", False) if answered else ("RESTARTING", True))
    calls.links[ACTOR] = link
    calls.published(
        ActorChanged(ACTOR, "RESTARTING", None, 1, None, 0)
    )  # a word that was on its way: of this very life
    assert link.inflight == ({} if answered else {b"call": task})
    for sock in (ours, theirs):
        sock.close()


def test_the_pid_of_an_actor_that_died_before_it_was_known_is_of_its_last_process() -> None:
    owner = make_owner()
    calls = ActorCalls(owner, owner.control, owner.peers, Taking(), *[None] * 3)  # type: ignore[arg-type]
    link = calls.links[ACTOR] = ActorLane(ACTOR, "A", calls.busy)
    link.state, link.incarnation = "PENDING", 1
    calls.published(ActorChanged(ACTOR, "RESTARTING", None, 2, None, 77))
    assert (link.state, link.pid, link.worker) == ("RESTARTING", 77, b"")
    for sock in (link.sock, link.peer):
        if sock is not None:
            sock.close()
    for fd in owner.control.fds:
        os.close(fd)


def test_a_lane_for_which_a_descriptor_was_refused_all_the_same_is_opened_later() -> None:
    owner = make_owner()
    calls = ActorCalls(owner, owner.control, owner.peers, Taking(), *[None] * 3)  # type: ignore[arg-type]
    told: list[str] = []
    calls.on_shortage = told.append
    assert calls.gauge.take(2), "it has looked, and there was room"
    with no_descriptor_free():
        link = calls.link(ACTOR, "A")
        assert link.sock is None and list(calls.unopened) == [link]
    assert len(told) == 1 and "file descriptors" in told[0]
    calls.gauge.used_up()
    calls.dispatch_all()
    assert link.sock is not None and not calls.unopened
    link.close()
    for fd in owner.control.fds:
        os.close(fd)
