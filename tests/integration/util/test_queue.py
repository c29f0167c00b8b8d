"""Queue across processes: order, limits, waiting, batches, coroutines, and its end."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from sundog.store.shared_ring import THEIR_GETTERS, THEIR_PUTTERS
from sundog.util.queue import Empty, Full, Queue, _QueueActor
from tests.integration import drivers


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
        for _ in range(1000):  # a kill on a Ray cluster takes a moment
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


# ---------------------------------------------------------------------- the ring that processes share
def opened(maxsize: int = 0) -> Queue[Any]:
    """A queue whose ring this process has open."""
    queue: Queue[Any] = Queue(maxsize)
    for _ in range(4):
        queue.put(None)
        queue.get()
    assert queue._ring_if_open() is not None
    return queue


def calls_of(queue: Queue[Any]) -> tuple[int, int]:
    """How many items were put and taken through the ring."""
    ring = queue._ring_if_open()
    assert ring is not None
    return ring.words[1] >> 32, ring.words[2] >> 32


def test_small_items_of_a_queue_in_use_need_no_call(ray: ModuleType) -> None:
    queue = opened()
    before = calls_of(queue)
    for item in range(100):
        queue.put({"item": item})
    assert [queue.get()["item"] for _ in range(100)] == list(range(100))
    assert calls_of(queue) == (before[0] + 100, before[1] + 100)


def test_a_queue_in_use_still_travels_and_its_actor_still_answers(ray: ModuleType) -> None:
    queue = opened()

    @ray.remote
    def add(queue: Queue[Any], count: int) -> None:
        for item in range(count):
            queue.put(item)

    ray.get(add.remote(queue, 20))
    assert ray.get(queue.actor.qsize.remote()) == 20
    assert ray.get(queue.actor.get.remote()) == 0
    ray.get(queue.actor.put.remote("last"))
    assert [queue.get() for _ in range(20)] == [*range(1, 20), "last"]


def test_large_items_and_refs_keep_their_order_and_refs_are_freed(ray: ModuleType) -> None:
    queue = opened()
    array = bytes(300_000)
    ref = ray.put("of the ref")
    for item in ("a", array, "b", [ref], "c"):
        queue.put(item)
    del ref
    assert queue.size() == 5
    assert [queue.get(), queue.get() == array, queue.get()] == ["a", True, "b"]
    assert ray.get(queue.get()[0]) == "of the ref"
    assert queue.get() == "c"
    assert queue.empty()


def test_more_than_the_ring_holds_comes_out_in_order(ray: ModuleType) -> None:
    queue = opened(maxsize=100)  # a megabyte of memory, for three of items
    for item in range(100):
        queue.put((item, "x" * 30_000))
    assert queue.full()
    with pytest.raises(Full):
        queue.put_nowait("one more")
    assert [queue.get()[0] for _ in range(100)] == list(range(100))


def test_two_and_two_processes_hand_over_each_item_once(ray: ModuleType) -> None:
    queue = opened(maxsize=10)

    @ray.remote(num_cpus=0.25)
    def produce(queue: Queue[Any], name: int) -> None:
        for number in range(500):
            queue.put((name, number))

    @ray.remote(num_cpus=0.25)
    def consume(queue: Queue[Any]) -> list[Any]:
        return [queue.get() for _ in range(500)]

    made = [produce.remote(queue, name) for name in range(2)]
    found = ray.get([consume.remote(queue) for _ in range(2)], timeout=300)
    ray.get(made)
    assert sorted(found[0] + found[1]) == [(name, number) for name in range(2) for number in range(500)]
    for each in found:  # of one producer every consumer sees a later item later
        for name in range(2):
            assert [item for item in each if item[0] == name] == sorted(
                item for item in each if item[0] == name
            )


def test_consumers_that_are_killed_take_at_most_what_they_held(ray: ModuleType) -> None:
    queue, taken = opened(), opened()

    @ray.remote(max_retries=0, num_cpus=0.25)
    def consume(queue: Queue[Any], taken: Queue[Any]) -> None:
        taken.put(("pid", os.getpid()))
        while True:
            taken.put(queue.get())

    ends = [consume.remote(queue, taken) for _ in range(3)]
    seen: list[int] = []
    pids: list[int] = []
    victims: list[int] = []
    put = 0
    while len(victims) < 3:
        for _ in range(50):
            queue.put(put)
            put += 1
        for _ in range(25):
            item = taken.get(timeout=120)
            if isinstance(item, tuple):
                pids.append(item[1])
            else:
                seen.append(item)
        if len(pids) == 3:
            victims.append(pids[len(victims)])
            os.kill(victims[-1], signal.SIGKILL)
    for end in ends:
        with pytest.raises(ray.exceptions.WorkerCrashedError):
            ray.get(end, timeout=120)
    seen += [item for item in _drained(taken) if not isinstance(item, tuple)]
    seen += _drained(queue)
    assert len(seen) == len(set(seen))
    assert len(seen) >= put - 3


def _drained(queue: Queue[Any]) -> list[Any]:
    return queue.get_nowait_batch(queue.size())


def test_a_queue_whose_actor_was_killed_says_so(ray: ModuleType) -> None:
    queue = opened()
    queue.put("lost")
    ray.kill(queue.actor)
    with pytest.raises(ray.exceptions.RayActorError):
        while True:
            queue.put("x")
    with pytest.raises(ray.exceptions.RayActorError):
        queue.get()


def test_a_get_that_waits_ends_with_the_actor(ray: ModuleType) -> None:
    queue = opened()

    @ray.remote
    def wait(queue: Queue[Any], begun: Queue[Any]) -> Any:
        begun.put(1)
        return queue.get()

    begun = opened()
    waiting = wait.remote(queue, begun)
    begun.get()
    ray.kill(queue.actor)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(waiting, timeout=120)


def test_a_get_that_waits_can_be_cancelled_and_takes_nothing(ray: ModuleType) -> None:
    queue, begun = opened(), opened()

    @ray.remote
    def wait(queue: Queue[Any], begun: Queue[Any]) -> Any:
        for _ in range(3):
            begun.put(queue.qsize())
        return queue.get()

    waiting = wait.remote(queue, begun)
    assert [begun.get() for _ in range(3)] == [0, 0, 0]
    ray.cancel(waiting)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(waiting, timeout=120)
    queue.put("kept")
    assert queue.get(timeout=120) == "kept"


def test_coroutines_and_threads_share_a_queue_in_use(ray: ModuleType) -> None:
    queue = opened(maxsize=3)
    found: list[Any] = []

    def consume() -> None:
        found.extend(queue.get() for _ in range(100))

    async def produce(name: int) -> None:
        for number in range(50):
            await queue.put_async((name, number))

    async def both() -> None:
        await asyncio.gather(produce(0), produce(1))
        assert queue.qsize() <= 3

    thread = threading.Thread(target=consume)
    thread.start()
    asyncio.run(both())
    thread.join()
    assert sorted(found) == [(name, number) for name in range(2) for number in range(50)]


def test_coroutines_alone_open_the_ring_too(ray: ModuleType) -> None:
    queue: Queue[Any] = Queue()

    async def use() -> list[Any]:
        for item in range(6):
            await queue.put_async(item)
        return [await queue.get_async() for _ in range(6)]

    assert asyncio.run(use()) == list(range(6))
    assert queue._ring_if_open() is not None


# ---------------------------------------------------------------------- a caller that leaves its put or get
def once_it_waits(queue: Queue[Any], word: int, act: Callable[[], object]) -> threading.Thread:
    """Do something as soon as a call waits at the actor of a queue."""
    ring = queue._ring_if_open()
    assert ring is not None

    def watch() -> None:
        drivers.await_true(lambda: ring.words[word] > 0, "a call that waits at the actor")
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_ends_a_get_that_waits_and_the_next_item_is_not_lost(ray: ModuleType) -> None:
    queue = opened()
    for _ in range(3):
        thread = once_it_waits(queue, THEIR_GETTERS, interrupt)
        with pytest.raises(KeyboardInterrupt):
            queue.get()
        thread.join()
        queue.put("kept")
        assert queue.get(timeout=120) == "kept"


def test_ctrl_c_ends_a_put_that_waits_and_its_item_does_not_come_later(ray: ModuleType) -> None:
    queue = opened(maxsize=1)
    queue.put("first")
    thread = once_it_waits(queue, THEIR_PUTTERS, interrupt)
    with pytest.raises(KeyboardInterrupt):
        queue.put("given up")
    thread.join()
    assert queue.get() == "first"
    queue.put("second")
    assert queue.get(timeout=120) == "second" and queue.empty()


def test_a_coroutine_that_gives_up_its_get_leaves_the_next_item_to_others(ray: ModuleType) -> None:
    queue = opened()

    async def give_up() -> None:
        waiting = asyncio.ensure_future(queue.get_async())
        loop = asyncio.get_running_loop()
        thread = once_it_waits(queue, THEIR_GETTERS, lambda: loop.call_soon_threadsafe(waiting.cancel))
        with pytest.raises(asyncio.CancelledError):
            await waiting
        thread.join()

    asyncio.run(give_up())
    queue.put("kept")
    assert queue.get(timeout=120) == "kept"


def test_a_handler_that_raises_at_any_moment_of_a_get_loses_no_later_item(ray: ModuleType) -> None:
    class Late(Exception):
        pass

    def late(*_: object) -> None:
        raise Late

    queue = opened()
    before = signal.signal(signal.SIGALRM, late)
    try:
        for number in range(
            150
        ):  # from before the ring is looked at to long after the call has reached the actor
            with pytest.raises(Late):
                signal.setitimer(signal.ITIMER_REAL, 2e-4 + 3e-4 * (number % 50))
                queue.get()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    for number in range(50):
        queue.put(number)
    assert [queue.get(timeout=120) for _ in range(50)] == list(range(50))
