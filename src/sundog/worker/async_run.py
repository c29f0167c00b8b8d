"""Quick calls of an asyncio actor in a row, as one asyncio task.

An asyncio task for each call costs more than all the rest of a call that does next to nothing. So calls of
methods that are known to be quick share one: each begins in the context of its own that a task would have
given it, and most end there. The first call that has to wait keeps the task to itself until it ends, and the
calls behind it get another. So a call has one `current_task()` from its beginning to its end, and what is
cancelled, timed out or looked at through it is that call alone; only calls that never waited, one after the
other, may have seen the same.

Runs in the loop of an asyncio actor.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, NoReturn

_perf = time.perf_counter
_TURN_S = 1e-3  # after this time a run sends its replies and returns to the event loop


class AsyncRun(Coroutine[object, object, None]):
    """Calls that are ready, until one has to wait; then that one.

    Args:
        begin: begins the next call that is ready: its id and its coroutine, or None.
        waits: told of the call that has to wait, and of the task that is its own from now on.
        rest: told that this run begins no more calls, though some may be ready.
    """

    __slots__ = ("_begin", "_context", "_coro", "_rest", "_waits", "task")

    def __init__(
        self,
        begin: Callable[[], tuple[bytes, Coroutine[object, object, None]] | None],
        waits: Callable[[bytes, asyncio.Task[None]], None],
        rest: Callable[[], None],
    ) -> None:
        self._begin, self._waits, self._rest = begin, waits, rest
        self._coro: Coroutine[object, object, None] | None = None
        self._context: Context | None = None
        self.task: Any = None

    def send(self, value: object) -> object:
        """One step of the task: as many calls as end without waiting, or one step of the call that waited."""
        if self._coro is not None:
            return self._context.run(self._coro.send, value)  # type: ignore[union-attr]
        begin, cancelling = self._begin, self.task.cancelling
        end = _perf() + _TURN_S
        try:
            while (call := begin()) is not None:
                task_id, coro = call
                context = copy_context()
                try:
                    awaited = context.run(coro.send, None)
                except StopIteration:
                    if _perf() > end or cancelling():
                        break
                    continue
                self._coro, self._context = coro, context
                self._waits(task_id, self.task)
                return awaited
        finally:
            self._rest()
        raise StopIteration

    def throw(self, *error: Any) -> object:
        """One step that begins with an error."""
        if self._coro is None:
            self._rest()
            raise error[0]
        return self._context.run(self._coro.throw, *error)  # type: ignore[union-attr]

    def close(self) -> None:
        """As the coroutine's own."""
        if self._coro is not None:
            self._coro.close()

    def __await__(self) -> NoReturn:
        raise TypeError("a run of calls is for an asyncio task")

    def __getattr__(self, name: str) -> object:
        return getattr(self._coro, name)  # cr_frame and similar: a tool that inspects the task means the call
