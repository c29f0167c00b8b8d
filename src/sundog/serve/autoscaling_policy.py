"""How many replicas a deployment should have: the default policy.

Owns the rule: enough replicas that each has `target_ongoing_requests`, smoothed by factors, and changed only after
the wish has lasted for the delay. Pure: all it knows is in the context. Runs in the controller.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sundog.serve.config import AutoscalingConfig, AutoscalingContext

if TYPE_CHECKING:
    from sundog.plain import JsonObject


def wanted_replicas(config: AutoscalingConfig, requests: float, current: int, low: int, high: int) -> int:
    """The number that fits the present load, within the bounds.

    >>> wanted_replicas(AutoscalingConfig(max_replicas=10), 8.0, 1, 1, 10)
    4
    """
    if current == 0:
        # Without replicas there is no load per replica to compare: begin with one, or with the factor.
        return max(low, min(high, math.ceil(config.get_upscaling_factor()))) if requests > 0 else max(0, low)
    ratio = requests / current / config.get_target_ongoing_requests()
    factor = config.get_upscaling_factor() if ratio > 1 else config.get_downscaling_factor()
    smoothed = 1 + (ratio - 1) * factor
    wanted = math.ceil(current * smoothed)
    if ratio < 1 and wanted == current and current > 1 and factor < 1:
        wanted -= 1  # a factor below 1 must not prevent the last step
    return max(low, min(high, wanted))


def smoothed(config: AutoscalingConfig, wanted: float, target: int) -> int:
    """What a custom policy asks for, with the factors applied: whole replicas, within the bounds.

    >>> smoothed(AutoscalingConfig(max_replicas=10, upscaling_factor=0.5), 7.2, 2)
    5
    """
    step = wanted - target
    factor = config.get_upscaling_factor() if step > 0 else config.get_downscaling_factor()
    count = math.ceil(target + step * factor) if target else math.ceil(wanted)
    if step < 0 and count == target and factor < 1:
        count -= 1  # as above
    return max(config.min_replicas, min(config.max_replicas, count))


def delayed(
    wanted: int, target: int, config: AutoscalingConfig, state: JsonObject, now: float
) -> tuple[int, JsonObject]:
    """Change the number only when the same wish has lasted for its delay; `state` is that of the wish."""
    if wanted == target:
        return target, {}
    direction = "up" if wanted > target else "down"
    if state.get("direction") != direction:
        state = {"direction": direction, "since": now}
    if direction == "up":
        delay = 0.0 if target == 0 else config.upscale_delay_s
    elif wanted == 0 and target == 1 and config.downscale_to_zero_delay_s is not None:
        delay = config.downscale_to_zero_delay_s
    else:
        delay = config.downscale_delay_s
        if wanted == 0 and config.downscale_to_zero_delay_s is not None:
            wanted = 1
    if now - state["since"] < delay:
        return target, state
    return wanted, {}


def default_autoscaling_policy(ctx: AutoscalingContext) -> tuple[int, JsonObject]:
    """Ray Serve's default: the number of replicas that the load asks for, and the policy's own state."""
    wanted = wanted_replicas(
        ctx.config,
        ctx.total_num_requests,
        ctx.current_num_replicas if ctx.current_num_replicas else ctx.target_num_replicas,
        ctx.capacity_adjusted_min_replicas,
        ctx.capacity_adjusted_max_replicas,
    )
    state = dict(ctx.policy_state)
    return delayed(wanted, ctx.target_num_replicas, ctx.config, state, ctx.current_time or 0.0)


replica_queue_length_autoscaling_policy = default_autoscaling_policy


if not TYPE_CHECKING:  # a typing tool would take every name for present
    from sundog import absent as _absent

    __getattr__ = _absent.getter("serve.autoscaling_policy")
