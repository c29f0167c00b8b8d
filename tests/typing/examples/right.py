"""Calls that type checkers must accept, with the types that they must see."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeVar, assert_type

import sundog as ray
from sundog import serve
from sundog.actor import ActorClass, ActorHandle, ActorProxy, typed
from sundog.remote_function import RemoteFunction

T = TypeVar("T")


@ray.remote
def scale(value: float, factor: int = 2, *, unit: str = "m") -> str:
    return f"{value * factor} {unit}"


@ray.remote
def count(upto: int) -> Iterator[int]:
    yield from range(upto)


@ray.remote(num_cpus=0.5, max_retries=0, runtime_env={"env_vars": {"A": "b"}})
def length(items: list[int]) -> int:
    return len(items)


@ray.remote(num_returns=2)
def both(value: int) -> tuple[int, str]:
    return value, str(value)


@ray.remote(num_returns="streaming")
def letters(word: str) -> Iterator[str]:
    yield from word


@ray.remote
def total(*values: int) -> int:
    return sum(values)


@ray.remote
def maybe(value: int | None, other: list[int]) -> int | None:
    return value or len(other)


@ray.remote
def nothing() -> None:
    return None


@ray.remote
def unknown(value: Any) -> Any:
    return value


@ray.remote
def first(values: list[T]) -> T:
    return values[0]


class Counter:
    def __init__(self, start: int, *, step: int = 1) -> None:
        self.value = start
        self.step = step

    @ray.method
    def add(self, amount: int, note: str = "") -> int:
        self.value += amount
        return self.value

    @ray.method(concurrency_group="io")
    async def read(self) -> str:
        return str(self.value)

    @ray.method(num_returns=2)
    def pair(self) -> tuple[int, int]:
        return self.value, self.step

    @ray.method
    def each(self) -> Iterator[int]:
        yield self.value

    @ray.method
    async def later(self) -> AsyncIterator[int]:
        yield self.value

    @ray.method
    def anything(self, value: Any) -> Any:
        return value

    def twice(self, amount: int) -> int:
        assert_type(self.add(amount), int)  # on an instance it is a method like any other
        return self.add(amount) * 2


Remote = ray.remote(Counter)


def functions() -> None:
    ref = scale.remote(1.5)
    assert_type(ref, ray.ObjectRef[str])
    assert_type(ray.get(ref), str)
    assert_type(scale.remote(1.5, 3, unit="km"), ray.ObjectRef[str])
    assert_type(scale.remote(value=1, factor=3), ray.ObjectRef[str])
    assert_type(nothing.remote(), ray.ObjectRef[None])
    assert_type(total.remote(1, 2, 3, 4, 5, 6), ray.ObjectRef[int])
    assert_type(both.remote(3), list[ray.ObjectRef[Any]])
    assert_type(ray.get(unknown.remote(3)), Any)
    first.remote([b""])  # bytes to pyright, Any to mypy


def refs_in_place_of_values(
    number: ray.ObjectRef[float], whole: ray.ObjectRef[int], items: ray.ObjectRef[list[int]]
) -> None:
    assert_type(scale.remote(number), ray.ObjectRef[str])
    assert_type(scale.remote(number, whole, unit="km"), ray.ObjectRef[str])
    assert_type(scale.remote(1.5, whole), ray.ObjectRef[str])
    assert_type(scale.remote(number, factor=3), ray.ObjectRef[str])
    assert_type(scale.remote(whole), ray.ObjectRef[str])  # a ref to an int does for a float
    assert_type(maybe.remote(whole, items), ray.ObjectRef[int | None])
    assert_type(maybe.remote(None, items), ray.ObjectRef[int | None])
    assert_type(total.remote(whole, 2, whole, whole), ray.ObjectRef[int])
    assert_type(length.remote(ray.put([1, 2])), ray.ObjectRef[int])
    assert_type(length.remote(unknown.remote(1)), ray.ObjectRef[int])


def options() -> None:
    assert_type(scale.options(num_cpus=2, name="fast").remote(1.5), ray.ObjectRef[str])
    assert_type(both.options(num_returns=3).remote(3), list[ray.ObjectRef[Any]])
    given: dict[str, Any] = {"num_cpus": 1}
    scale.options(**given).remote(1.5)
    assert_type(Remote.options(name="c", lifetime="detached").remote(1), ActorHandle[Counter])


def generators() -> None:
    stream = count.remote(3)
    assert_type(stream, ray.ObjectRefGenerator[int])
    for ref in stream:
        assert_type(ray.get(ref), int)
    assert_type(next(letters.remote("ab")), ray.ObjectRef[str])
    assert_type(count.options(num_cpus=1).remote(2), ray.ObjectRefGenerator[int])


def objects(name: ray.ObjectRef[str]) -> None:
    assert_type(ray.put(3), ray.ObjectRef[int])
    assert_type(ray.get([name, name]), list[str])
    assert_type(ray.get([scale.remote(n) for n in range(3)], timeout=1), list[str])
    ready, rest = ray.wait([name], num_returns=1)
    assert_type(ready, list[ray.ObjectRef[str]])
    assert_type(rest, list[ray.ObjectRef[str]])
    mixed: list[ray.ObjectRef[str] | ray.ObjectRefGenerator[int]] = [count.remote(1), name]
    assert_type(ray.wait(mixed)[0], list[ray.ObjectRef[str] | ray.ObjectRefGenerator[int]])
    ray.cancel(name, force=True)


async def awaiting(name: ray.ObjectRef[str]) -> None:
    assert_type(await name, str)
    assert_type(name.future().result(), str)
    async for ref in count.remote(3):
        assert_type(await ref, int)


def actors() -> None:
    assert_type(Remote, ActorClass[Counter])
    handle = Remote.remote(1, step=2)
    assert_type(handle, ActorHandle[Counter])
    handle.add.remote(1)  # known to be there at run time alone
    print(*handle.pair.remote())
    counter = typed(handle)
    assert_type(counter.add.remote(1), ray.ObjectRef[int])
    assert_type(counter.add.remote(ray.put(1), note="x"), ray.ObjectRef[int])
    assert_type(counter.read.remote(), ray.ObjectRef[str])
    assert_type(counter.pair.remote(), list[ray.ObjectRef[Any]])
    assert_type(counter.each.remote(), ray.ObjectRefGenerator[int])
    assert_type(counter.later.remote(), ray.ObjectRefGenerator[int])
    assert_type(counter.anything.remote(3), Any)
    assert_type(counter.add.options(name="sum").remote(1), ray.ObjectRef[int])
    ray.kill(handle)
    ray.kill(ray.get_actor("other"))


@serve.multiplexed(max_num_models_per_replica=2)
async def load(model_id: str) -> float:
    return len(model_id) / 2


@serve.multiplexed
async def load_plainly(model_id: str) -> float:
    return len(model_id) / 2


async def models() -> None:
    assert_type(await load("a"), float)
    assert_type(await load_plainly("a"), float)


def handles_of_bases() -> None:
    anything: ActorHandle[object] = Remote.remote(1)  # a handle to a class is one to its base
    ray.kill(anything)


def annotated(function: RemoteFunction[[int], ray.ObjectRef[str]], counter: ActorProxy[Counter]) -> str:
    counter.add.remote(1)
    return ray.get(function.remote(1))
