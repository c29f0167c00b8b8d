"""Configs and what is refused in them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from sundog.serve.schema import DeploymentSchema, LoggingConfig, ServeDeploySchema


def app(**given: Any) -> dict[str, Any]:
    return {"import_path": "module:app", **given}


def test_a_config_keeps_what_it_was_given_and_nothing_more() -> None:
    row = DeploymentSchema(name="d", num_replicas=3)

    assert row.given_options() == {"num_replicas": 3}


@pytest.mark.parametrize(
    "applications",
    [
        [app(name="a"), app(name="a", route_prefix="/b")],
        [app(name="a"), app(name="b")],
        [app(name="")],
        [app(import_path="module")],
        [app(import_path="a:b:c")],
        [app(route_prefix="x")],
        [app(host="0.0.0.0")],
        [app(runtime_env={"working_dir": "/home"})],
        [app(deployments=[{"name": "d", "num_replicas": 2, "autoscaling_config": {"max_replicas": 3}}])],
    ],
)
def test_a_wrong_config_is_refused(applications: list[dict[str, Any]]) -> None:
    with pytest.raises(ValidationError):
        ServeDeploySchema.model_validate({"applications": applications})


def test_logging_takes_known_levels_and_encodings() -> None:
    assert LoggingConfig(log_level=10).log_level == "DEBUG"
    with pytest.raises(ValidationError):
        LoggingConfig(encoding="XML")
    with pytest.raises(ValidationError):
        LoggingConfig(log_level="LOUD")
