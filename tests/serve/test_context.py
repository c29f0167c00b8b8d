"""What code in a replica learns of its replica, its request and the actors of its deployment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from sundog import serve
from sundog.serve import context
from sundog.serve.context import RequestContext, batch_context, request_context
from sundog.serve.exceptions import RayServeException
from sundog.serve.rows import DeploymentID
from tests.serve.fakes import FakeActor, FakeSession, enter_replica, replica_context


@pytest.fixture(autouse=True)
def no_request() -> Iterator[None]:
    tokens = request_context.set(RequestContext()), batch_context.set(())
    yield
    request_context.reset(tokens[0])
    batch_context.reset(tokens[1])


def test_the_context_of_a_replica_has_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    enter_replica(monkeypatch)
    found = serve.get_replica_context()
    assert (found.app_name, found.deployment, found.replica_tag) == ("shop", "Model", "r1")
    assert found.rank.rank == 0 and found.world_size == 1


def test_outside_of_a_replica_each_question_says_where_to_ask_it() -> None:
    with pytest.raises(RayServeException, match=r"runs in no replica.*Call it in a deployment\."):
        serve.get_replica_context()
    with pytest.raises(RayServeException, match=r"get_deployment_actor\('cache'\).*Call it in a replica\."):
        serve.get_deployment_actor("cache")
    with pytest.raises(RayServeException, match=r"no deployment actor.*actor of `deployment_actors`"):
        serve.get_deployment_actor_context()


def test_a_local_replica_is_seen_by_its_own_task_alone() -> None:
    async def scene() -> None:
        async def in_replica() -> str:
            context.enter_local_replica(replica_context())
            return serve.get_replica_context().replica_tag

        assert await asyncio.create_task(in_replica()) == "r1"
        with pytest.raises(RayServeException):
            serve.get_replica_context()

    asyncio.run(scene())


def test_a_local_replica_hides_the_one_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    enter_replica(monkeypatch)
    local = replica_context("local")

    async def scene() -> str | None:
        context.enter_local_replica(local)
        return serve.get_replica_context().code_version

    assert asyncio.run(scene()) == "local" and serve.get_replica_context().code_version == "v1"


def test_an_actor_of_a_deployment_reads_where_it_belongs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUNDOG_SERVE_DEPLOYMENT_ACTOR", '["shop", "Model", "cache", "v1"]')
    found = serve.get_deployment_actor_context()
    assert found.deployment_id == DeploymentID("Model", "shop")
    assert (found.app_name, found.deployment, found.actor_name) == ("shop", "Model", "cache")
    assert found.code_version == "v1"


def test_an_actor_of_a_deployment_is_found_by_its_own_version(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession(monkeypatch)
    mine: Any = FakeActor()
    other: Any = FakeActor()
    session.named["SERVE_DEPLOYMENT_ACTOR::shop#Model#cache#v1"] = mine
    session.named["SERVE_DEPLOYMENT_ACTOR::shop#Model#cache#v2"] = other
    session.named["SERVE_DEPLOYMENT_ACTOR::shop#Model#cache#"] = other
    enter_replica(monkeypatch)
    assert serve.get_deployment_actor("cache") is mine
    with pytest.raises(ValueError, match="shop#Model#queue#v1"):
        serve.get_deployment_actor("queue")
    enter_replica(monkeypatch, replica_context(version=None))
    assert serve.get_deployment_actor("cache") is other


def test_the_model_is_that_of_the_request_and_in_a_batch_that_of_its_first_request() -> None:
    assert serve.get_multiplexed_model_id() == ""
    request_context.set(RequestContext(multiplexed_model_id="small"))
    assert serve.get_multiplexed_model_id() == "small"
    batch_context.set((RequestContext(multiplexed_model_id="large"), RequestContext()))
    assert serve.get_multiplexed_model_id() == "large"
