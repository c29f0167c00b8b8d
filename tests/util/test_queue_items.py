"""The items of a queue in its actor's loop: order, waiting calls, and the ring beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sundog.serialize.pack import unpack
from sundog.store.shared_ring import ASK, EMPTY, FULL, SharedRing
from sundog.util.queue_items import Items, record_of

LARGE = b"x" * 100_000


def in_loop(program: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(120):
            await program()

    asyncio.run(run())


def shared(maxsize: int = 0) -> tuple[Items[Any], SharedRing]:
    items: Items[Any] = Items(maxsize)
    items.share()
    assert items.ring is not None
    return items, items.ring


def test_without_a_ring_it_is_a_queue_like_any_other() -> None:
    async def program() -> None:
        items: Items[int] = Items(2)
        items.put_nowait(1)
        await items.put(2)
        assert items.full() and items.qsize() == 2
        with pytest.raises(asyncio.QueueFull):
            items.put_nowait(3)
        waiting = asyncio.ensure_future(items.put(3))
        await asyncio.sleep(0)
        assert [await items.get(), await items.get()] == [1, 2]
        await waiting
        assert items.get_nowait() == 3
        with pytest.raises(asyncio.QueueEmpty):
            items.get_nowait()
        assert items.empty()

    in_loop(program)


def test_large_items_keep_their_place_among_small_ones() -> None:
    async def program() -> None:
        items, ring = shared()
        for item in (1, LARGE, 2, LARGE, 3):
            items.put_nowait(item)
        assert unpack(ring.get(), None) == 1  # type: ignore[arg-type]
        assert ring.get() == ASK
        assert items.get_nowait() == LARGE
        assert unpack(ring.get(), None) == 2  # type: ignore[arg-type]
        assert items.get_all_nowait(2) == [LARGE, 3]
        assert ring.get() == EMPTY

    in_loop(program)


def test_what_was_there_before_the_ring_is_in_it() -> None:
    async def program() -> None:
        items: Items[int] = Items(0)
        items.put_nowait(1)
        items.put_nowait(2)
        items.share()
        assert items.ring is not None
        assert unpack(items.ring.get(), None) == 1  # type: ignore[arg-type]
        assert items.get_nowait() == 2
        assert items.share() == items.ring.place()

    in_loop(program)


def test_a_get_that_waits_is_woken_by_a_put_of_another_process() -> None:
    async def program() -> None:
        items, ring = shared()
        waiting = asyncio.ensure_future(items.get())
        await asyncio.sleep(0)
        assert ring.get() == ASK  # it comes first
        ring.put(record_of("here") or b"")
        assert await waiting == "here"
        assert ring.get() == EMPTY

    in_loop(program)


def test_a_put_that_waits_is_woken_by_a_get_of_another_process() -> None:
    async def program() -> None:
        items, ring = shared(8)
        items.put_all_nowait(list(range(8)))
        waiting = asyncio.ensure_future(items.put(8))
        await asyncio.sleep(0)
        assert ring.put(record_of(9) or b"") == ASK
        assert unpack(ring.get(), None) == 0  # type: ignore[arg-type]
        await waiting
        assert items.get_all_nowait(8) == list(range(1, 9))

    in_loop(program)


def test_a_call_that_is_cancelled_passes_its_turn_on() -> None:
    async def program() -> None:
        items, ring = shared()
        first, second = (asyncio.ensure_future(items.get()) for _ in range(2))
        await asyncio.sleep(0)
        items.put_nowait("item")
        first.cancel()
        assert await second == "item"
        assert first.cancelled()
        assert ring.get() == EMPTY

    in_loop(program)


def test_a_batch_fits_whole_or_not_at_all() -> None:
    async def program() -> None:
        for items in (Items[Any](3), shared(3)[0]):
            items.put_all_nowait([1, LARGE])
            with pytest.raises(asyncio.QueueFull):
                items.put_all_nowait([2, 3])
            with pytest.raises(asyncio.QueueEmpty):
                items.get_all_nowait(3)
            assert items.get_all_nowait(2) == [1, LARGE]
            if items.ring is not None:
                items.put_all_nowait([1, 2, 3])
                assert items.ring.put(record_of(4) or b"") == FULL

    in_loop(program)


def test_what_holds_a_buffer_is_no_record() -> None:
    assert record_of(LARGE) is None
    assert record_of({"a": [1, 2]}) is not None
