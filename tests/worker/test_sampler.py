"""The line of user code that is shown for a stack: the user's own before a library's, never the runtime's."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from sundog.worker.sampler import await_stack, stack_of, thread_stack, user_line

HERE = __file__


def test_the_innermost_line_of_the_user_is_shown() -> None:
    line = user_line(stack_of(sys._getframe()))
    assert line.startswith(f"{HERE}:")
    assert line.endswith(" test_the_innermost_line_of_the_user_is_shown")


def test_a_library_that_the_user_called_is_passed_over() -> None:
    lines: list[str] = []

    def hook(pairs: Any) -> Any:
        lines.append(user_line(_below(sys._getframe(1))))
        return pairs

    json.loads("{}", object_pairs_hook=hook)
    [line] = lines
    assert line.startswith(f"{HERE}:") and "test_a_library_that" in line


def _below(frame: FrameType) -> Iterator[FrameType]:
    assert "json" in frame.f_code.co_filename
    return stack_of(frame)


def test_of_a_library_alone_its_own_line_is_shown() -> None:
    waiting = threading.Event()
    thread = threading.Thread(target=waiting.wait)
    thread.start()
    try:
        assert thread.ident is not None
        assert "threading.py:" in user_line(thread_stack(thread.ident))
    finally:
        waiting.set()
        thread.join()


def test_a_thread_that_is_gone_has_no_line() -> None:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    assert user_line(thread_stack(0)) == ""


def test_a_suspended_coroutine_shows_where_it_waits() -> None:
    async def inner() -> None:
        await asyncio.sleep(60)

    async def outer() -> None:
        await inner()

    async def look() -> tuple[str, list[str]]:
        coroutine = outer()
        task = asyncio.get_running_loop().create_task(coroutine)
        await asyncio.sleep(0)
        names = [frame.f_code.co_name for frame in await_stack(coroutine)]
        line = user_line(await_stack(coroutine))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return line, names

    line, names = asyncio.run(look())
    assert names == ["sleep", "inner", "outer"]
    assert line.startswith(f"{HERE}:") and line.endswith(".inner")


def test_async_generators_are_followed_too() -> None:
    async def numbers(step: Callable[[], Any]) -> Any:
        yield await step()

    async def look() -> str:
        async def use() -> None:
            async for _ in numbers(lambda: asyncio.sleep(60)):
                pass

        coroutine = use()
        task = asyncio.get_running_loop().create_task(coroutine)
        await asyncio.sleep(0)
        line = user_line(await_stack(coroutine))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return line

    assert asyncio.run(look()).startswith(f"{HERE}:")
