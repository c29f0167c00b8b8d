"""Wrong options of tasks, actors, `remote` and `init`: refused where they are written, with what is valid."""

from __future__ import annotations

from typing import Any

import pytest

import sundog


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"num_cpu": 1}, ValueError, "num_cpus"),
        ({"max_restarts": 1}, ValueError, "max_retries"),
        ({"nonsense": 1}, ValueError, "Valid options"),
        ({"num_cpus": -1}, ValueError, "num_cpus"),
        ({"num_gpus": -0.5}, ValueError, "num_gpus"),
        ({"resources": {"x": -1}}, ValueError, "x"),
        ({"memory": -5}, ValueError, "memory"),
        ({"num_cpus": "two"}, TypeError, "num_cpus"),
        ({"num_returns": -1}, ValueError, "num_returns"),
        ({"num_returns": "some"}, ValueError, "num_returns"),
        ({"max_retries": -2}, ValueError, "max_retries"),
        ({"max_calls": -1}, ValueError, "max_calls"),
        ({"retry_exceptions": [3]}, ValueError, "retry_exceptions"),
        ({"resources": {"CPU": 1}}, ValueError, "CPU"),
    ],
)
def test_wrong_task_options_are_refused_where_they_are_written(
    options: dict[str, Any], error: type[Exception], words: str
) -> None:
    def body() -> None:
        return None

    with pytest.raises(error, match=words):
        sundog.remote(**options)(body)
    with pytest.raises(error, match=words):
        sundog.remote(body).options(**options)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"max_restart": 1}, ValueError, "max_restarts"),
        ({"max_retries": 1}, ValueError, "max_"),
        ({"max_concurrency": -1}, ValueError, "max_concurrency"),
        ({"lifetime": "for ever"}, ValueError, "lifetime"),
        ({"name": 3}, TypeError, "name"),
        ({"name": ""}, ValueError, "name"),
        ({"num_cpus": -1}, ValueError, "num_cpus"),
        ({"max_restarts": -2}, ValueError, "max_restarts"),
    ],
)
def test_wrong_actor_options_are_refused_where_they_are_written(
    options: dict[str, Any], error: type[Exception], words: str
) -> None:
    class Body:
        pass

    with pytest.raises(error, match=words):
        sundog.remote(**options)(Body)
    with pytest.raises(error, match=words):
        sundog.remote(Body).options(**options)


def test_remote_itself_refuses_what_it_cannot_decorate() -> None:
    with pytest.raises(TypeError, match="keyword options"):
        sundog.remote(3)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="at least one option"):
        sundog.remote()
    with pytest.raises(TypeError, match="twice"):
        sundog.remote(sundog.remote(len))


def test_a_coroutine_function_is_no_task() -> None:
    async def fetch() -> None:
        return None

    with pytest.raises(ValueError, match=r"fetch\(\) is an 'async def'"):
        sundog.remote(fetch)
    with pytest.raises(ValueError, match="method of an actor"):
        sundog.remote(num_cpus=1)(fetch)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"num_cpu": 1}, TypeError, "num_cpus"),
        ({"num_cpus": -1}, ValueError, "num_cpus"),
        ({"num_cpus": float("nan")}, ValueError, "num_cpus"),
        ({"num_gpus": float("inf")}, ValueError, "num_gpus"),
        ({"resources": 3}, TypeError, "resources"),
        ({"resources": {3: 1}}, TypeError, "the name of a resource is a string"),
        ({"resources": {"x": "1"}}, ValueError, "'x'"),
        ({"resources": {"x": float("nan")}}, ValueError, "'x'"),
        ({"labels": ["x"]}, TypeError, "labels"),
        ({"labels": {"x": 1}}, TypeError, "labels"),
        ({"object_store_memory": True}, ValueError, "object_store_memory"),
        ({"resources": {"x": -1}}, ValueError, "x"),
        ({"object_store_memory": 0}, ValueError, "object_store_memory"),
        ({"namespace": ""}, ValueError, "namespace"),
        ({"runtime_env": "x"}, TypeError, "runtime_env"),
        ({"runtime_env": {"envvars": {}}}, ValueError, "env_vars"),
        ({"_system_config": {"spin": 1}}, ValueError, "spin_us"),
        ({"_system_config": {"spin_us": "fast"}}, ValueError, "spin_us"),
        ({"address": "no-such-session"}, ConnectionError, "no-such-session"),
    ],
)
def test_wrong_init_arguments_leave_nothing_behind(
    arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        sundog.init(**arguments)
    assert not sundog.is_initialized()
