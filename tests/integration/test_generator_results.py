"""Generators whose items come together: a fixed number of results, or all of them with num_returns="dynamic"."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from sundog.exceptions import RayTaskError
from tests.integration.gates import await_true

GET_S = 120


@pytest.mark.parametrize("large", [0, 1 << 20])
@pytest.mark.parametrize("kind", ["task", "sync", "threads", "asyncio"])
def test_what_a_generator_yielded_before_it_raised_is_good_and_the_rest_is_its_error(
    ray: ModuleType, kind: str, large: int
) -> None:
    def split(self: object = None) -> Iterator[bytes]:
        yield b"1" + bytes(large)
        yield b"2" + bytes(large)
        raise ValueError("torn")

    async def wait(self: object) -> None:
        pass

    if kind == "task":
        method = ray.remote(max_retries=0)(split)
    else:
        members = {"split": split, **({"wait": wait} if kind == "asyncio" else {})}
        cls = ray.remote(type("Actor", (), members))
        actor = cls.options(max_concurrency=2).remote() if kind == "threads" else cls.remote()
        method = actor.split
    dynamic = list(ray.get(method.options(num_returns="dynamic").remote(), timeout=GET_S))
    fixed = method.options(num_returns=4).remote()
    assert len(dynamic) == 3 and len(fixed) == 4
    for refs in (dynamic, fixed):
        assert [value[:1] for value in ray.get(refs[:2], timeout=GET_S)] == [b"1", b"2"]
        for ref in refs[2:]:
            with pytest.raises(ValueError, match="torn"):
                ray.get(ref, timeout=GET_S)


def test_a_generator_that_ends_early_gives_what_it_has_and_one_result_is_its_first_item(
    ray: ModuleType,
) -> None:
    @ray.remote
    def count(number: int) -> Iterator[int]:
        yield from range(number)

    first, second, third = count.options(num_returns=3).remote(2)
    assert ray.get([first, second], timeout=GET_S) == [0, 1]
    with pytest.raises(ValueError, match="num_returns=3 but yielded 2"):
        ray.get(third, timeout=GET_S)
    assert ray.get(count.options(num_returns=3).remote(5), timeout=GET_S) == [0, 1, 2]
    assert ray.get(count.options(num_returns=1).remote(3), timeout=GET_S) == 0
    with pytest.raises(ValueError, match="num_returns=1 but yielded 0"):
        ray.get(count.options(num_returns=1).remote(0), timeout=GET_S)


@pytest.mark.parametrize("returns", ["dynamic", 3])
@pytest.mark.parametrize("how", ["raise", "crash"])
def test_a_generator_whose_items_come_together_is_tried_again_as_a_whole(
    ray: ModuleType, tmp_path: Path, returns: Any, how: str
) -> None:
    @ray.remote(num_returns=returns, max_retries=2, retry_exceptions=True)
    def torn() -> Iterator[bytes]:
        (tmp_path / f"try-{len(list(tmp_path.iterdir()))}").touch()
        tries = len(list(tmp_path.iterdir()))
        for number in range(3):
            if number == 2 and tries < 3:
                if how == "crash":
                    os._exit(1)
                raise ValueError
            yield bytes([tries, number]) + bytes(200_000)

    refs = torn.remote()
    refs = ray.get(refs, timeout=GET_S) if returns == "dynamic" else refs
    assert [bytes(value[:2]) for value in ray.get(list(refs), timeout=GET_S)] == [b"\3\0", b"\3\1", b"\3\2"]


@pytest.mark.parametrize("returns", ["dynamic", "streaming", 8])
def test_items_that_together_exceed_the_store_are_made_and_read(ray_session: Any, returns: Any) -> None:
    ray = ray_session(num_cpus=1, object_store_memory=80 << 20)

    @ray.remote(num_returns=returns)
    def large() -> Iterator[Any]:
        for number in range(8):
            yield np.full(20 << 20, number, np.uint8)

    refs = large.remote()
    refs = ray.get(refs, timeout=GET_S) if returns == "dynamic" else refs
    assert [int(ray.get(ref, timeout=GET_S)[-1]) for ref in refs] == list(range(8))


def test_a_generator_may_yield_so_many_items_and_not_one_more(ray_session: Any) -> None:
    ray = ray_session(num_cpus=1, _system_config={"max_num_generator_returns": 2})

    @ray.remote
    def three() -> Iterator[int]:
        yield from range(3)

    first, second, third = three.remote()
    assert ray.get([first, second], timeout=GET_S) == [0, 1]
    with pytest.raises(ValueError, match="more than 2 items"):
        ray.get(third, timeout=GET_S)


def test_a_yield_of_several_objects_has_a_ref_for_each(ray: ModuleType) -> None:
    @ray.remote(_num_objects_per_yield=2, retry_exceptions=True, max_retries=1)
    def pairs(last: str) -> Any:
        yield 1, "one"
        yield {"good": (2, "two"), "short": (2,), "lock": (2, threading.Lock())}[last]

    assert ray.get(list(pairs.remote("good"))) == [1, "one", 2, "two"]
    *good, bad = list(pairs.remote("lock"))
    assert ray.get(good) == [1, "one", 2]  # and it is not tried again
    with pytest.raises(RayTaskError):
        ray.get(bad)
    *good, bad = list(pairs.remote("short"))
    assert ray.get(good) == [1, "one"]
    with pytest.raises(ValueError, match="_num_objects_per_yield=2"):
        ray.get(bad)
    with pytest.raises(ValueError, match="where the task is decorated"):
        pairs.options(_num_objects_per_yield=3)


def test_an_actor_bounds_the_unread_items_of_all_its_generators_together(
    ray: ModuleType, tmp_path: Path
) -> None:
    @ray.remote(max_concurrency=3, _actor_generator_backpressure_num_objects=3)
    class Source:
        def items(self, name: str) -> Any:
            for number in range(4):
                (tmp_path / f"{name}{number}").touch()
                yield number

        def begun(self) -> int:
            return len(list(tmp_path.iterdir()))

    source = Source.remote()
    first, second = source.items.remote("a"), source.items.remote("b")
    await_true(lambda: ray.get(source.begun.remote()) == 3, "three items")
    if not (tmp_path / "a0").exists():
        first, second = second, first  # its thread was faster, and has made all three
    assert ray.get(next(first)) == 0
    await_true(lambda: ray.get(source.begun.remote()) == 4, "a fourth item")
    del first
    assert [ray.get(item) for item in second] == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["task", "threads", "asyncio"])
def test_results_that_nobody_holds_any_more_are_not_stored(ray: ModuleType, kind: str) -> None:
    """The worker asks its owner at the first large result; here it waits for the answer, so that all is determined."""
    count, size = 12, 2 << 20

    def split(self: object = None) -> Iterator[bytes | int]:
        from sundog import engines
        from tests.integration.gates import await_true

        yield b"first" + bytes(size)
        inline: Any = engines.current().owner.run_here.__self__  # type: ignore[union-attr]
        here = inline.executor.results.unwanted
        await_true(lambda: sum(map(len, here._told.values())) == count - 2, "the answer of the owner")
        before = set(os.listdir(here.owner.control.shm_root))
        for _ in range(count - 2):
            yield bytes(size)
        yield len(set(os.listdir(here.owner.control.shm_root)) - before)

    async def wait(self: object) -> None:
        pass

    if kind == "task":
        method = ray.remote(max_retries=0)(split)
    else:
        members = {"split": split, **({"wait": wait} if kind == "asyncio" else {})}
        cls = ray.remote(type("Actor", (), members))
        actor = cls.options(max_concurrency=2).remote() if kind == "threads" else cls.remote()
        method = actor.split
    refs = method.options(num_returns=count).remote()
    first, last = refs[0], refs[-1]
    del refs
    assert ray.get(last, timeout=GET_S) == 0
    assert ray.get(first, timeout=GET_S)[:5] == b"first"


def test_a_list_whose_results_are_all_held_arrives_whole(ray: ModuleType) -> None:
    @ray.remote(num_returns=5)
    def split() -> list[Any]:
        return [np.full(1 << 20, index, dtype=np.uint8) for index in range(5)]

    assert [int(each[0]) for each in ray.get(split.remote(), timeout=GET_S)] == [0, 1, 2, 3, 4]
