"""Where threads and asyncio tasks are, as rows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from sundog.owner import stacks
from sundog.owner.stacks import calls_here, stacks_here
from sundog.wire.looks import RunningCall


def no_call(_frame: FrameType) -> None:
    return None


@contextmanager
def standing(name: str, body: Callable[[threading.Event, threading.Event], None]) -> Iterator[None]:
    """A thread that stands in `body` until the test is over."""
    stands, may_go = threading.Event(), threading.Event()
    thread = threading.Thread(target=body, args=(stands, may_go), name=name)
    thread.start()
    assert stands.wait(30)
    try:
        yield
    finally:
        may_go.set()
        thread.join()


def waits_here(stands: threading.Event, may_go: threading.Event) -> None:
    stands.set()
    may_go.wait(60)


def descends(depth: int, stands: threading.Event, may_go: threading.Event) -> None:
    if depth:
        descends(depth - 1, stands, may_go)
    else:
        waits_here(stands, may_go)


def test_a_thread_is_told_from_its_innermost_frame_and_the_asking_one_is_left_out() -> None:
    with standing("user-thread", waits_here):
        told = stacks_here(no_call)
    [stack] = [each for each in told.threads if each.name == "user-thread"]
    functions = [frame.function for frame in stack.frames]
    assert "waits_here" in functions and functions.index("waits_here") < functions.index("Thread.run")
    assert not stack.ours and stack.frames[0].ours is False
    assert "MainThread" not in [each.name for each in told.threads]


def test_threads_of_sundog_are_marked_and_come_last() -> None:
    with standing("sundog-reader", waits_here), standing("another", waits_here):
        told = stacks_here(no_call)
    assert [each.name for each in told.threads if each.ours] == ["sundog-reader"]
    assert told.threads[-1].name == "sundog-reader"


def test_a_deep_recursion_is_cut_in_its_middle() -> None:
    with standing("deep", lambda stands, may_go: descends(300, stands, may_go)):
        told = stacks_here(no_call)
    [stack] = [each for each in told.threads if each.name == "deep"]
    assert len(stack.frames) == 100 and stack.omitted > 200
    assert stack.frames[-1].function.endswith("_bootstrap")


def test_the_frames_below_a_call_are_left_out_and_the_call_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "PACKAGE_DIR", __file__)  # this file stands for the worker's code
    call = RunningCall("task", "f", 1.0)

    def call_of(frame: FrameType) -> RunningCall | None:
        return call if frame.f_code is descends.__code__ else None

    with standing("sundog-main", lambda stands, may_go: descends(2, stands, may_go)):
        told = stacks_here(call_of)
        assert calls_here(call_of) == (call,)
    [stack] = [each for each in told.threads if each.name == "sundog-main"]
    assert stack.call == call and stack.frames[-1].function == "descends"
    assert told.calls == (call,) and not stack.ours  # a thread that runs a user's call is the user's


def test_tasks_of_an_event_loop_are_told_with_what_each_awaits() -> None:
    async def inner(future: asyncio.Future[Any]) -> None:
        await future

    async def outer(future: asyncio.Future[None]) -> None:
        await inner(future)

    async def main() -> Any:
        loop = asyncio.get_running_loop()
        one, two = loop.create_future(), loop.create_future()
        first = asyncio.create_task(outer(one), name="reads")
        second = asyncio.create_task(outer(two), name="writes")
        both = asyncio.create_task(asyncio.wait({first, second}), name="both")
        gathered = asyncio.gather(loop.create_future(), loop.create_future())
        third = asyncio.create_task(inner(gathered), name="gathers")
        await asyncio.sleep(0)
        told = stacks_here(no_call, {id(one): "abcd"})
        for task in (both, first, second, third):
            task.cancel()
        await asyncio.gather(both, first, second, third, return_exceptions=True)
        return told

    told = asyncio.run(main())
    by_name = {each.name: each for each in told.tasks}
    assert [frame.function.rpartition(".")[2] for frame in by_name["reads"].frames] == ["inner", "outer"]
    assert by_name["reads"].waits_for == "object abcd" and by_name["reads"].loop
    assert by_name["writes"].waits_for == "Future"
    assert by_name["gathers"].waits_for == "gather of 2, 2 not done"
