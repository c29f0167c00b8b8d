"""Which calls of an actor wait for the arguments of those made before them; which handles keep an actor alive."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sundog
from tests.integration.gates import await_file, await_true

GET_S = 120


def slow_value(ray: ModuleType, gate: Path) -> Any:
    @ray.remote
    def wait() -> str:
        await_file(gate)
        return "late"

    return wait.remote()


class Plain:
    def echo(self, value: Any) -> Any:
        return value

    @sundog.method(concurrency_group="io")
    def read(self, value: Any) -> Any:
        return value


class Echo:
    def echo(self, value: Any) -> Any:
        return value


class AsyncEcho:
    async def echo(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize(("cls", "options"), [(Echo, {"max_concurrency": 2}), (AsyncEcho, {})])
def test_a_call_of_a_concurrent_actor_does_not_wait_for_the_arguments_of_an_earlier_one(
    ray: ModuleType, tmp_path: Path, cls: type, options: dict[str, Any]
) -> None:
    actor = ray.remote(cls).options(**options).remote() if options else ray.remote(cls).remote()
    late = actor.echo.remote(slow_value(ray, tmp_path / "gate"))
    assert ray.get(actor.echo.remote("soon"), timeout=GET_S) == "soon"
    (tmp_path / "gate").touch()
    assert ray.get(late, timeout=GET_S) == "late"


def test_a_call_of_a_plain_actor_waits_for_the_arguments_of_an_earlier_one(
    ray: ModuleType, tmp_path: Path
) -> None:
    actor = ray.remote(Echo).remote()
    late = actor.echo.remote(slow_value(ray, tmp_path / "gate"))
    soon = actor.echo.remote("soon")
    assert ray.wait([soon], timeout=0.3) == ([], [soon])
    (tmp_path / "gate").touch()
    assert ray.get([late, soon], timeout=GET_S) == ["late", "soon"]


def test_order_is_kept_in_a_concurrency_group_and_not_between_groups(ray: ModuleType, tmp_path: Path) -> None:
    actor = ray.remote(concurrency_groups={"io": 1})(Plain).remote()
    late = actor.echo.remote(slow_value(ray, tmp_path / "gate"))
    behind = actor.echo.remote("behind")
    assert ray.get(actor.read.remote("beside"), timeout=GET_S) == "beside"
    assert ray.wait([behind], timeout=0.3) == ([], [behind])
    (tmp_path / "gate").touch()
    assert ray.get([late, behind], timeout=GET_S) == ["late", "behind"]


@pytest.mark.parametrize(("cls", "options"), [(Echo, {"max_concurrency": 2}), (AsyncEcho, {})])
def test_order_is_refused_where_it_cannot_be_kept(
    ray: ModuleType, cls: type, options: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="order"):
        ray.remote(allow_out_of_order_execution=False, **options)(cls).remote()
    with pytest.raises(ValueError, match="order"):
        ray.remote(cls).options(allow_out_of_order_execution=False, **options).remote()


@pytest.mark.parametrize("way", ["current_actor", "get_actor"])
@pytest.mark.parametrize("keeper", ["itself", "another"])
def test_an_actors_own_handle_and_one_by_name_do_not_keep_it_alive(
    ray: ModuleType, way: str, keeper: str
) -> None:
    @ray.remote
    class Holder:
        def keep(self, handle: Any) -> None:
            self.handle = handle

    @ray.remote
    class Actor:
        def pid(self) -> int:
            return os.getpid()

        def give(self, strong: Any, holder: Any) -> None:
            weak = ray.get_runtime_context().current_actor if way == "current_actor" else ray.get_actor("me")
            if keeper == "itself":
                self.handle = weak
            else:
                ray.get(holder.keep.remote(weak), timeout=GET_S)

    holder = Holder.remote()
    actor = Actor.options(name="me").remote()
    pid = ray.get(actor.pid.remote(), timeout=GET_S)
    ray.get(actor.give.remote(actor, holder), timeout=GET_S)
    del actor
    await_true(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the actor")
