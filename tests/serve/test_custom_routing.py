"""What a router of the user's chooses is carried out: room, retries, errors, and what the router is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from sundog.serve.calls import Call
from sundog.serve.config import RequestRouterConfig
from sundog.serve.custom_routing import CustomRouting
from sundog.serve.replica_view import Replica
from sundog.serve.request_router import PendingRequest, ReplicaResult, RequestRouter, RunningReplica
from sundog.serve.rows import ReplicaID, RequestMetadata
from tests.serve.fakes import MODEL, running


class Chooser(RequestRouter):
    """Gives the groups of names that it is told to, one answer after the other, and notes what it hears."""

    def initialize_state(self, **kwargs: Any) -> None:
        if kwargs.get("is_broken"):
            raise ValueError("no table of prices")
        self.answers: list[Any] = []
        self.seen: list[list[str]] = []
        self.heard: list[tuple[str, str]] = []

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        self.seen.append([each.replica_id.unique_id for each in candidate_replicas])
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        by_name = {each.replica_id.unique_id: each for each in candidate_replicas}
        return [[by_name[name] for name in group] for group in answer]

    def on_send_request(self, replica_id: ReplicaID) -> None:
        self.heard.append(("send", replica_id.unique_id))

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: ReplicaResult
    ) -> None:
        self.heard.append(("routed", replica_id.unique_id))

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        self.heard.append(("completed", internal_request_id))

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        self.heard.append(("died", replica_id.unique_id))


class PlainChooser(Chooser):
    """A router whose method is no coroutine."""

    def choose_replicas(self, candidate_replicas: list[RunningReplica], pending_request: Any = None) -> Any:
        return [candidate_replicas]


class FakeRouter:
    """The router that a custom one belongs to."""

    def __init__(self) -> None:
        self.deployment, self.lock, self.client = MODEL, threading.Lock(), self
        self.pending: list[Call] = []
        self.sent: list[tuple[Call, str]] = []
        self.forgotten: list[Call] = []

    def busy(self, replica: Replica) -> int:
        return replica.mine

    def _count(self, replica: Replica, change: int) -> None:
        replica.mine += change

    def _mark_queue(self) -> None:
        assert self.lock.locked()

    def send(self, call: Call, replica: Replica) -> None:
        self.sent.append((call, replica.id.unique_id))

    def forget(self, call: Call) -> None:
        self.forgotten.append(call)

    def soon(self, function: Callable[..., object], *args: object) -> None:
        function(*args)


def scene(
    answers: Sequence[object], busy: dict[str, int], kind: type[Chooser] = Chooser
) -> tuple[CustomRouting, FakeRouter, Call, list[Replica]]:
    """A custom router that knows replicas with so many requests each, of two at most."""
    router = FakeRouter()
    config = RequestRouterConfig(request_router_class=kind, initial_backoff_s=0.001, max_backoff_s=0.002)
    made = CustomRouting(cast(Any, router), config)
    replicas = [Replica(running(name, limit=2)) for name in busy]
    for each in replicas:
        each.mine = busy[each.id.unique_id]
    made.refresh(replicas)
    cast(Chooser, made.object).answers = list(answers)
    call = Call(cast(Any, router), RequestMetadata("request", "inner"), (1,), {})
    call.wait()
    router.pending.append(call)
    return made, router, call, replicas


def heard(made: CustomRouting) -> list[tuple[str, str]]:
    return cast(Chooser, made.object).heard


def test_the_least_busy_replica_of_the_first_group_gets_the_request_and_its_place_is_counted() -> None:
    made, router, call, replicas = scene([[["a", "b"], ["c"]]], {"a": 1, "b": 0, "c": 0})
    asyncio.run(made.route(call))
    assert router.sent == [(call, "b")] and router.pending == []
    assert [each.mine for each in replicas] == [1, 1, 0]
    assert heard(made) == [("send", "b"), ("routed", "b")]


def test_a_group_without_room_is_passed_over() -> None:
    made, router, call, _ = scene([[["a"], ["b"]]], {"a": 2, "b": 1})
    asyncio.run(made.route(call))
    assert router.sent == [(call, "b")]


def test_the_router_is_asked_again_until_a_chosen_replica_has_room() -> None:
    made, router, call, _ = scene([[["a"]], [], [["b"]]], {"a": 2, "b": 0})
    asyncio.run(made.route(call))
    assert router.sent == [(call, "b")] and len(cast(Chooser, made.object).seen) == 3


def test_a_replica_that_is_gone_is_not_shown_to_the_router() -> None:
    made, router, call, replicas = scene([[["b"]]], {"a": 0, "b": 0})
    replicas[0].is_gone = True
    asyncio.run(made.route(call))
    assert cast(Chooser, made.object).seen == [["b"]] and router.sent == [(call, "b")]


def test_a_router_whose_method_is_no_coroutine_will_do() -> None:
    made, router, call, _ = scene([], {"a": 1, "b": 0}, PlainChooser)
    asyncio.run(made.route(call))
    assert router.sent == [(call, "b")]


def test_an_error_of_the_router_is_the_error_of_the_request() -> None:
    made, router, call, _ = scene([KeyError("tea")], {"a": 0})
    asyncio.run(made.route(call))
    assert router.forgotten == [call] and router.sent == []
    assert call.current is not None
    with pytest.raises(KeyError, match="tea"):
        call.current.result(0)


def test_a_router_that_cannot_be_made_fails_every_request() -> None:
    router = FakeRouter()
    config = RequestRouterConfig(request_router_class=Chooser, request_router_kwargs={"is_broken": True})
    made = CustomRouting(cast(Any, router), config)
    call = Call(cast(Any, router), RequestMetadata("request", "inner"), (), {})
    asyncio.run(made.route(call))
    assert call.current is not None and router.forgotten == [call]
    with pytest.raises(ValueError, match="no table of prices"):
        call.current.result(0)


def test_a_request_that_has_ended_meanwhile_is_not_routed() -> None:
    made, router, call, _ = scene([[["a"]]], {"a": 0})
    call.fail(RuntimeError("given up"))
    asyncio.run(made.route(call))
    assert router.sent == [] and cast(Chooser, made.object).seen == []


def test_the_router_is_told_of_the_end_of_requests_and_of_replicas() -> None:
    made, _, call, (replica,) = scene([], {"a": 0})
    made.completed(call, replica)
    assert heard(made) == [("completed", "inner")]
    replica.is_gone = True
    made.completed(call, replica)
    assert heard(made)[1:] == [("completed", "inner"), ("died", "a")]


def test_the_router_knows_the_replicas_of_now() -> None:
    made, _, _, replicas = scene([], {"a": 0, "b": 0})
    made.refresh(replicas[1:])
    assert made.object is not None and set(made.object.curr_replicas) == {replicas[1].id}
