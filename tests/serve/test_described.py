"""An application as the controller takes it: versions, and what replicas get of the job's environment."""

from __future__ import annotations

from typing import Any

import pytest

import sundog
from sundog import serve
from sundog.serve.build import build
from sundog.serve.described import _with_runtime_env, spec_of


@serve.deployment
class Shop:
    """A deployment with nothing in it."""


class FakeContext:
    """The runtime context of a job with this environment."""

    def __init__(self, env: dict[str, object]) -> None:
        self.runtime_env = env


def test_a_deployment_without_a_version_has_a_new_one_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sundog, "get_runtime_context", lambda: FakeContext({}))
    handle: Any = None  # nothing is bound to another deployment here
    built = build(Shop.bind(), "shop", lambda _deployment, _name: handle)
    one, two = (spec_of(built).deployments[0].version for _ in range(2))
    assert one != two and spec_of(built, "3").deployments[0].version == "3"


@pytest.mark.parametrize(
    ("job", "own", "merged"),
    [
        ({}, {}, None),
        ({"working_dir": "here"}, {}, {"working_dir": "here"}),
        ({}, {"working_dir": "there"}, {"working_dir": "there"}),
        (
            {"working_dir": "here", "env_vars": {"A": "1", "B": "1"}},
            {"env_vars": {"B": "2"}},
            {"working_dir": "here", "env_vars": {"A": "1", "B": "2"}},
        ),
    ],
)
def test_replicas_have_the_environment_of_their_job_below_their_own(
    monkeypatch: pytest.MonkeyPatch, job: Any, own: Any, merged: Any
) -> None:
    monkeypatch.setattr(sundog, "get_runtime_context", lambda: FakeContext(job))
    options: Any = {"num_cpus": 1, **({"runtime_env": own} if own else {})}
    found = _with_runtime_env(options)
    assert found.get("runtime_env") == merged and found["num_cpus"] == 1
