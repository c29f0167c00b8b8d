"""How many replicas a load asks for, and when the number changes."""

from __future__ import annotations

from typing import Any

import pytest

from sundog.serve.autoscaling_policy import default_autoscaling_policy, wanted_replicas
from sundog.serve.config import AutoscalingConfig, AutoscalingContext
from sundog.serve.rows import DeploymentID


@pytest.mark.parametrize(
    ("requests", "current", "wanted"), [(0, 0, 0), (1, 0, 1), (8, 2, 4), (2, 4, 1), (100, 4, 10), (0, 3, 0)]
)
def test_the_number_fits_the_load(requests: float, current: int, wanted: int) -> None:
    config = AutoscalingConfig(min_replicas=0, max_replicas=10, target_ongoing_requests=2)

    assert wanted_replicas(config, requests, current, 0, 10) == wanted


def context(requests: float, target: int, state: dict[str, Any], now: float) -> AutoscalingContext:
    config = AutoscalingConfig(
        min_replicas=0, max_replicas=10, upscale_delay_s=5, downscale_delay_s=10, target_ongoing_requests=1
    )
    return AutoscalingContext(
        DeploymentID("d"),
        "d",
        "a",
        target,
        target,
        [],
        requests,
        0,
        {},
        {},
        0,
        10,
        state,
        None,
        None,
        now,
        config,
    )


def test_a_wish_must_last_before_the_number_changes() -> None:
    count, state = default_autoscaling_policy(context(4, 1, {}, 0))
    assert count == 1
    count, state = default_autoscaling_policy(context(4, 1, state, 4))
    assert count == 1
    count, state = default_autoscaling_policy(context(4, 1, state, 5))
    assert (count, state) == (4, {})


def test_from_zero_the_first_replica_comes_at_once() -> None:
    assert default_autoscaling_policy(context(1, 0, {}, 0))[0] == 1
