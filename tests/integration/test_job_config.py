"""`init(job_config=…)`, and other options of `init` that programs written for Ray pass."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog.job_config import JobConfig

Start = Callable[..., ModuleType]


def test_namespace_and_environment_come_from_the_job_config_unless_init_names_them(
    ray_session: Start,
) -> None:
    given = JobConfig(ray_namespace="n", runtime_env={"env_vars": {"A_VARIABLE": "1"}})
    ray = ray_session(num_cpus=1, job_config=given)

    @ray.remote
    def read() -> Any:
        import os

        return os.environ.get("A_VARIABLE"), ray.get_runtime_context().namespace

    assert ray.get(read.remote()) == ("1", "n")
    ray.shutdown()
    ray_session(num_cpus=1, job_config=given, namespace="other")
    assert ray.get_runtime_context().namespace == "other"


def test_actors_live_on_by_default_if_the_job_config_says_so(ray_session: Start) -> None:
    ray = ray_session(num_cpus=2, job_config=JobConfig(default_actor_lifetime="detached"))

    @ray.remote
    class Kept:
        def get(self) -> int:
            return 1

    ray.get(Kept.options(name="kept").remote().get.remote())
    assert ray.get(ray.get_actor("kept").get.remote()) == 1


def test_memory_is_what_init_is_told(ray_session: Start) -> None:
    assert ray_session(num_cpus=1, _memory=10**9).cluster_resources()["memory"] == 10**9


@pytest.mark.parametrize("name", ["foo", "_foo", "_memry"])
def test_an_option_that_init_does_not_have_is_refused_as_python_and_as_ray_do(name: str) -> None:
    given: dict[str, Any] = {name: 1}
    for kind in (TypeError, RuntimeError):
        with pytest.raises(kind, match=name):
            sundog.init(**given)


def test_private_options_of_ray_without_a_meaning_here_are_taken(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1, _node_name="n", _redis_password="p", _metrics_export_port=1)
    assert ray.is_initialized()


def test_a_mistyped_variable_is_warned_of(
    ray_session: Start, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SUNDOG_spinus", "0")
    ray_session(num_cpus=1)
    assert "SUNDOG_spinus sets nothing" in (told := capsys.readouterr().err) and "SUNDOG_spin_us" in told


def test_settings_without_effect_are_named_at_debug_level(
    ray_session: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    ray_session(num_cpus=1, logging_level="debug", _system_config={"event_stats": False})
    assert "event_stats" in capsys.readouterr().err
