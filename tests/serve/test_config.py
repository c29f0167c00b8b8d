"""Configs of Serve: what they refuse, what they turn into numbers, and how they carry user code."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from sundog.serve.config import (
    AutoscalingConfig,
    AutoscalingPolicy,
    ControllerOptions,
    DeploymentActorConfig,
    HTTPOptions,
    ProxyLocation,
    RequestRouterConfig,
    RollingUpdateConfig,
    count_of,
    share_of,
)


@pytest.mark.parametrize(
    ("value", "total", "count"), [(2, 10, 2), ("25%", 10, 3), ("25%", 8, 2), ("0%", 9, 0)]
)
def test_a_share_of_replicas_is_rounded_up(value: int | str, total: int, count: int) -> None:
    assert count_of(value, total) == count


@pytest.mark.parametrize("value", [-1, "25", "x%", "101%", "-1%"])
def test_what_is_neither_a_count_nor_a_share_is_refused(value: int | str) -> None:
    with pytest.raises(ValueError, match="number of replicas or a share"):
        count_of(value, 10)


def test_a_canary_gets_more_than_nothing_and_less_than_all() -> None:
    assert (share_of("5%"), share_of(0.05), share_of(None)) == (0.05, 0.05, None)
    for value in ("0%", "100%", 1.0, "x"):
        with pytest.raises(ValueError, match="between 0% and 100%"):
            share_of(value)


def test_an_update_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValidationError, match="share such as"):
        RollingUpdateConfig(max_surge="many")
    with pytest.raises(ValidationError, match="canary"):
        RollingUpdateConfig(canary="120%")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"min_replicas": 3, "max_replicas": 2}, "max_replicas"),
        ({"min_replicas": 2, "initial_replicas": 1, "max_replicas": 4}, "below min_replicas"),
        ({"initial_replicas": 9, "max_replicas": 4}, "above max_replicas"),
    ],
)
def test_bounds_that_contradict_each_other_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        AutoscalingConfig(**given)


def test_the_word_for_an_aggregation_may_be_in_capitals() -> None:
    assert AutoscalingConfig(aggregation_function="MAX").aggregation_function.value == "max"


def test_factors_fall_back_to_the_older_names() -> None:
    config = AutoscalingConfig(upscale_smoothing_factor=0.5, downscaling_factor=0.25)
    assert (config.get_upscaling_factor(), config.get_downscaling_factor()) == (0.5, 0.25)


def test_a_location_is_read_from_its_name() -> None:
    assert ProxyLocation._normalize("NoServer") is ProxyLocation.Disabled
    assert ProxyLocation._normalize("EveryNode") is ProxyLocation.EveryNode
    with pytest.raises(TypeError, match="got int"):
        ProxyLocation._normalize(7)


def test_without_a_host_there_is_no_proxy_and_keys_come_in_pairs() -> None:
    assert HTTPOptions(host=None).location is ProxyLocation.Disabled
    with pytest.raises(ValidationError, match="ssl_keyfile and ssl_certfile"):
        HTTPOptions(ssl_keyfile="k.pem")
    with pytest.raises(ValidationError, match="has been removed"):
        HTTPOptions(middlewares=[object()])


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"pip": ["x"]}, "env_vars' alone"),
        ({"env_vars": 3}, "maps names to texts"),
        ({"env_vars": {"": "x"}}, "not empty"),
        ({"env_vars": {"A": 1}}, "takes a str, not a int"),
    ],
)
def test_a_controller_takes_variables_alone(env: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        ControllerOptions(runtime_env=env)


class Router:
    """A router that is not the default."""


def test_user_code_in_a_config_travels_and_is_named() -> None:
    config = RequestRouterConfig(request_router_class=Router)
    assert config.request_router_class == f"{__name__}:Router"
    assert not config.is_default_request_router()
    assert config.get_request_router_class().__qualname__ == "Router"
    assert RequestRouterConfig().is_default_request_router()


def test_arguments_of_user_code_must_fit_into_json() -> None:
    with pytest.raises(ValidationError, match="request_router_kwargs takes only values that JSON can hold"):
        RequestRouterConfig(request_router_kwargs={"f": print})
    with pytest.raises(ValidationError, match="policy_kwargs takes only values that JSON can hold"):
        AutoscalingPolicy(policy_kwargs={"f": print})


def test_an_actor_of_a_deployment_takes_its_arguments_as_a_list_or_not_at_all() -> None:
    made = DeploymentActorConfig(name="cache", actor_class=Router, init_args=[1, 2])
    assert made.init_args == (1, 2) and made.get_actor_class().__qualname__ == "Router"
    assert DeploymentActorConfig(name="cache", actor_class=Router, init_args=None).init_args == ()
