"""Routers that users write: which replicas they may choose among, and how those are ranked."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

from sundog.serve.request_router import (
    PendingRequest,
    PowerOfTwoChoicesRequestRouter,
    RequestRouter,
    RunningReplica,
)
from sundog.serve.rows import DeploymentID, ReplicaID, RequestMetadata

WHERE = DeploymentID("d", "a")


@dataclass
class Row:
    """What a router knows of a replica."""

    id: ReplicaID
    models: tuple[str, ...]
    limit: int


def replica(name: str, *models: str, busy: int = 0, limit: int = 5) -> RunningReplica:
    row = Row(ReplicaID(name, WHERE), models, limit)
    return RunningReplica(cast(Any, row), lambda _: busy)


def request(model: str = "", session: str = "", number: str = "n") -> PendingRequest:
    return PendingRequest(
        [], {}, RequestMetadata("r", number, multiplexed_model_id=model, session_id=session)
    )


def choose(router: RequestRouter, replicas: list[RunningReplica], asked: PendingRequest) -> list[list[str]]:
    router.update_replicas(replicas)
    found = asyncio.run(router.choose_replicas(replicas, asked))
    return [[each.replica_id.unique_id for each in group] for group in found]


def test_two_replicas_are_drawn_and_one_alone_is_taken() -> None:
    router = PowerOfTwoChoicesRequestRouter(WHERE)
    (pair,) = choose(router, [replica(name) for name in "abc"], request())
    assert len(set(pair)) == 2
    assert choose(router, [replica("a")], request()) == [["a"]]
    assert choose(router, [], request()) == []


def test_a_model_is_asked_of_those_that_have_it_and_else_of_those_with_fewest() -> None:
    router = PowerOfTwoChoicesRequestRouter(WHERE)
    replicas = [replica("a", "m1"), replica("b"), replica("c", "m2", "m3")]
    assert choose(router, replicas, request(model="m2")) == [["c"]]
    assert choose(router, replicas, request(model="m9")) == [["b"]]


def test_a_replica_that_is_full_is_not_available() -> None:
    router = PowerOfTwoChoicesRequestRouter(WHERE)
    router.update_replicas([replica("a", busy=5), replica("b", busy=4)])
    assert [each.replica_id.unique_id for each in router.select_available_replicas()] == ["b"]
