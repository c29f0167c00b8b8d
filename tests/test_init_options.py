"""What `init()` refuses, before anything is started."""

from __future__ import annotations

from typing import Any

import pytest

from sundog import init_options
from sundog.job_config import JobConfig


def init(address: str | None = None, *, num_cpus: float | None = None, **other: object) -> None:
    """Stands for the real one: its parameters are the options that there are."""


def check(**given: Any) -> None:
    names = ("other", "runtime_env", "namespace", "num_cpus", "num_gpus", "resources", "labels", "store")
    init_options.check(init, *({**dict.fromkeys(names), "other": {}, **given}[name] for name in names))


def test_what_is_left_out_is_right() -> None:
    check()
    check(num_cpus=0, num_gpus=0.5, resources={"disk": 1}, labels={"a": "b"}, store=1, namespace="n")


def test_an_option_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(TypeError, match="Did you mean 'num_cpus'"):
        check(other={"num_cpu": 1})
    with pytest.raises(RuntimeError, match="has no option 'xyz'"):
        check(other={"xyz": 1})
    check(other={"_redis_password": "x"})  # Ray takes it, and it has no effect


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"namespace": 3}, TypeError),
        ({"namespace": ""}, ValueError),
        ({"num_cpus": -1}, ValueError),
        ({"num_cpus": float("nan")}, ValueError),
        ({"num_cpus": True}, ValueError),
        ({"num_gpus": "1"}, ValueError),
        ({"resources": ["disk"]}, TypeError),
        ({"labels": {"a": 1}}, TypeError),
        ({"runtime_env": "env"}, TypeError),
        ({"store": 0}, ValueError),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(given: dict[str, Any], kind: type[Exception]) -> None:
    name = next(iter(given)).replace("store", "object_store_memory")
    with pytest.raises(kind, match=name if given != {"namespace": ""} else "namespace"):
        check(**given)


def test_a_job_config_may_be_a_dict_or_missing() -> None:
    given = JobConfig(ray_namespace="mine")

    assert init_options.job_config_of(given) is given
    assert init_options.job_config_of(None).ray_namespace is None
    with pytest.raises(TypeError, match="JobConfig"):
        init_options.job_config_of("mine")


def test_logging_takes_a_format_and_a_config_of_its_own_kind() -> None:
    init_options.check_logging(None, None)
    with pytest.raises(TypeError, match="logging_format"):
        init_options.check_logging(3, None)
    with pytest.raises(TypeError, match="logging_config"):
        init_options.check_logging(None, {"level": "INFO"})
