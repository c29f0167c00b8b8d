"""The actors that replicas of one version share: how they are made, and that they end."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from sundog.serve.config import DeploymentActorConfig
from sundog.serve.deployment import DeploymentConfig
from sundog.serve.deployment_actors import end_deployment_actors, ensure_deployment_actors
from sundog.serve.plan import DeploymentTarget
from tests.serve.fakes import MODEL, FakeActor, FakeSession

NAME = "SERVE_DEPLOYMENT_ACTOR::shop#Model#cache#v1"


class Cache:
    """A class of the user's."""


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    found = FakeSession(monkeypatch)
    found.made.actor.__ray_ready__ = FakeActor(ready=None).ready
    return found


def target(*names: str, **options: Any) -> DeploymentTarget:
    actors = [
        DeploymentActorConfig(
            name=name, actor_class=Cache, init_args=[1], init_kwargs={"size": 2}, actor_options=options
        )
        for name in names
    ]
    return DeploymentTarget("v1", DeploymentConfig(deployment_actors=actors), 1)


def test_an_actor_is_made_under_the_name_that_replicas_look_for(session: FakeSession) -> None:
    asyncio.run(ensure_deployment_actors(MODEL, target("cache", num_cpus=0)))
    assert session.made.decorated == [Cache] and session.made.given == [((1,), {"size": 2})]
    (chosen,) = session.made.chosen
    assert (chosen["name"], chosen["namespace"], chosen["lifetime"]) == (NAME, "serve", "detached")
    assert chosen["get_if_exists"] is True and chosen["num_cpus"] == 0 and chosen["max_restarts"] == -1


def test_an_actor_learns_where_it_belongs_beside_the_environment_that_it_is_given(
    session: FakeSession,
) -> None:
    env = {"env_vars": {"KIND": "tea"}, "working_dir": "here"}
    asyncio.run(ensure_deployment_actors(MODEL, target("cache", runtime_env=env, max_restarts=0)))
    (chosen,) = session.made.chosen
    made = chosen["runtime_env"]
    assert made["working_dir"] == "here" and made["env_vars"]["KIND"] == "tea" and chosen["max_restarts"] == 0
    told = made["env_vars"]["SUNDOG_SERVE_DEPLOYMENT_ACTOR"]
    assert json.loads(told) == ["shop", "Model", "cache", "v1"]
    assert env["env_vars"] == {"KIND": "tea"}  # what the user gave is as it was


def test_names_of_the_user_do_not_replace_those_of_serve(session: FakeSession) -> None:
    asyncio.run(ensure_deployment_actors(MODEL, target("cache", name="mine", lifetime="non_detached")))
    (chosen,) = session.made.chosen
    assert chosen["name"] == NAME and chosen["lifetime"] == "detached"


def test_an_error_of_a_constructor_is_raised_and_later_actors_are_not_made(session: FakeSession) -> None:
    session.made.actor.__ray_ready__ = FakeActor(ready=RuntimeError("no disk")).ready
    with pytest.raises(RuntimeError, match="no disk"):
        asyncio.run(ensure_deployment_actors(MODEL, target("cache", "queue")))
    assert len(session.made.given) == 1


def test_a_deployment_without_actors_makes_none(session: FakeSession) -> None:
    asyncio.run(ensure_deployment_actors(MODEL, DeploymentTarget("v1", DeploymentConfig(), 1)))
    assert session.made.given == []


def test_the_end_of_a_version_ends_its_actors_also_when_one_is_gone_already(session: FakeSession) -> None:
    mine, newer = FakeActor(), FakeActor()
    session.named = {NAME: mine, NAME.replace("v1", "v2"): newer}
    end_deployment_actors(MODEL, target("gone", "cache"))
    assert session.killed == [mine]
