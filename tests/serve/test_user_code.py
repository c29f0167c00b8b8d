"""The user's class or function in a replica, called without one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import pytest

from sundog.serve.exceptions import RayServeException
from sundog.serve.user_code import UserCode


class Model:
    """Methods of every kind."""

    def __init__(self, scale: int = 2) -> None:
        self.scale = scale
        self.config: object = None

    def plain(self, x: int) -> tuple[int, str]:
        return x * self.scale, threading.current_thread().name

    async def waits(self, x: int) -> int:
        await asyncio.sleep(0)
        return x * self.scale

    def counts(self, n: int) -> Iterator[int]:
        yield from range(n)

    async def counts_later(self, n: int) -> AsyncIterator[int]:
        for number in range(n):
            yield number

    def reconfigure(self, config: object, rank: int) -> None:
        self.config = (config, rank)

    def check_health(self) -> str:
        return "well"


def play(definition: Callable[..., object], do: Callable[[UserCode], Coroutine[Any, Any, Any]]) -> Any:
    user = UserCode(definition, (3,) if definition is Model else (), {})
    user.make()

    async def run() -> object:
        await user.construct()
        return await do(user)

    try:
        return asyncio.run(run())
    finally:
        user.close()


def test_a_plain_method_runs_in_a_thread_and_a_coroutine_in_the_loop() -> None:
    value, thread = play(Model, lambda user: user.call("plain", (5,), {}))
    assert value == 15 and thread.startswith("serve-user-code")
    assert play(Model, lambda user: user.call("waits", (5,), {})) == 15


def test_with_the_setting_plain_methods_run_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_SERVE_RUN_SYNC_IN_THREADPOOL", "0")
    _, thread = play(Model, lambda user: user.call("plain", (5,), {}))
    assert thread == threading.current_thread().name


@pytest.mark.parametrize("name", ["counts", "counts_later"])
def test_items_of_generators_come_one_by_one(name: str) -> None:
    async def read(user: UserCode) -> list[object]:
        return [each async for each in user.stream(name, (3,), {})]

    assert play(Model, read) == [0, 1, 2]


def test_a_stream_and_a_value_are_not_mistaken_for_each_other() -> None:
    with pytest.raises(TypeError, match="stream=True"):
        play(Model, lambda user: user.call("counts", (3,), {}))

    async def read(user: UserCode) -> list[object]:
        return [each async for each in user.stream("waits", (3,), {})]

    with pytest.raises(TypeError, match="no generator"):
        play(Model, read)


def test_a_method_that_is_missing_is_told_with_those_that_are_there() -> None:
    with pytest.raises(RayServeException, match=r"'predict' that does not exist.*'counts'.*'plain'"):
        play(Model, lambda user: user.call("predict", (), {}))


def test_a_function_is_a_deployment_of_one_method() -> None:
    def double(x: int) -> int:
        return 2 * x

    assert play(double, lambda user: user.call("__call__", (4,), {})) == 8
    with pytest.raises(RayServeException, match=r"\['__call__'\]"):
        play(double, lambda user: user.call("other", (), {}))
    with pytest.raises(ValueError, match="must be a class"):
        play(double, lambda user: user.reconfigure({"a": 1}, 0))


def test_the_config_and_the_rank_reach_a_method_that_takes_both() -> None:
    async def configure(user: UserCode) -> object:
        await user.reconfigure({"a": 1}, 7)
        return user.object.config

    assert play(Model, configure) == ({"a": 1}, 7)

    class Without:
        """No reconfigure."""

    with pytest.raises(RayServeException, match="missing reconfigure method"):
        play(Without, lambda user: user.reconfigure({"a": 1}, 0))


def test_only_a_method_that_would_be_called_hears_of_a_change() -> None:
    class Config:
        def reconfigure(self, config: object) -> None: ...

    class Without: ...

    async def hears(user: UserCode) -> tuple[bool, bool]:
        return user.hears_of_changes(None), user.hears_of_changes({"a": 1})

    assert play(Model, hears) == (True, True)  # it takes the rank too
    assert play(Config, hears) == (False, True)
    assert play(Without, hears) == play(lambda x: x, hears) == (False, False)


def test_what_the_user_has_not_defined_gives_nothing() -> None:
    assert play(Model, lambda user: user.ask("check_health")) == "well"
    assert play(Model, lambda user: user.ask("record_autoscaling_stats")) is None
