"""Replicas in turn."""

from __future__ import annotations

from sundog.serve.experimental.round_robin_router import RoundRobinRouter
from tests.serve.test_request_router import WHERE, choose, replica, request


def test_replicas_take_turns() -> None:
    router = RoundRobinRouter(WHERE)
    replicas = [replica(name) for name in "cab"]
    firsts = [choose(router, replicas, request())[0][0] for _ in range(6)]
    assert firsts[:3] == firsts[3:] and sorted(firsts[:3]) == ["a", "b", "c"]
    assert len(choose(router, replicas, request())) == 3, "one that is full is passed over"
