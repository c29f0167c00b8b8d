"""Requests of one session, and the replica that they go to."""

from __future__ import annotations

import pytest

from sundog.serve.experimental.consistent_hash_router import ConsistentHashRouter
from tests.serve.test_request_router import WHERE, choose, replica, request


def test_requests_of_one_session_stay_with_their_replica() -> None:
    router = ConsistentHashRouter(WHERE)
    replicas = [replica(name) for name in "abcd"]
    homes = {f"s{number}": choose(router, replicas, request(session=f"s{number}")) for number in range(40)}
    assert all(len(ranked) == 3 for ranked in homes.values()), "a home and two stand-ins"
    assert {ranked[0][0] for ranked in homes.values()} == {"a", "b", "c", "d"}
    fewer = [each for each in replicas if each.replica_id.unique_id != "d"]
    for session, ranked in homes.items():
        moved = choose(router, fewer, request(session=session))
        assert moved[0] == next(each for each in ranked if each != ["d"])


def test_options_of_the_ring_that_make_no_sense_are_refused() -> None:
    router = ConsistentHashRouter(WHERE)
    with pytest.raises(ValueError, match="num_virtual_nodes"):
        router.initialize_state(num_virtual_nodes=0)
    with pytest.raises(ValueError, match="num_fallback_replicas"):
        router.initialize_state(num_fallback_replicas=-1)
