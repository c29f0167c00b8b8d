"""The future of a request's present stage (`calls`), completed by the loop that sent the request if a loop did.

Owns the short way: a request that a coroutine sends is answered on the thread of its loop, so its reader is told
without passing another thread. Any other is a future of `ref.future()`. Made on the thread that sends.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import suppress

from sundog.owner.awaits import copy_result
from sundog.refs import ObjectRef


class LoopStage(Future[object]):
    """A stage that a loop completes on its own thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.loop = loop
        self.set_running_or_notify_cancel()

    def complete(self, done: asyncio.Future[object]) -> None:
        """The answer is there."""
        error = done.exception()
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(done.result())


def stage_of(ref: ObjectRef[object]) -> Future[object]:
    """The stage of a request that was sent."""
    loop = asyncio._get_running_loop()
    if loop is None:
        return ref.future()
    stage = LoopStage(loop)
    ref.as_future().add_done_callback(stage.complete)
    return stage


def awaitable(stage: Future[object]) -> asyncio.Future[object]:
    """A future of the running loop that becomes what a stage becomes."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[object] = loop.create_future()
    if type(stage) is LoopStage and stage.loop is loop:
        stage.add_done_callback(lambda done: copy_result(done, waiter))
    else:
        stage.add_done_callback(lambda done: _hand_over(loop, done, waiter))
    return waiter


def _hand_over(loop: asyncio.AbstractEventLoop, done: Future[object], waiter: asyncio.Future[object]) -> None:
    with suppress(RuntimeError):  # the event loop is closed, so no coroutine waits
        loop.call_soon_threadsafe(copy_result, done, waiter)
