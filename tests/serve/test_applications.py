"""What the controller knows of applications: who waits for them is told when it takes long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sundog.serve import applications
from sundog.serve.applications import Applications
from sundog.serve.rows import DeploymentID, ReplicaState
from sundog.serve.schema import ApplicationStatus


class FakeTarget:
    process = {"ray_actor_options": {"num_cpus": 2, "num_gpus": 0}}


class FakePlan:
    """A deployment with two replicas that wait for a CPU."""

    id = DeploymentID("model", "shop")
    target = FakeTarget()

    def counts(self) -> dict[ReplicaState, int]:
        return {ReplicaState.STARTING: 2}


class FakeCore:
    plans = {FakePlan.id: FakePlan()}


class Waiting(Applications):
    """Applications whose state is told by the test."""

    def update(self) -> None:
        return


@pytest.fixture
def apps() -> Waiting:
    core: Any = FakeCore()
    return Waiting(core)


def test_an_application_whose_replicas_do_not_start_is_told_of(
    apps: Waiting, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(applications, "LONG_S", 0.01)
    apps.states["shop"] = (ApplicationStatus.DEPLOYING, "")

    async def play() -> dict[str, tuple[str, str]]:
        waiting = asyncio.ensure_future(apps.wait_for(["shop"], False))
        told = ""
        while "did not start" not in told:
            await asyncio.sleep(0)
            told += capsys.readouterr().out
        assert "2 replicas of 'model'" in told and "{'num_cpus': 2}" in told
        apps.states["shop"] = (ApplicationStatus.RUNNING, "")
        apps._tell()
        return await waiting

    assert asyncio.run(play()) == {"shop": ("RUNNING", "")}


def test_of_other_applications_nothing_is_told(apps: Waiting) -> None:
    assert list(apps._what_waits(["other"])) == []
