"""What `init()` hands on to Ray."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from sundog import engines
from sundog.exceptions import RaySystemError
from sundog.ray_engine import joining
from sundog.ray_engine.engine import RayEngine


def asked(**given: Any) -> dict[str, Any]:
    return {
        "other": {},
        "logging_level": "info",
        "logging_config": None,
        "job_config": None,
        "_system_config": None,
        **given,
    }


def test_sundog_is_shipped_to_a_cluster_that_was_there_before() -> None:
    env = joining.environment({"env_vars": {"A": "1"}}, "10.0.0.1:6379")
    assert env["env_vars"] == {"A": "1"} and env["py_modules"][0].endswith("/sundog")


@pytest.mark.parametrize("address", [None, "local"])
def test_a_cluster_of_this_program_needs_nothing_shipped(
    address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert joining.environment(None, address) == {}


def test_a_job_whose_environment_has_modules_gets_no_second_field(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", '{"runtime_env": {"py_modules": ["gcs://x"]}}')
    assert joining.environment(None, "auto") == {}


def test_shipping_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUNDOG_ship_to_nodes", "0")
    assert joining.environment(None, "auto") == {}


def test_settings_of_sundog_alone_are_named_and_the_rest_goes_to_ray(
    capfd: pytest.CaptureFixture[str],
) -> None:
    found = joining._rays_settings(asked(_system_config={"spin_us": 0, "raylet_heartbeat_ms": 5}))
    assert found == {"_system_config": {"raylet_heartbeat_ms": 5}}
    assert "without a meaning on engine 'ray': spin_us" in capfd.readouterr().err


def test_who_comes_while_the_cluster_is_left_is_told_so_and_joins_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = []

    class Gathering:
        path = ""

        def stop(self) -> None:
            steps.append("records")
            with pytest.raises(RaySystemError, match="shut down"):
                engine.get([], None)
            joining.leave(engine)  # another thread's shutdown()
            assert engines.foreign is engine

    ray = ModuleType("ray")
    ray.get = ray.exceptions = None  # type: ignore[attr-defined]
    worker = ModuleType("worker")
    worker.shutdown = lambda: steps.append("Ray")  # type: ignore[attr-defined]
    monkeypatch.setattr(joining, "import_module", lambda _: worker)
    monkeypatch.setattr(engines, "foreign", None)
    engine = RayEngine(ray, is_driver=True, gathering=Gathering())  # type: ignore[arg-type]
    engines.plug_foreign(engine)
    joining.leave(engine)
    assert steps == ["records", "Ray"] and engines.foreign is None


def test_a_job_config_is_refused() -> None:
    with pytest.raises(ValueError, match="Engine 'ray' does not take job_config="):
        joining._rays_settings(asked(job_config={}))
