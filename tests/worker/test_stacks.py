"""Stacks as users see them."""

from __future__ import annotations

import asyncio
import faulthandler
import threading
from pathlib import Path

from sundog.owner.timeouts import read_dump
from sundog.worker import stacks


def test_the_stack_of_a_thread_ends_where_it_is() -> None:
    gate, inside = threading.Event(), threading.Event()

    def wait_in_here() -> None:
        inside.set()
        gate.wait()

    thread = threading.Thread(target=wait_in_here)
    thread.start()
    inside.wait()
    found = stacks.of_thread(thread.ident or 0)
    gate.set()
    thread.join()
    assert "in wait_in_here" in found and "gate.wait()" in found
    assert stacks.of_thread(thread.ident or 0) == ""


def test_the_stack_of_a_coroutine_goes_through_what_it_awaits() -> None:
    async def inner() -> None:
        await asyncio.sleep(60)

    async def outer() -> None:
        await inner()

    async def look() -> str:
        task = asyncio.create_task(outer())
        await asyncio.sleep(0)
        found = stacks.of_coroutine(task.get_coro())
        task.cancel()
        return found

    found = asyncio.run(look())
    assert found.index("in outer") < found.index("in inner") < found.index("in sleep")


def test_a_fault_handlers_dump_reads_outermost_first(tmp_path: Path) -> None:
    path = tmp_path / "dump"

    def inner(file: int) -> None:
        faulthandler.dump_traceback(file, all_threads=False)

    def outer(file: int) -> None:
        inner(file)

    with path.open("wb") as file:
        outer(file.fileno())
        inner(file.fileno())  # the last dump counts
    found = read_dump(str(path))
    assert "in outer" not in found
    assert found.index("in test_a_fault_handlers_dump") < found.index("in inner")
    assert read_dump(str(tmp_path / "none")) == ""
