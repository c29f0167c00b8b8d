"""The load of deployments, as processes report it, and what policies make of it.

Owns the numbers of the look-back period and the state of each policy. Decides nothing by itself: a policy does.
Runs in the controller's loop.
"""

from __future__ import annotations

import functools
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sundog.serve.autoscaling_policy import default_autoscaling_policy, delayed, smoothed
from sundog.serve.config import AggregationFunction, AutoscalingConfig, AutoscalingContext, AutoscalingPolicy
from sundog.serve.instance_schema import (
    AutoscalingMetricsHealth,
    AutoscalingStatus,
    DeploymentAutoscalingDetail,
    ScalingDecision,
)
from sundog.serve.plan import DeploymentPlan
from sundog.serve.rows import DeploymentID, TimeStampedValue

if TYPE_CHECKING:
    from sundog.plain import JsonObject
    from sundog.serve.config import Policy
    from sundog.serve.rows import ReplicaID

_DECISIONS = 10  # decisions that are kept of each deployment
_SILENT_S = 5.0  # a process without a report for this long is gone or idle


@dataclass
class Load:
    """What is known of one deployment's load."""

    reports: dict[str, tuple[float, int, int]] = field(
        default_factory=dict
    )  # process: when, waiting, running
    points: deque[tuple[float, float, float]] = field(default_factory=deque)  # when, waiting, all
    custom: dict[str, dict[ReplicaID, list[TimeStampedValue]]] = field(default_factory=dict)
    state: dict[str, object] = field(default_factory=dict)  # the state of the policy itself
    wish: dict[str, object] = field(default_factory=dict)  # a custom policy's request, and since when
    last_up: float | None = None
    last_down: float | None = None
    policy: Policy | None = None
    policy_of: object = None
    decisions: deque[ScalingDecision] = field(default_factory=lambda: deque(maxlen=_DECISIONS))
    error: str = ""  # of the last decision


