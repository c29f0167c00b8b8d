"""The line of user code that is shown for a stack: the user's own before a library's, never the runtime's."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from sundog.worker.sampler import Threads, await_stack, stack_of, thread_stack, user_line

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


def _told(folder: Path, **spent_ms: int) -> None:
    for name, spent in spent_ms.items():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "schedstat").write_text(f"{spent * 1_000_000} 0 1")


def test_threads_of_libraries_count_while_they_compute(tmp_path: Path) -> None:
    threads = Threads(str(tmp_path))
    _told(tmp_path, t1=100, t2=90, t3=1)
    assert threads.busy(0.2) == 2  # t3 was started and sleeps
    _told(tmp_path, t1=200, t2=91)
    assert threads.busy(0.3) == 1  # t2 is left over
    assert threads.busy(0.4) == 0


def test_threads_of_python_are_none_of_them_also_after_a_fork() -> None:
    reading, writing = os.pipe()
    if os.fork() == 0:  # as a worker is made
        sum(range(300_000))
        os.write(writing, bytes([Threads().busy(time.process_time())]))
        os._exit(0)
    os.wait()
    found = os.read(reading, 1)
    os.close(reading)
    os.close(writing)
    assert found == b"\0"


def test_threads_that_end_while_they_are_counted_are_none(tmp_path: Path) -> None:
    (tmp_path / "t1").mkdir()
    assert Threads(str(tmp_path)).busy(1.0) == 0
    assert Threads(str(tmp_path / "gone")).busy(1.0) == 0
