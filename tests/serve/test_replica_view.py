"""A replica as a router sees it: what the controller says changes, what the router counts stays."""

from __future__ import annotations

from typing import Any

from sundog.serve.replica_view import Replica
from sundog.serve.rows import DeploymentID, ReplicaID, RunningReplicaInfo

REPLICA = ReplicaID("r1", DeploymentID("Model", "app"))


class FakeActor:
    """An actor's handle: three methods, which nobody calls here."""

    handle_request, handle_http, handle_request_streaming = "call", "http", "stream"


def info(row: int, limit: int, *models: str, share: float = 1.0) -> RunningReplicaInfo:
    actor: Any = FakeActor()
    return RunningReplicaInfo(REPLICA, actor, row, limit, multiplexed_model_ids=models, share=share)


def test_each_kind_of_request_has_its_method_of_the_actor() -> None:
    replica = Replica(info(0, 5))
    methods: tuple[Any, ...] = (replica.call, replica.http, replica.stream)
    assert methods == ("call", "http", "stream")


def test_news_of_a_replica_change_its_limits_and_not_what_it_has_to_do() -> None:
    replica = Replica(info(0, 5, "a"))
    replica.mine = 2
    replica.update(info(3, 7, "a", "b", share=0.5))

    assert (replica.row, replica.limit, replica.models, replica.share) == (3, 7, frozenset({"a", "b"}), 0.5)
    assert replica.mine == 2 and not replica.is_gone and replica.id == REPLICA