class Autoscaler:
    """Loads and policies of all deployments."""

    def __init__(self) -> None:
        self.loads: dict[DeploymentID, Load] = {}

    def report(self, process: str, deployment: DeploymentID, waiting: int, running: int) -> None:
        """A process reports how many of its requests wait, and how many run in replicas."""
        load = self.loads.setdefault(deployment, Load())
        load.reports[process] = (time.time(), waiting, running)

    def record(self, deployment: DeploymentID, replica: ReplicaID, stats: dict[str, float]) -> None:
        """A replica's own numbers (`record_autoscaling_stats`)."""
        load = self.loads.setdefault(deployment, Load())
        wall_s = time.time()
        for name, value in stats.items():
            load.custom.setdefault(name, {}).setdefault(replica, []).append(
                TimeStampedValue(wall_s, float(value))
            )

    def forget(self, deployment: DeploymentID) -> None:
        """A deployment is gone."""
        self.loads.pop(deployment, None)

    def sample(self, deployment: DeploymentID, config: AutoscalingConfig, now: float) -> Load:
        """Add a point for now, and drop those that are too old."""
        load = self.loads.setdefault(deployment, Load())
        load.reports = {key: row for key, row in load.reports.items() if now - row[0] < _SILENT_S}
        waiting = sum(row[1] for row in load.reports.values())
        everything = waiting + sum(row[2] for row in load.reports.values())
        load.points.append((now, waiting, everything))
        oldest = now - config.look_back_period_s
        while load.points and load.points[0][0] < oldest:
            load.points.popleft()
        for series in load.custom.values():
            for replica, points in list(series.items()):
                kept = [each for each in points if each.timestamp >= oldest]
                series[replica] = kept
                if not kept:
                    del series[replica]
        return load

    def context(self, plan: DeploymentPlan, config: AutoscalingConfig, now: float) -> AutoscalingContext:
        """What a policy sees of a deployment."""
        load = self.sample(plan.id, config, now)
        assert plan.target is not None
        running = [row.id for row in plan.running() if row.version == plan.target.version]
        kind = AggregationFunction(config.aggregation_function)
        values = [each[2] for each in load.points]
        queued = [each[1] for each in load.points]
        return AutoscalingContext(
            deployment_id=plan.id,
            deployment_name=plan.id.name,
            app_name=plan.id.app_name,
            current_num_replicas=len(running),
            target_num_replicas=plan.target.num_replicas,
            running_replicas=running,
            total_num_requests=_one(values, kind),
            total_queued_requests=_one(queued, kind),
            aggregated_metrics=lambda: {
                name: {
                    replica: _one([each.value for each in points], kind) for replica, points in series.items()
                }
                for name, series in load.custom.items()
            },
            raw_metrics=lambda: load.custom,
            capacity_adjusted_min_replicas=config.min_replicas,
            capacity_adjusted_max_replicas=config.max_replicas,
            policy_state=load.state,
            last_scale_up_time=load.last_up,
            last_scale_down_time=load.last_down,
            current_time=now,
            config=config,
        )

    def decide(self, plan: DeploymentPlan, config: AutoscalingConfig, now: float) -> int:
        """How many replicas a deployment should have."""
        seen = self.context(plan, config, now)
        load = self.loads[plan.id]
        if load.policy is None or load.policy_of != config.policy:
            load.policy, load.policy_of = bound(config.policy), config.policy
        wanted, state = load.policy(seen)
        return self.apply(plan, config, wanted, state, now, load.policy is default_autoscaling_policy)

    def apply(
        self,
        plan: DeploymentPlan,
        config: AutoscalingConfig,
        wanted: float,
        state: JsonObject,
        now: float,
        is_final: bool = False,
    ) -> int:
        """Keep a policy's state, and its wish within the bounds.

        Factors and delays of the config are applied to the wish of a custom policy; the default policy applies them
        itself.
        """
        load = self.loads[plan.id]
        load.state = state or {}
        assert plan.target is not None
        current = plan.target.num_replicas
        if is_final:
            count = max(config.min_replicas, min(config.max_replicas, int(wanted)))
        else:
            count = smoothed(config, wanted, current)
            count, load.wish = delayed(count, current, config, load.wish, now)
        if count > current:
            load.last_up = now
        elif count < current:
            load.last_down = now
        load.error = ""
        if count != current:
            everything = load.points[-1][2] if load.points else 0.0
            reason = f"The policy asked for {wanted:g} replicas, with {everything:g} requests at {current} replicas."
            load.decisions.append(
                ScalingDecision(
                    timestamp_s=now,
                    reason=reason,
                    prev_num_replicas=current,
                    curr_num_replicas=count,
                    policy=policy_name(config.policy),
                )
            )
        return count

    def failed(self, deployment: DeploymentID, error: str) -> None:
        """A policy has raised."""
        self.loads.setdefault(deployment, Load()).error = error

    def detail(self, plan: DeploymentPlan) -> DeploymentAutoscalingDetail | None:
        """How a deployment scales, for the REST interface; None if its number of replicas is fixed."""
        target = plan.target
        config = target.config.autoscaling_config if target is not None else None
        if target is None or config is None:
            return None
        load = self.loads.get(plan.id, Load())
        running = len(plan.running())
        status = AutoscalingStatus.STABLE
        if running != target.num_replicas:
            is_less = running < target.num_replicas
            status = AutoscalingStatus.UPSCALING if is_less else AutoscalingStatus.DOWNSCALING
        kind = AggregationFunction(config.aggregation_function)
        health = AutoscalingMetricsHealth
        return DeploymentAutoscalingDetail(
            scaling_status=status,
            decisions=list(load.decisions),
            metrics={
                "total_num_requests": _one([each[2] for each in load.points], kind),
                "total_queued_requests": _one([each[1] for each in load.points], kind),
                **{
                    name: {
                        replica.unique_id: _one([each.value for each in points], kind)
                        for replica, points in series.items()
                    }
                    for name, series in load.custom.items()
                },
            },
            metrics_health=health.HEALTHY if load.points else health.UNAVAILABLE,
            errors=[load.error] if load.error else [],
        )


def policy_name(policy: AutoscalingPolicy) -> str:
    """What a policy is called."""
    found = policy.policy_function
    return found if isinstance(found, str) else f"{found.__module__}:{getattr(found, '__qualname__', found)}"


def bound(policy: AutoscalingPolicy) -> Policy:
    """A policy to be called with what it decides from: a function with its arguments, or the instance of a class."""
    found = policy.get_policy()
    if policy.policy_kwargs and hasattr(found, "__name__"):
        return functools.partial(found, **policy.policy_kwargs)
    return found


def _one(values: list[float], kind: AggregationFunction) -> float:
    if not values:
        return 0.0
    if kind == AggregationFunction.MAX:
        return max(values)
    if kind == AggregationFunction.MIN:
        return min(values)
    return sum(values) / len(values)
