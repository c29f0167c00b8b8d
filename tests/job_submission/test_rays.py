"""Jobs of a Ray cluster: what goes along, what is refused, how the output is followed."""

from __future__ import annotations

import os

import pytest

import sundog
from sundog.job_submission import JobStatus, rays


def test_sundog_goes_along_once_and_names_the_engine() -> None:
    env = rays.with_sundog({"pip": ["x"], "env_vars": {"A": "1"}})
    assert env["py_modules"] == [os.path.dirname(sundog.__file__)]
    assert env["env_vars"] == {"SUNDOG_ENGINE": "ray", "A": "1"} and env["pip"] == ["x"]
    assert rays.with_sundog(env) == env


@pytest.mark.parametrize("name", ["weight", "cpus", "memory", "object_store"])
def test_limits_of_a_job_are_refused_by_name(name: str) -> None:
    with pytest.raises(RuntimeError, match=f"{name}= does not work on a Ray cluster"):
        rays.refuse_limits({name: 1})
    rays.refuse_limits({name: None})


def test_a_cluster_that_cannot_start_jobs_yet_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rays, "_LOOK_S", 0.0)
    refusals = iter(["No available agent to submit job", "No available agent"])

    def submit() -> str:
        for text in refusals:
            raise RuntimeError(text)
        return "job_1"

    assert rays.submitted(submit) == "job_1"


def test_a_refused_job_is_not_submitted_again_and_a_cluster_is_not_waited_for_for_ever() -> None:
    def refuse(text: str) -> str:
        raise RuntimeError(text)

    with pytest.raises(RuntimeError, match="taken"):
        rays.submitted(lambda: refuse("the id is taken"), clock=iter([0.0]).__next__)
    with pytest.raises(RuntimeError, match="No available agent"):
        rays.submitted(lambda: refuse("No available agent"), clock=iter([0.0, 61.0]).__next__)


def test_output_is_followed_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rays, "_LOOK_S", 0.0)
    texts = iter(["", "a\n", "a\n", "a\nb\n"])
    states = iter([JobStatus.PENDING, JobStatus.RUNNING, JobStatus.RUNNING, JobStatus.SUCCEEDED])
    assert list(rays.follow(lambda: next(texts), lambda: next(states))) == ["a\n", "b\n"]
