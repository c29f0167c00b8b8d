"""Places of replicas, handed out first come first served."""

from __future__ import annotations

import asyncio

from sundog.serve.experimental.capacity_queue import _Queue


def test_places_go_to_the_replica_that_has_fewest_in_use() -> None:
    async def play() -> None:
        queue = _Queue(1.0)
        await queue.set_replicas({"a": 2, "b": 2})
        taken = [await queue.acquire() for _ in range(4)]
        assert sorted(str(each) for each in taken) == ["a", "a", "b", "b"]
        assert set(taken[:2]) == {"a", "b"} and await queue.get_queue_length() == 0
        assert await queue.acquire(timeout_s=0.0) is None
        assert (await queue.get_stats()).total_timeouts == 1 and await queue.get_num_waiters() == 0

    asyncio.run(play())


def test_a_place_that_is_given_back_goes_to_the_caller_that_has_waited_longest() -> None:
    async def play() -> None:
        queue = _Queue(60.0)
        await queue.register_replica("a", 1)
        assert await queue.acquire() == "a"
        first = asyncio.ensure_future(queue.acquire())
        second = asyncio.ensure_future(queue.acquire())
        await asyncio.sleep(0)
        await queue.release("a")
        assert await first == "a" and not second.done()
        await queue.register_replica("b", 1)
        assert await second == "b"
        stats = await queue.get_stats()
        assert (stats.total_acquires, stats.total_releases, stats.max_waiters_seen) == (3, 1, 2)

    asyncio.run(play())


def test_a_place_that_was_never_given_back_is_free_after_its_time() -> None:
    async def play() -> None:
        queue = _Queue(60.0, token_ttl_s=0.0)
        await queue.register_replica("a", 1)
        assert await queue.acquire() == "a"
        assert await queue.acquire() == "a"

    asyncio.run(play())


def test_replicas_that_go_take_their_places_with_them() -> None:
    async def play() -> None:
        queue = _Queue(60.0)
        await queue.set_replicas({"a": 1, "b": 1})
        await queue.set_replicas({"b": 3})
        assert await queue.get_replica_in_flight() == {"b": (0, 3)}
        await queue.unregister_replica("b")
        await queue.release("b")
        assert await queue.get_registered_replicas() == []

    asyncio.run(play())
