"""What a JobConfig keeps and refuses; what it does is in integration/test_job_config.py."""

from __future__ import annotations

import pytest

from sundog.job_config import JobConfig
from sundog.logging_config import LoggingConfig


def test_a_job_config_keeps_what_it_is_given_and_can_be_changed() -> None:
    made = JobConfig(code_search_path=["/a"], metadata={"k": "v"}, ray_namespace="n")
    made.set_metadata("k2", "v2")
    made.set_ray_namespace("m")
    made.set_runtime_env({"env_vars": {"A": "1"}}, validate=True)
    made.set_default_actor_lifetime("detached")
    assert (made.metadata, made.ray_namespace) == ({"k": "v", "k2": "v2"}, "m")
    assert made.runtime_env["env_vars"] == {"A": "1"}
    assert made.default_actor_lifetime == "detached"


def test_a_job_config_can_come_from_a_dict() -> None:
    assert JobConfig.from_json({"ray_namespace": "n", "runtime_env": {}}).ray_namespace == "n"


def test_what_a_job_config_cannot_mean_is_refused() -> None:
    with pytest.raises(ValueError, match="default_actor_lifetime"):
        JobConfig(default_actor_lifetime="forever")
    with pytest.raises(TypeError, match="code_search_path"):
        JobConfig(code_search_path="/a")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="logging_config"):
        JobConfig().ensure_logging_config(3)


def test_a_logging_config_is_set_once() -> None:
    made = JobConfig()
    made.ensure_logging_config({"encoding": "JSON"})
    made.ensure_logging_config(LoggingConfig(encoding="TEXT"))
    assert made.py_logging_config is not None and made.py_logging_config.encoding == "JSON"
