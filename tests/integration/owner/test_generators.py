"""Generators: streaming and dynamic, backpressure, early ends, errors, retries, and waiting for them."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import sundog
from sundog import engines
from sundog.exceptions import GetTimeoutError, TaskCancelledError, WorkerCrashedError
from tests.integration.gates import await_file, await_true

GET_S = 120


def counted(folder: Path) -> int:
    """How many items a generator has made: it leaves a file for each."""
    return len(list(folder.glob("made-*")))


def make_source(ray: ModuleType, folder: Path, **options: Any) -> Any:
    """A generator that leaves a file for each item it makes, and one when it is closed early."""

    def source(count: int) -> Iterator[int]:
        try:
            for number in range(count):
                (folder / f"made-{number}").touch()
                yield number
        finally:
            (folder / "closed").touch()

    return ray.remote(**options)(source) if options else ray.remote(source)


# ---------------------------------------------------------------------- streaming
def test_items_can_be_read_while_the_generator_still_runs(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote
    def source() -> Iterator[int]:
        for number in range(3):
            yield number
            await_file(tmp_path / f"gate-{number}")

    generator = source.remote()
    assert isinstance(generator, sundog.ObjectRefGenerator)
    for number in range(3):
        assert ray.get(next(generator), timeout=GET_S) == number
        (tmp_path / f"gate-{number}").touch()
    with pytest.raises(StopIteration):
        next(generator)
    with pytest.raises(StopIteration):
        next(generator)


def test_items_keep_their_order_and_outlive_the_generator(ray: ModuleType) -> None:
    @ray.remote
    def source(count: int) -> Iterator[int]:
        yield from range(count)

    refs = list(source.remote(2000))
    assert ray.get(refs, timeout=GET_S) == list(range(2000))
    assert list(source.remote(0)) == []


def test_large_items_and_items_with_refs_arrive_whole(ray: ModuleType) -> None:
    @ray.remote
    def arrays(count: int) -> Iterator[Any]:
        for number in range(count):
            yield np.full(200_000, number)

    @ray.remote
    def boxes() -> Iterator[Any]:
        for number in range(3):
            yield [sundog.put(np.full(50_000, number))]

    for number, ref in enumerate(arrays.remote(5)):
        array = ray.get(ref, timeout=GET_S)
        assert array.shape == (200_000,) and (array == number).all()
    for number, ref in enumerate(boxes.remote()):
        assert (ray.get(ray.get(ref, timeout=GET_S)[0], timeout=GET_S) == number).all()


def test_items_can_be_arguments_of_other_tasks(ray: ModuleType) -> None:
    @ray.remote
    def source() -> Iterator[int]:
        yield from range(10)

    @ray.remote
    def square(number: int) -> int:
        return number * number

    refs = [square.remote(ref) for ref in source.remote()]
    assert ray.get(refs, timeout=GET_S) == [number * number for number in range(10)]


def test_a_generator_is_consumed_inside_a_task_that_made_it(ray: ModuleType) -> None:
    @ray.remote
    def source() -> Iterator[int]:
        yield from range(10)

    @ray.remote
    def total() -> int:
        return sum(sundog.get(ref) for ref in source.remote())

    assert ray.get(total.remote(), timeout=GET_S) == 45


def test_generators_are_iterated_with_async_for(ray: ModuleType) -> None:
    @ray.remote
    def source(start: int) -> Iterator[int]:
        yield from range(start, start + 5)

    async def read(start: int) -> list[int]:
        return [await ref async for ref in source.remote(start)]

    async def main() -> list[list[int]]:
        return await asyncio.gather(*[read(start) for start in (0, 10, 20)])

    assert asyncio.run(main()) == [list(range(start, start + 5)) for start in (0, 10, 20)]


@pytest.mark.parametrize("end", ["raise", "crash", "cancel"])
def test_the_end_of_a_generator_is_the_error_that_came_from_outside(
    ray: ModuleType, tmp_path: Path, end: str
) -> None:
    @ray.remote(max_retries=0)
    def source() -> Iterator[int]:
        yield 1
        if end == "raise":
            raise KeyError("midway")
        await_file(tmp_path / "gate")
        os._exit(1)

    generator = source.remote()
    assert ray.get(next(generator), timeout=GET_S) == 1
    if end == "cancel":
        ray.cancel(generator)
    else:
        (tmp_path / "gate").touch()
    wanted = {"raise": KeyError, "crash": WorkerCrashedError, "cancel": TaskCancelledError}[end]
    with pytest.raises(wanted):
        ray.get(next(generator), timeout=GET_S)
    if end == "raise":
        assert ray.get(generator.completed(), timeout=GET_S) is None
    else:
        with pytest.raises(wanted):
            ray.get(generator.completed(), timeout=GET_S)
    assert list(generator) == []


def test_a_generator_tells_how_far_it_is(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote
    def source() -> Iterator[int]:
        yield 1
        await_file(tmp_path / "gate")
        yield 2

    generator = source.remote()
    completed = generator.completed()
    assert ray.get(next(generator), timeout=GET_S) == 1
    assert not generator.is_finished() and not generator.next_ready()
    with pytest.raises(GetTimeoutError):
        ray.get(completed, timeout=0)
    (tmp_path / "gate").touch()
    assert ray.get(completed, timeout=GET_S) is None
    assert generator.next_ready() and not generator.is_finished()
    assert ray.get(next(generator), timeout=GET_S) == 2, "completed() takes no item away"
    assert generator.is_finished() and not generator.next_ready()
    assert ray.get(generator.completed(), timeout=GET_S) is None
    assert generator.task_id().hex() in repr(generator)


def test_a_generator_cannot_be_sent_to_another_process(ray: ModuleType) -> None:
    @ray.remote
    def source() -> Iterator[int]:
        yield 1

    generator = source.remote()
    with pytest.raises(TypeError, match="Send the refs"):
        pickle.dumps(generator)
    with pytest.raises(TypeError):
        ray.put(generator)
    assert ray.get(generator) is generator


@pytest.mark.parametrize("returns", ["streaming", "dynamic"])
def test_results_one_by_one_are_refused_for_what_does_not_yield(ray: ModuleType, returns: str) -> None:
    def listed(self: object = None) -> list[int]:
        return [1, 2]

    with pytest.raises(ValueError, match="can only be used with generator"):
        ray.remote(num_returns=returns)(listed)
    with pytest.raises(ValueError, match="can only be used with generator"):
        ray.remote(listed).options(num_returns=returns)
    with pytest.raises(ValueError, match="can only be used with generator"):
        ray.remote(type("Actor", (), {"listed": ray.method(num_returns=returns)(listed)}))
    actor = ray.remote(type("Actor", (), {"listed": lambda self: [1, 2]})).remote()
    with pytest.raises(ValueError, match="can only be used with generator"):
        actor.listed.options(num_returns=returns)


# ---------------------------------------------------------------------- errors
def test_an_error_midway_is_the_last_item(ray: ModuleType) -> None:
    @ray.remote
    def source() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("dried up")

    generator = source.remote()
    assert ray.get([next(generator), next(generator)], timeout=GET_S) == [1, 2]
    last = next(generator)
    with pytest.raises(ValueError, match="dried up"):
        ray.get(last, timeout=GET_S)
    with pytest.raises(StopIteration):
        next(generator)


def test_an_item_that_cannot_be_pickled_is_an_error_that_names_it(ray: ModuleType) -> None:
    @ray.remote
    def source() -> Iterator[Any]:

        yield 1
        yield {"lock": threading.Lock()}

    generator = source.remote()
    assert ray.get(next(generator), timeout=GET_S) == 1
    with pytest.raises(TypeError, match="lock"):
        ray.get(next(generator), timeout=GET_S)


def test_a_crash_midway_without_retries_is_the_last_item(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote(max_retries=0)
    def source() -> Iterator[int]:
        yield 1
        await_file(tmp_path / "gate")
        os.kill(os.getpid(), signal.SIGKILL)

    generator = source.remote()
    assert ray.get(next(generator), timeout=GET_S) == 1
    (tmp_path / "gate").touch()
    with pytest.raises(WorkerCrashedError):
        ray.get(next(generator), timeout=GET_S)
    assert list(generator) == []


def test_a_retry_replays_the_items_and_each_is_seen_once(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote(max_retries=2)
    def source() -> Iterator[tuple[int, Any]]:
        attempt = sundog.get_runtime_context().get_attempt_number()
        for number in range(8):
            if number == 4 and attempt == 0:
                await_file(tmp_path / "gate")
                os.kill(os.getpid(), signal.SIGKILL)
            yield number, np.full(30_000, number)

    generator = source.remote()
    seen = [ray.get(next(generator), timeout=GET_S)[0] for _ in range(3)]
    (tmp_path / "gate").touch()
    for ref in generator:
        number, array = ray.get(ref, timeout=GET_S)
        assert (array == number).all()
        seen.append(number)
    assert seen == list(range(8))


def test_a_retry_with_backpressure_does_not_wait_for_items_taken_long_ago(
    ray: ModuleType, tmp_path: Path
) -> None:
    @ray.remote(max_retries=1, _generator_backpressure_num_objects=2)
    def source() -> Iterator[int]:
        attempt = sundog.get_runtime_context().get_attempt_number()
        for number in range(10):
            if number == 5 and attempt == 0:
                await_file(tmp_path / "gate")
                os.kill(os.getpid(), signal.SIGKILL)
            yield number

    generator = source.remote()
    seen = [ray.get(next(generator), timeout=GET_S) for _ in range(5)]
    (tmp_path / "gate").touch()
    seen += [ray.get(ref, timeout=GET_S) for ref in generator]
    assert seen == list(range(10))


# ---------------------------------------------------------------------- backpressure and early ends
def test_backpressure_stops_the_producer_until_items_are_taken(ray: ModuleType, tmp_path: Path) -> None:
    source = make_source(ray, tmp_path, _generator_backpressure_num_objects=3)
    generator = source.remote(50)
    await_true(lambda: counted(tmp_path) == 3, "three items were made")
    other = make_source(ray, tmp_path / "nowhere")  # the stopped producer leaves other CPUs to others
    assert other is not None
    assert ray.wait([generator], timeout=GET_S) == ([generator], [])
    assert counted(tmp_path) == 3
    assert ray.get(next(generator), timeout=GET_S) == 0
    await_true(lambda: counted(tmp_path) == 4, "one more was made")
    assert [ray.get(ref, timeout=GET_S) for ref in generator] == list(range(1, 50))


def test_backpressure_works_on_actor_methods(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote
    class Source:
        @sundog.method(_generator_backpressure_num_objects=2)
        def numbers(self, count: int) -> Iterator[int]:
            for number in range(count):
                (tmp_path / f"made-{number}").touch()
                yield number

    generator = Source.remote().numbers.remote(20)
    await_true(lambda: counted(tmp_path) == 2, "two items were made")
    assert ray.get(next(generator), timeout=GET_S) == 0
    await_true(lambda: counted(tmp_path) == 3, "one more was made")
    assert [ray.get(ref, timeout=GET_S) for ref in generator] == list(range(1, 20))


@pytest.mark.parametrize("end", ["close", "cancel"])
def test_a_generator_nobody_wants_any_more_is_stopped(ray: ModuleType, tmp_path: Path, end: str) -> None:
    source = make_source(ray, tmp_path, _generator_backpressure_num_objects=2)
    generator = source.remote(1_000_000)
    kept = next(generator)
    if end == "close":
        generator.close()
        generator.close()
        assert list(generator) == [] and generator.is_finished()
    else:
        ray.cancel(generator)
    await_true((tmp_path / "closed").exists, "the generator was closed")
    assert ray.get(kept, timeout=GET_S) == 0
    assert counted(tmp_path) <= 4


@pytest.mark.parametrize("limit", [-1, 2])
def test_a_generator_that_was_dropped_goes_on_to_its_end_and_waits_for_nobody(
    ray: ModuleType, tmp_path: Path, limit: int
) -> None:
    source = make_source(ray, tmp_path, _generator_backpressure_num_objects=limit)
    generator = source.remote(50)
    kept = next(generator)
    del generator
    await_true((tmp_path / "closed").exists, "the end of the generator")
    assert counted(tmp_path) == 50 and ray.get(kept, timeout=GET_S) == 0


def test_a_closed_generator_leaves_nothing_in_the_owners_tables(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote
    def arrays() -> Iterator[Any]:
        for _ in range(20):
            yield np.zeros(50_000)

    generator = arrays.remote()
    ray.get(generator.completed(), timeout=GET_S)
    first = next(generator)
    generator.close()
    engine: Any = engines.current()
    del first
    with engine.owner.lock:
        engine.owner.objects.drain()
        assert not engine.owner.streams.streams
    await_true(lambda: not engine.owner.ready, "every item is freed")


def test_an_endless_generator_can_be_taken_from_and_closed(ray: ModuleType) -> None:
    @ray.remote
    def forever() -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1

    for _ in range(3):
        generator = forever.remote()
        assert [ray.get(next(generator), timeout=GET_S) for _ in range(5)] == [0, 1, 2, 3, 4]
        generator.close()

    @ray.remote(num_cpus=4)
    def everything() -> str:
        return "all CPUs are free again"

    assert ray.get(everything.remote(), timeout=GET_S)


# ---------------------------------------------------------------------- dynamic
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_dynamic_task_returns_a_generator_of_refs(ray: ModuleType) -> None:
    @ray.remote(num_returns="dynamic")
    def split(count: int) -> Iterator[Any]:
        for number in range(count):
            yield np.full(40_000, number)

    ref = split.remote(4)
    assert isinstance(ref, sundog.ObjectRef)
    generator = ray.get(ref, timeout=GET_S)
    assert len(generator) == 4
    items = list(generator)
    assert [int(ray.get(item, timeout=GET_S)[0]) for item in items] == [0, 1, 2, 3]
    assert list(generator) == []
    assert [int(ray.get(item)[0]) for item in ray.get(ref)] == [0, 1, 2, 3]

    @ray.remote
    def total(parts: Any) -> int:
        return sum(int(sundog.get(part)[0]) for part in parts)

    assert ray.get(total.remote(ref), timeout=GET_S) == 6


@pytest.mark.filterwarnings("ignore::DeprecationWarning")

# ---------------------------------------------------------------------- actors
def test_actor_generators_take_turns_with_other_calls(ray: ModuleType) -> None:
    @ray.remote
    class Source:
        def __init__(self) -> None:
            self.made = 0

        def numbers(self, count: int) -> Iterator[int]:
            for _ in range(count):
                self.made += 1
                yield self.made

        def total(self) -> int:
            return self.made

    source = Source.remote()
    first, second = source.numbers.remote(3), source.numbers.remote(2)
    total = source.total.remote()
    assert [ray.get(ref) for ref in second] == [4, 5]
    assert [ray.get(ref) for ref in first] == [1, 2, 3]
    assert ray.get(total, timeout=GET_S) == 5


def test_an_actor_generator_outlives_the_handle_it_came_from(ray: ModuleType) -> None:
    @ray.remote
    class Source:
        def numbers(self) -> Iterator[int]:
            yield from range(100)

    assert [ray.get(ref, timeout=GET_S) for ref in Source.remote().numbers.remote()] == list(range(100))


# ---------------------------------------------------------------------- wait
def test_wait_takes_generators_and_refs_together(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote
    def source(name: str) -> Iterator[str]:
        await_file(tmp_path / name)
        yield name
        await_file(tmp_path / f"{name}-end")

    @ray.remote
    def task(name: str) -> str:
        await_file(tmp_path / name)
        return name

    one, two, three = source.remote("one"), source.remote("two"), task.remote("three")
    everything = [one, two, three]
    assert ray.wait(everything, timeout=0) == ([], everything)
    assert ray.wait(everything, timeout=0.05, num_returns=3) == ([], everything)
    (tmp_path / "two").touch()
    assert ray.wait(everything, timeout=GET_S) == ([two], [one, three])
    (tmp_path / "three").touch()
    assert ray.wait(everything, num_returns=2, timeout=GET_S) == ([two, three], [one])
    assert ray.get(next(two)) == "two"
    assert ray.wait([two], timeout=0.05) == ([], [two])
    (tmp_path / "two-end").touch()
    assert ray.wait([two], timeout=GET_S) == ([two], []), "an ended generator is ready: next() does not block"
    with pytest.raises(StopIteration):
        next(two)
    (tmp_path / "one").touch()
    assert ray.wait(everything, num_returns=3, timeout=GET_S) == (everything, [])
    (tmp_path / "one-end").touch()


def test_wait_on_generators_wakes_another_thread(ray: ModuleType, tmp_path: Path) -> None:

    @ray.remote
    def source(name: str) -> Iterator[str]:
        await_file(tmp_path / name)
        yield name

    found: dict[str, Any] = {}

    def wait(name: str, generator: Any) -> None:
        found[name] = ray.wait([generator], timeout=GET_S)[0] == [generator]

    generators = {name: source.remote(name) for name in ("a", "b", "c")}
    threads = [threading.Thread(target=wait, args=each) for each in generators.items()]
    for thread in threads:
        thread.start()
    for name in generators:
        (tmp_path / name).touch()
    for thread in threads:
        thread.join(GET_S)
    assert found == {"a": True, "b": True, "c": True}


def test_a_loop_over_wait_drains_many_generators(ray: ModuleType) -> None:
    @ray.remote
    def source(start: int) -> Iterator[int]:
        yield from range(start, start + 10)

    pending = [source.remote(start) for start in range(0, 50, 10)]
    seen = []
    while pending:
        ready, rest = ray.wait(pending, timeout=GET_S)
        assert ready
        try:
            seen.append(ray.get(next(ready[0]), timeout=GET_S))
            pending = [*rest, ready[0]]
        except StopIteration:
            pending = rest
    assert sorted(seen) == list(range(50))


def test_wait_refuses_the_same_generator_twice(ray: ModuleType) -> None:
    @ray.remote
    def source() -> Iterator[int]:
        yield 1

    generator = source.remote()
    with pytest.raises(ValueError, match="duplicates"):
        ray.wait([generator, generator])
    with pytest.raises(TypeError, match="list"):
        ray.wait(generator)


def test_generators_end_with_their_session(ray_session: Callable[..., ModuleType], tmp_path: Path) -> None:
    ray = ray_session(num_cpus=1)
    source = make_source(ray, tmp_path, _generator_backpressure_num_objects=1)
    generator = source.remote(10)
    assert ray.get(next(generator), timeout=GET_S) == 0
    ray.shutdown()
    with pytest.raises(sundog.exceptions.RaySystemError, match="shut down"):
        next(generator)


def test_nothing_is_sent_into_a_streaming_task(ray: ModuleType) -> None:
    @ray.remote
    def numbers() -> Iterator[int]:
        yield from range(3)

    generator = numbers.remote()
    for attempt in (generator.send, generator.throw):
        with pytest.raises(NotImplementedError, match=r"Queue"):
            attempt(ValueError("x"))

    async def ask() -> None:
        for attempt in (generator.asend, generator.athrow):
            with pytest.raises(NotImplementedError, match=r"Queue"):
                await attempt(ValueError("x"))
        assert await (await anext(generator)) == 0
        await generator.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(generator)

    asyncio.run(ask())
    assert list(generator) == []
