"""Queue across processes: order, limits, waiting, batches, coroutines, and its end."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any

import pytest

from sundog.util.queue import Empty, Full, Queue, _QueueActor


def test_items_come_out_in_the_order_they_went_in(ray: ModuleType) -> None:
    queue = Queue()
    for item in range(10):
        queue.put(item)
    assert len(queue) == queue.size() == queue.qsize() == 10
    assert [queue.get() for _ in range(10)] == list(range(10))
    assert queue.empty()


def test_a_full_queue_refuses_more_until_one_is_taken(ray: ModuleType) -> None:
    queue = Queue(maxsize=2)
    queue.put("a")
    assert not queue.full()
    queue.put("b")
    assert queue.full()
    with pytest.raises(Full):
        queue.put_nowait("c")
    with pytest.raises(Full):
        queue.put("c", timeout=0.01)
    assert queue.get() == "a"
    queue.put_nowait("c")
    assert [queue.get_nowait(), queue.get_nowait()] == ["b", "c"]


def test_an_empty_queue_raises_empty(ray: ModuleType) -> None:
    queue = Queue()
    with pytest.raises(Empty) as caught:
        queue.get_nowait()
    assert type(caught.value) is Empty
    with pytest.raises(Empty):
        queue.get(timeout=0.01)
    with pytest.raises(Empty):
        queue.get(block=False)


def test_a_timeout_of_zero_still_takes_what_is_there(ray: ModuleType) -> None:
    queue = Queue()
    queue.put("here", timeout=0)
    assert queue.get(timeout=0) == "here"
    with pytest.raises(Empty):
        queue.get(timeout=0)


def test_a_negative_timeout_is_refused(ray: ModuleType) -> None:
    queue = Queue()
    with pytest.raises(ValueError, match="non-negative"):
        queue.put(1, timeout=-1)
    with pytest.raises(ValueError, match="non-negative"):
        queue.get(timeout=-1)


def test_a_get_waits_for_a_put_from_another_process(ray: ModuleType) -> None:
    queue = Queue()

    @ray.remote(num_cpus=0)
    def take(source: Any) -> Any:
        return source.get()

    waiting = take.remote(queue)
    queue.put("late")
    assert ray.get(waiting) == "late"


def test_a_put_waits_until_another_process_makes_room(ray: ModuleType) -> None:
    queue = Queue(maxsize=1)
    queue.put("first")

    @ray.remote(num_cpus=0)
    def add(target: Any) -> str:
        target.put("second")
        return "done"

    adding = add.remote(queue)
    assert queue.get() == "first"
    assert ray.get(adding) == "done"
    assert queue.get() == "second"


def test_a_batch_goes_in_whole_or_not_at_all(ray: ModuleType) -> None:
    queue = Queue(maxsize=3)
    queue.put_nowait_batch(iter([1, 2]))
    with pytest.raises(Full, match="2 of 3"):
        queue.put_nowait_batch([3, 4])
    assert queue.size() == 2
    with pytest.raises(TypeError):
        queue.put_nowait_batch(7)  # type: ignore[arg-type]


def test_a_batch_comes_out_whole_or_not_at_all(ray: ModuleType) -> None:
    queue = Queue()
    queue.put_nowait_batch([1, 2, 3])
    with pytest.raises(Empty):
        queue.get_nowait_batch(4)
    assert queue.get_nowait_batch(2) == [1, 2]
    assert queue.get_nowait_batch(0) == []
    with pytest.raises(TypeError):
        queue.get_nowait_batch("1")  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        queue.get_nowait_batch(-1)
    assert queue.get() == 3


def test_coroutines_can_wait_for_each_other(ray: ModuleType) -> None:
    queue = Queue(maxsize=1)

    async def exchange() -> list[int]:
        async def fill() -> None:
            for item in range(4):
                await queue.put_async(item)

        async def drain() -> list[int]:
            return [await queue.get_async() for _ in range(4)]

        _, taken = await asyncio.gather(fill(), drain())
        return taken

    assert asyncio.run(exchange()) == [0, 1, 2, 3]


def test_coroutines_get_the_same_errors(ray: ModuleType) -> None:
    queue = Queue(maxsize=1)

    async def try_all() -> None:
        with pytest.raises(Empty):
            await queue.get_async(block=False)
        with pytest.raises(Empty):
            await queue.get_async(timeout=0.01)
        await queue.put_async(1)
        with pytest.raises(Full):
            await queue.put_async(2, block=False)
        with pytest.raises(Full):
            await queue.put_async(2, timeout=0.01)
        with pytest.raises(ValueError):
            await queue.put_async(2, timeout=-1)

    asyncio.run(try_all())


def test_actor_options_reach_the_actor(ray: ModuleType) -> None:
    queue = Queue(actor_options={"name": "queue_of_the_test", "num_cpus": 0})
    queue.put("x")
    assert ray.get(ray.get_actor("queue_of_the_test").qsize.remote()) == 1


@pytest.mark.parametrize("force", [False, True])
def test_shutdown_ends_the_actor(ray: ModuleType, force: bool) -> None:
    queue = Queue()
    queue.put(1)
    actor = queue.actor
    queue.shutdown(force=force)
    assert queue.actor is None
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(actor.qsize.remote())
    queue.shutdown()


def test_a_subclass_of_the_actor_finds_its_items_in_queue(ray: ModuleType) -> None:
    class Pairs(_QueueActor[Any]):
        async def pair(self) -> list[Any]:
            return [await self.queue.get(), await self.queue.get(), self.maxsize]

    class PairQueue(Queue[Any]):
        def __init__(self) -> None:
            self.maxsize = 5
            self.actor = ray.remote(Pairs).remote(self.maxsize)

    queue = PairQueue()
    waiting = queue.actor.pair.remote()
    queue.put_nowait_batch([1, 2])
    assert ray.get(waiting, timeout=120) == [1, 2, 5]
