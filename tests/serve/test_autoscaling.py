"""Policies of users: what becomes of their wishes."""

from __future__ import annotations

from typing import Any

import pytest

from sundog.serve.autoscaling import Autoscaler, bound
from sundog.serve.config import AutoscalingConfig, AutoscalingPolicy
from sundog.serve.deployment import DeploymentConfig
from sundog.serve.instance_schema import AutoscalingMetricsHealth, AutoscalingStatus
from sundog.serve.plan import DeploymentPlan, DeploymentTarget
from sundog.serve.rows import DeploymentID


class Constant:
    """A policy with a state of its own."""

    def __init__(self, wanted: float = 1) -> None:
        self.wanted = wanted

    def __call__(self, _context: object) -> tuple[float, dict[str, Any]]:
        return self.wanted, {"is": "mine"}


def times(context: Any, factor: int = 1) -> tuple[int, dict[str, Any]]:
    return context.target_num_replicas * factor, {}


def planned(config: AutoscalingConfig, count: int) -> DeploymentPlan:
    plan = DeploymentPlan(DeploymentID("d", "a"), lambda: "name")
    plan.target = DeploymentTarget("v", DeploymentConfig(autoscaling_config=config), count)
    return plan


def config_of(wanted: float, **options: Any) -> AutoscalingConfig:
    policy = AutoscalingPolicy(policy_function=Constant, policy_kwargs={"wanted": wanted})
    given = {"upscale_delay_s": 0, "downscale_delay_s": 0, **options}
    return AutoscalingConfig(min_replicas=1, max_replicas=10, policy=policy, **given)


@pytest.mark.parametrize(
    ("wanted", "options", "count"),
    [
        (2.1, {}, 3),
        (40, {}, 10),
        (0, {}, 1),
        (8, {"upscaling_factor": 0.5}, 6),
        (1, {"downscaling_factor": 0.5}, 3),
        (3.9, {"downscaling_factor": 0.1}, 3),
    ],
)
def test_factors_bounds_and_whole_replicas_hold_for_custom_policies(
    wanted: float, options: dict[str, Any], count: int
) -> None:
    config = config_of(wanted, **options)

    assert Autoscaler().decide(planned(config, 4 if wanted != 2.1 else 2), config, 100.0) == count


def test_delays_hold_for_custom_policies_and_their_state_stays_theirs() -> None:
    scaler, config = Autoscaler(), config_of(5, upscale_delay_s=10)
    plan = planned(config, 2)

    assert [scaler.decide(plan, config, now) for now in (100.0, 105.0, 110.0)] == [2, 2, 5]
    assert scaler.loads[plan.id].state == {"is": "mine"}


def test_a_policy_that_is_a_class_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scaler, config = Autoscaler(), config_of(5)
    plan = planned(config, 2)
    make, made = AutoscalingPolicy.get_policy, []

    def counted(policy: AutoscalingPolicy) -> Any:
        made.append(policy)
        return make(policy)

    monkeypatch.setattr(AutoscalingPolicy, "get_policy", counted)
    for now in (100.0, 101.0, 102.0):
        scaler.decide(plan, config, now)

    assert len(made) == 1


def test_a_policy_that_is_a_function_gets_its_arguments() -> None:
    policy = AutoscalingPolicy(policy_function=times, policy_kwargs={"factor": 3})
    config = AutoscalingConfig(min_replicas=1, max_replicas=10, upscale_delay_s=0, policy=policy)

    assert Autoscaler().decide(planned(config, 2), config, 100.0) == 6
    assert callable(bound(policy))


def test_decisions_and_errors_are_kept_for_those_who_ask() -> None:
    config = config_of(3, upscaling_factor=1)
    plan, scaler = planned(config, 1), Autoscaler()
    assert plan.target is not None
    assert scaler.detail(plan).metrics_health == AutoscalingMetricsHealth.UNAVAILABLE  # type: ignore[union-attr]
    plan.scale(scaler.decide(plan, config, 100.0))
    scaler.decide(plan, config, 101.0)  # nothing changes
    found = scaler.detail(plan)

    assert found is not None
    assert found.scaling_status == AutoscalingStatus.UPSCALING, "no replica runs yet"
    (decision,) = found.decisions
    assert (decision.prev_num_replicas, decision.curr_num_replicas, decision.timestamp_s) == (1, 3, 100.0)
    assert decision.policy is not None and decision.policy.endswith("Constant")
    scaler.failed(plan.id, "it raised")
    assert scaler.detail(plan).errors == ["it raised"]  # type: ignore[union-attr]
    for number in range(30):
        plan.target.num_replicas = 1 if number % 2 else 5
        scaler.decide(plan, config, 200.0 + number)
    assert len(scaler.detail(plan).decisions) == 10  # type: ignore[union-attr]
    assert scaler.detail(plan).errors == []  # type: ignore[union-attr]


def test_a_fixed_number_of_replicas_has_no_detail_of_scaling() -> None:
    plan = DeploymentPlan(DeploymentID("d", "a"), lambda: "name")
    plan.target = DeploymentTarget("v", DeploymentConfig(), 2)
    assert Autoscaler().detail(plan) is None
