"""Exceptions that resist, raised wherever user code runs: each arrives as its class, and nothing else breaks."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NoReturn

import pytest


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    code: int


class Locked(ValueError):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.lock = threading.Lock()


class Quits(Exception):
    def __reduce__(self) -> NoReturn:
        raise SystemExit(3)

    __str__ = __reduce__


class Steers(BaseException):
    pass


ODD = [Frozen, Locked, Quits, Steers]


def caught_in(ray: ModuleType, ref: Any, cls: type[BaseException]) -> Any:
    with pytest.raises(cls) as caught:
        ray.get(ref)
    assert isinstance(caught.value, ray.exceptions.RayTaskError)
    return caught.value


def test_they_arrive_from_tasks_and_through_tasks(ray: ModuleType) -> None:
    @ray.remote
    def fail(cls: type[BaseException]) -> None:
        raise cls(7)

    @ray.remote
    def pass_on(cls: type[BaseException]) -> Any:
        return ray.get(fail.remote(cls))

    for cls in ODD:
        direct = str(caught_in(ray, fail.remote(cls), cls))
        nested = str(caught_in(ray, pass_on.remote(cls), cls))
        assert direct.count("raise cls(7)") == nested.count("raise cls(7)") == 1
        assert nested.index("pass_on") < nested.index("raise cls(7)"), "one stack, the caller first"
    assert ray.get(ray.put(1)) == 1


def test_they_arrive_from_generators(ray: ModuleType) -> None:
    @ray.remote
    def numbers(cls: type[BaseException]) -> Iterator[int]:
        yield 1
        raise cls(7)

    for cls in ODD:
        items = numbers.remote(cls)
        assert ray.get(next(items)) == 1
        caught_in(ray, next(items), cls)


@pytest.mark.parametrize("kind", ["plain", "threaded", "asyncio"])
def test_they_arrive_from_methods_and_the_actor_goes_on(ray: ModuleType, kind: str) -> None:
    class Plain:
        def fail(self, cls: type[BaseException]) -> None:
            raise cls(7)

    class Asyncio:
        async def fail(self, cls: type[BaseException]) -> None:
            raise cls(7)

    actor_class = ray.remote(Asyncio if kind == "asyncio" else Plain)
    actor = actor_class.options(max_concurrency=1 if kind == "plain" else 2).remote()
    for cls in ODD:
        caught_in(ray, actor.fail.remote(cls), cls)
        assert ray.get(actor.__ray_ready__.remote())


def test_they_arrive_from_constructors_as_the_cause_of_the_death(ray: ModuleType) -> None:
    @ray.remote
    class Unborn:
        def __init__(self, cls: type[BaseException]) -> None:
            raise cls(7)

        def ping(self) -> None:
            pass

    for cls in ODD:
        unborn = Unborn.remote(cls)
        with pytest.raises(ray.exceptions.ActorDiedError, match="its constructor raised") as caught:
            ray.get(unborn.ping.remote())
        assert caught.value.actor_init_failed
        assert isinstance(caught.value.cause, ray.exceptions.RayTaskError)
        assert isinstance(caught.value.cause.cause, cls)


def test_a_group_can_be_taken_apart_where_it_arrives(ray: ModuleType) -> None:
    @ray.remote
    def fail() -> None:
        raise ExceptionGroup("both", [Locked(1), ExceptionGroup("deeper", [KeyError("k"), Frozen(2)])])

    seen: list[Any] = []
    try:
        ray.get(fail.remote())
    except* Locked as group:
        seen += [type(each).__bases__ for each in group.exceptions]
    except* Frozen as group:
        seen += [each.exceptions[0].code for each in group.exceptions]  # type: ignore[union-attr]
    except* KeyError as group:
        seen += [group.exceptions[0].exceptions[0].args]  # type: ignore[union-attr]
    assert len(seen) == 3 and 2 in seen and ("k",) in seen
