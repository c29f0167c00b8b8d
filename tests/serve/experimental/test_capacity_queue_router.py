"""A router that takes places from a queue: it gives each back once, and does without a queue that is away."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sundog.exceptions import ActorUnavailableError
from sundog.serve.experimental import capacity_queue_router
from sundog.serve.experimental.capacity_queue_router import CapacityQueueRouter
from sundog.serve.replica_view import Replica
from sundog.serve.request_router import PendingRequest, RunningReplica
from sundog.serve.rows import RequestMetadata
from tests.serve.fakes import MODEL, FakeActor, FakeSession, replica_id, running

AWAY = ActorUnavailableError("the queue is away")


class FakeClient:
    controller = FakeActor(version_of="v1")


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    monkeypatch.setattr(capacity_queue_router.clients, "connect", FakeClient)
    return FakeSession(monkeypatch)


def queue(session: FakeSession, *acquired: object, name: str = "capacity_queue") -> FakeActor:
    made = FakeActor(acquire=list(acquired), set_replicas=None, release=None)
    session.named[f"SERVE_DEPLOYMENT_ACTOR::shop#Model#{name}#v1"] = made
    return made


def released(made: FakeActor) -> list[object]:
    return [args[0] for args, _ in made.release.calls]


def rows(*names: str) -> list[RunningReplica]:
    return [RunningReplica(Replica(running(name, limit=3)), lambda _: 0) for name in names]


def request(inner: str = "inner") -> PendingRequest:
    return PendingRequest([], {}, RequestMetadata("request", inner))


def chosen(router: CapacityQueueRouter, names: str = "ab", asked: Any = ...) -> list[list[str]]:
    found = router.choose_replicas(rows(*names), request() if asked is ... else asked)
    return [[each.replica_id.unique_id for each in group] for group in asyncio.run(found)]


def test_the_queue_learns_the_replicas_and_its_place_is_the_choice(session: FakeSession) -> None:
    made, router = queue(session, "b"), CapacityQueueRouter(MODEL)
    assert chosen(router) == [["b"]]
    assert made.set_replicas.calls == [(({"a": 3, "b": 3},), {})]
    assert released(made) == []


def test_a_place_is_given_back_once_when_its_request_has_ended(session: FakeSession) -> None:
    made, router = queue(session, "b"), CapacityQueueRouter(MODEL)
    chosen(router)
    router.on_request_completed(replica_id("b"), "another")
    assert released(made) == []
    router.on_request_completed(replica_id("b"), "inner")
    router.on_request_completed(replica_id("b"), "inner")
    assert released(made) == ["b"]


def test_a_request_whose_replica_had_no_room_gives_its_place_back_before_it_takes_another(
    session: FakeSession,
) -> None:
    made, router = queue(session, "a", "b"), CapacityQueueRouter(MODEL)
    assert chosen(router) == [["a"]] and chosen(router) == [["b"]]
    assert released(made) == ["a"]
    router.on_request_completed(replica_id("b"), "inner")
    assert released(made) == ["a", "b"]


def test_no_free_place_is_no_choice(session: FakeSession) -> None:
    made, router = queue(session, None), CapacityQueueRouter(MODEL)
    assert chosen(router) == [] and released(made) == []


def test_a_place_of_a_replica_that_this_process_does_not_know_goes_back(session: FakeSession) -> None:
    made, router = queue(session, "c"), CapacityQueueRouter(MODEL)
    assert chosen(router) == [] and released(made) == ["c"]


def test_a_place_for_no_request_goes_back(session: FakeSession) -> None:
    made, router = queue(session, "a"), CapacityQueueRouter(MODEL)
    assert chosen(router, asked=None) == [] and released(made) == ["a"]


def test_a_queue_that_is_away_for_as_many_tries_as_allowed_is_done_without(session: FakeSession) -> None:
    queue(session, AWAY)
    router = CapacityQueueRouter(MODEL)
    router.initialize_state(max_fault_retries=2)
    assert chosen(router) == []
    assert sorted(name for group in chosen(router) for name in group) == ["a", "b"]  # by the default rule


def test_a_queue_that_comes_back_is_used_again_and_its_faults_are_forgotten(session: FakeSession) -> None:
    queue(session, AWAY, AWAY, "a", AWAY)
    router = CapacityQueueRouter(MODEL)
    assert [chosen(router) for _ in range(4)] == [[], [], [["a"]], []]


def test_a_place_that_was_taken_before_a_fault_is_given_back_too(session: FakeSession) -> None:
    made, router = queue(session, "a", AWAY), CapacityQueueRouter(MODEL)
    chosen(router)
    assert chosen(router, asked=request("other")) == []
    router.on_request_completed(replica_id("a"), "inner")
    assert released(made) == ["a"]


def test_the_queue_is_found_by_the_name_that_the_user_chose(session: FakeSession) -> None:
    queue(session, "b", name="places")
    router = CapacityQueueRouter(MODEL)
    assert chosen(router) == []  # there is none of the usual name
    router.initialize_state(capacity_queue_actor_name="places")
    assert chosen(router) == [["b"]]
