"""A call to every replica: its answers, its errors and its time limit."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from sundog.serve.broadcasts import DeploymentBroadcastResponse
from sundog.serve.rows import RequestMetadata
from tests.serve.fakes import FakeActor

META = RequestMetadata("request", "internal", "clear")


class FakeReplica:
    def __init__(self, *answers: object) -> None:
        self.actor = FakeActor(handle_control=list(answers))


class FakeRouter:
    """Knows some replicas; at first none, if the test says so."""

    def __init__(self, *replicas: FakeReplica, looks_in_vain: int = 0) -> None:
        self.replicas, self.looks_in_vain = list(replicas), looks_in_vain

    def running(self) -> list[FakeReplica]:
        self.looks_in_vain -= 1
        return [] if self.looks_in_vain >= 0 else self.replicas


def broadcast(router: FakeRouter, *args: object, **kwargs: object) -> DeploymentBroadcastResponse:
    return DeploymentBroadcastResponse(cast(Any, router), META, args, kwargs)


def test_every_replica_gets_the_call_at_once_and_its_answers_come_in_order() -> None:
    replicas = [FakeReplica("a"), FakeReplica("b")]
    response = broadcast(FakeRouter(*replicas), 1, deep=True)
    for each in replicas:
        assert each.actor.handle_control.calls == [((META, 1), {"deep": True})]
    assert response.results(timeout_s=0) == ["a", "b"]
    assert asyncio.run(response.results_async(timeout_s=0)) == ["a", "b"]


def test_replicas_that_are_not_known_yet_are_waited_for() -> None:
    assert broadcast(FakeRouter(FakeReplica("late"), looks_in_vain=2)).results() == ["late"]
    response = broadcast(FakeRouter(FakeReplica("late"), looks_in_vain=2))
    assert asyncio.run(response.results_async()) == ["late"]


def test_a_broadcast_without_replicas_ends_when_its_time_is_up() -> None:
    response = broadcast(FakeRouter())
    with pytest.raises(TimeoutError, match=r"not every replica has answered\. Give a longer timeout_s"):
        response.results(timeout_s=0)
    with pytest.raises(TimeoutError, match="Give a longer timeout_s"):
        asyncio.run(response.results_async(timeout_s=0))


@pytest.mark.parametrize("in_loop", [False, True])
def test_answers_that_came_too_late_are_there_when_asked_again(in_loop: bool) -> None:
    slow = FakeReplica()
    response = broadcast(FakeRouter(FakeReplica("a"), slow))

    def ask(timeout_s: float | None) -> list[object]:
        if in_loop:
            return asyncio.run(response.results_async(timeout_s=timeout_s))
        return response.results(timeout_s=timeout_s)

    with pytest.raises(TimeoutError, match="The broadcast's time is up"):
        ask(0.001)
    slow.actor.handle_control.refs[0].result.set_result("b")
    assert ask(None) == ["a", "b"]


@pytest.mark.parametrize("in_loop", [False, True])
def test_an_error_of_a_replica_is_raised_or_stands_among_the_answers(in_loop: bool) -> None:
    error = TimeoutError("the database did not answer")  # the user's own, not that of the broadcast
    response = broadcast(FakeRouter(FakeReplica("a"), FakeReplica(error)))

    def ask(**options: bool) -> list[object]:
        if in_loop:
            return asyncio.run(response.results_async(timeout_s=60, **options))
        return response.results(timeout_s=60, **options)

    with pytest.raises(TimeoutError, match="the database did not answer"):
        ask()
    answer, found = ask(return_exceptions=True)
    assert answer == "a" and isinstance(found, TimeoutError) and str(found) == str(error)


def test_results_refuses_to_block_an_event_loop_and_names_the_way_out() -> None:
    async def scene() -> None:
        broadcast(FakeRouter(FakeReplica("a"))).results()

    with pytest.raises(RuntimeError, match=r"would block the event loop.*await response\.results_async"):
        asyncio.run(scene())


def test_a_time_limit_below_zero_is_refused() -> None:
    response = broadcast(FakeRouter(FakeReplica("a")))
    with pytest.raises(ValueError, match="0 or more, not -1"):
        response.results(timeout_s=-1)
    with pytest.raises(ValueError, match="0 or more, not -1"):
        asyncio.run(response.results_async(timeout_s=-1))
