"""Quick calls that share one asyncio task."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any

import pytest

from sundog.worker.async_run import AsyncRun

Calls = deque[tuple[bytes, Coroutine[Any, Any, None]]]
_mark: ContextVar[str] = ContextVar("mark", default="")


class World:
    """Calls that are ready, and what became of the run."""

    def __init__(self) -> None:
        self.calls: Calls = deque()
        self.seen: list[str] = []
        self.waited: list[bytes] = []
        self.rests = 0

    def begin(self) -> tuple[bytes, Coroutine[Any, Any, None]] | None:
        return self.calls.popleft() if self.calls else None

    def waits(self, task_id: bytes, _task: asyncio.Task[None]) -> None:
        self.waited.append(task_id)

    def rest(self) -> None:
        self.rests += 1

    def start(self) -> tuple[AsyncRun, asyncio.Task[None]]:
        run = AsyncRun(self.begin, self.waits, self.rest)
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(run)
        run.task = task
        return run, task

    async def quick(self, name: str) -> None:
        self.seen.append(name + _mark.get())
        _mark.set("!")


def test_quick_calls_run_one_after_another_each_in_a_context_of_its_own() -> None:
    async def main() -> World:
        world = World()
        world.calls.extend((name.encode(), world.quick(name)) for name in "abc")
        _, task = world.start()
        await task
        return world

    world = asyncio.run(main())
    assert world.seen == ["a", "b", "c"]  # no mark: what one call sets, the next does not see
    assert world.waited == [] and world.rests == 1


def test_the_first_call_that_waits_keeps_the_task_and_the_others_get_another() -> None:
    async def main() -> World:
        world = World()
        gate = asyncio.get_running_loop().create_future()

        async def slow() -> None:
            await gate
            world.seen.append("slow")

        world.calls.extend([(b"a", world.quick("a")), (b"s", slow()), (b"c", world.quick("c"))])
        run, task = world.start()
        await asyncio.sleep(0)
        assert (world.waited, world.rests, len(world.calls)) == ([b"s"], 1, 1)
        assert run.cr_frame.f_code is slow.__code__  # type: ignore[attr-defined]  # tools see the call
        _, second = world.start()
        await second
        gate.set_result(None)
        await task
        return world

    assert asyncio.run(main()).seen == ["a", "c", "slow"]


def test_a_cancel_reaches_the_call_that_waits() -> None:
    async def main() -> list[str]:
        seen: list[str] = []

        async def slow() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        world = World()
        world.calls.append((b"s", slow()))
        _, task = world.start()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return seen

    assert asyncio.run(main()) == ["cancelled"]


def test_a_run_that_is_cancelled_before_its_first_step_begins_nothing() -> None:
    async def main() -> World:
        world = World()
        kept = world.quick("a")
        world.calls.append((b"a", kept))
        _, task = world.start()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        kept.close()
        return world

    world = asyncio.run(main())
    assert world.seen == [] and world.rests == 1 and len(world.calls) == 1


def test_a_run_is_no_awaitable_of_its_own() -> None:
    run = AsyncRun(lambda: None, lambda *_: None, lambda: None)
    with pytest.raises(TypeError, match=r"a run of calls is for an asyncio task"):
        run.__await__()
    run.close()
