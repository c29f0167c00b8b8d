"""ActorPool against running actors: order, timeouts, dead actors, and who belongs to it."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

import pytest

from sundog.util.actor_pool import ActorPool


def make_actors(ray: ModuleType, count: int) -> list[Any]:
    class Echo:
        def double(self, value: int) -> int:
            return 2 * value

        def pair(self, value: int) -> tuple[int, int]:
            return value, -value

        def fail(self, value: int) -> None:
            raise KeyError(value)

        def die(self, value: int) -> None:
            os._exit(1)

        def wait_for(self, refs: list[Any]) -> str:
            ray.get(refs)
            return "waited"

    return [ray.remote(num_cpus=0)(Echo).remote() for _ in range(count)]


def make_gate(ray: ModuleType) -> Any:
    """An actor whose `passed` resolves only after `open` was called."""
    import asyncio

    class Gate:
        def __init__(self) -> None:
            self.event = asyncio.Event()

        async def passed(self) -> None:
            await self.event.wait()

        async def open(self) -> None:
            self.event.set()

    return ray.remote(num_cpus=0)(Gate).remote()


def test_map_gives_results_in_the_order_of_the_values(ray: ModuleType) -> None:
    pool = ActorPool(make_actors(ray, 2))
    assert list(pool.map(lambda a, v: a.double.remote(v), range(10))) == [2 * v for v in range(10)]


def test_map_unordered_gives_every_result_once(ray: ModuleType) -> None:
    pool = ActorPool(make_actors(ray, 3))
    found = list(pool.map_unordered(lambda a, v: a.double.remote(v), range(20)))
    assert sorted(found) == [2 * v for v in range(20)]


def test_map_drops_results_that_nobody_fetched(ray: ModuleType) -> None:
    pool = ActorPool(make_actors(ray, 1))
    for value in (100, 200, 300):
        pool.submit(lambda a, v: a.double.remote(v), value)
    assert list(pool.map(lambda a, v: a.double.remote(v), [1, 2])) == [2, 4]


def test_get_next_after_the_last_result_raises_stop_iteration(ray: ModuleType) -> None:
    pool = ActorPool(make_actors(ray, 1))
    pool.submit(lambda a, v: a.double.remote(v), 4)
    assert pool.get_next() == 8
    assert not pool.has_next()
    with pytest.raises(StopIteration):
        pool.get_next()
    with pytest.raises(StopIteration):
        pool.get_next_unordered()


def test_a_method_with_several_returns_gives_a_list(ray: ModuleType) -> None:
    pool = ActorPool(make_actors(ray, 1))
    pool.submit(lambda a, v: a.pair.options(num_returns=2).remote(v), 3)
    assert pool.get_next(timeout=120) == [3, -3]


def test_get_next_is_refused_once_its_result_was_taken_out_of_order(ray: ModuleType) -> None:
    gate = make_gate(ray)
    pool = ActorPool(make_actors(ray, 2))
    pool.submit(lambda a, v: a.wait_for.remote([gate.passed.remote()]), 0)
    pool.submit(lambda a, v: a.double.remote(v), 21)
    assert pool.get_next_unordered() == 42
    with pytest.raises(ValueError, match="get_next_unordered"):
        pool.get_next()
    ray.get(gate.open.remote())
    assert pool.get_next_unordered() == "waited"


def test_a_result_that_is_late_raises_timeout_error_and_can_still_be_fetched(ray: ModuleType) -> None:
    gate = make_gate(ray)
    pool = ActorPool(make_actors(ray, 1))
    pool.submit(lambda a, v: a.wait_for.remote([gate.passed.remote()]), 0)
    with pytest.raises(TimeoutError):
        pool.get_next(timeout=0.01)
    with pytest.raises(TimeoutError):
        pool.get_next_unordered(timeout=0.01)
    ray.get(gate.open.remote())
    assert pool.get_next() == "waited"


@pytest.mark.parametrize("fetch", ["get_next", "get_next_unordered"])
def test_a_late_result_that_is_ignored_never_comes(ray: ModuleType, fetch: str) -> None:
    gate = make_gate(ray)
    pool = ActorPool(make_actors(ray, 1))
    pool.submit(lambda a, v: a.wait_for.remote([gate.passed.remote()]), 0)
    pool.submit(lambda a, v: a.double.remote(v), 5)
    with pytest.raises(TimeoutError, match="ignored"):
        getattr(pool, fetch)(timeout=0.01, ignore_if_timedout=True)
    ray.get(gate.open.remote())
    assert getattr(pool, fetch)() == 10
    assert not pool.has_next()


def test_an_error_of_a_call_is_raised_and_its_actor_works_on(ray: ModuleType) -> None:
    pool = ActorPool(make_actors(ray, 1))
    pool.submit(lambda a, v: a.fail.remote(v), 1)
    pool.submit(lambda a, v: a.double.remote(v), 2)
    with pytest.raises(KeyError):
        pool.get_next()
    assert pool.get_next() == 4


def test_a_dead_actor_gets_no_more_work(ray: ModuleType) -> None:
    pool = ActorPool(make_actors(ray, 1))
    pool.submit(lambda a, v: a.die.remote(v), 0)
    pool.submit(lambda a, v: a.double.remote(v), 8)
    with pytest.raises(ray.exceptions.ActorDiedError) as caught:
        pool.get_next()
    assert "push()" in "".join(caught.value.__notes__)
    pool.push(make_actors(ray, 1)[0])
    assert pool.get_next() == 16


def test_idle_actors_can_be_taken_out_and_put_back(ray: ModuleType) -> None:
    actors = make_actors(ray, 1)
    pool = ActorPool(actors)
    assert pool.has_free()
    taken = pool.pop_idle()
    assert taken == actors[0]
    assert not pool.has_free()
    assert pool.pop_idle() is None
    pool.submit(lambda a, v: a.double.remote(v), 1)
    assert not pool.has_next()
    pool.push(taken)
    assert pool.get_next() == 2


def test_an_actor_cannot_be_pushed_twice(ray: ModuleType) -> None:
    actors = make_actors(ray, 1)
    pool = ActorPool(actors)
    with pytest.raises(ValueError, match="already belongs"):
        pool.push(actors[0])
    pool.submit(lambda a, v: a.double.remote(v), 1)
    with pytest.raises(ValueError, match="already belongs"):
        pool.push(actors[0])
    assert pool.get_next() == 2


def test_results_of_many_actors_come_once_each_however_they_are_asked_for(ray: ModuleType) -> None:
    pool = ActorPool(make_actors(ray, 6))
    for value in range(40):
        pool.submit(lambda actor, value: actor.double.remote(value), value)
    found = []
    while pool.has_next():
        found.append(pool.get_next_unordered(timeout=120))
        if len(found) == 10:
            # What was seen to be there is forgotten with what is dropped.
            found += pool.map_unordered(lambda actor, value: actor.double.remote(value), [100, 101])
    assert len(found) == len(set(found))
    assert {200, 202} <= set(found)
