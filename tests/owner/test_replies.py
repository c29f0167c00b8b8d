"""Replies of a worker that is gone."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from sundog.net.packets import make_pair
from sundog.owner.replies import Replies


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
    owner: Any = SimpleNamespace(handle=lambda _lane, replies: found.extend(replies))
    Replies.drain_lane(owner, SimpleNamespace(sock=ours))
    ours.close()
    assert found == [0, 1, 2]
