"""Generators of refs: what a streaming or dynamic task returns.

Runs in the process that submitted the task, in whichever thread (or asyncio task) iterates.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from sundog.refs import Counterparts, ObjectRef

if TYPE_CHECKING:
    import asyncio

    from sundog.owner.objects import Objects
    from sundog.owner.rows import Task
    from sundog.owner.streams import Streams
    from sundog.public_ids import TaskID


T_co = TypeVar("T_co", covariant=True)

_ONE_WAY = (
    "Nothing can be sent into a streaming task: its generator runs in another process, and items come one way. "
    "Close it to stop it, or hand the task a Queue (sundog.util.queue) to talk to it."
)


class ObjectRefGenerator(Generic[T_co], metaclass=Counterparts):
    """Yields a ref for each item that a streaming task yields, as soon as it is there.

    Iterate with ``for`` or ``async for``; closing or dropping it cancels what the task has not done yet.
    """

    def __init__(self, task_id: bytes, streams: Streams, code: object = None, at: int = 0) -> None:
        self._task_id = task_id
        self._code, self._at = code, at  # where the task was submitted: the call site of its items
        self._streams: Streams | None = streams

    # ------------------------------------------------------------------ sync
    def __iter__(self) -> Iterator[ObjectRef[T_co]]:
        return self

    def __next__(self) -> ObjectRef[T_co]:
        return self._next_sync(None)

    def _next_sync(self, timeout_s: float | None = None) -> ObjectRef[T_co]:
        streams = self._live()
        found: bytes | bool | None = None
        key = b"gen:" + self._task_id

        def there() -> bool:
            nonlocal found
            if found is None:
                with streams.basics.lock:
                    streams.basics.check_open()
                    found = streams.take(self._task_id)
                    if found is None:
                        stream = streams.streams[self._task_id]
                        if not any(getattr(each, "key", None) == key for each in stream.wakers):
                            stream.wakers.append(_Announcer(streams.basics.objects, key))
            return found is not None

        def target() -> tuple[str, int, tuple[bytes, ...]]:
            return "next", 1, (self._task_id,)

        if not there() and not streams.getting.block_until(there, key, timeout_s, target):
            streams.basics.check_open()
            return ObjectRef.nil()
        if not isinstance(found, bytes):
            raise StopIteration
        return ObjectRef(found, self._code, self._at)

    # ------------------------------------------------------------------ async
    def __aiter__(self) -> AsyncIterator[ObjectRef[T_co]]:
        return self

    async def __anext__(self) -> ObjectRef[T_co]:
        if self._streams is None:
            raise StopAsyncIteration  # closed
        streams = self._streams
        import asyncio

        loop = asyncio.get_running_loop()
        while True:
            waker = _LoopWaker(loop, asyncio.Event())
            with streams.basics.lock:
                streams.basics.check_open()
                found = streams.take(self._task_id)
                if found is None:
                    stream = streams.streams[self._task_id]
                    stream.wakers.append(waker)
            if found is False:
                raise StopAsyncIteration
            if found is not None:
                return ObjectRef(found, self._code, self._at)  # type: ignore[arg-type]
            try:
                await waker.event.wait()
            except BaseException:
                with streams.basics.lock:  # the waiter gave up, as in wait_for(): no coroutine is to be woken
                    if waker in stream.wakers:
                        stream.wakers.remove(waker)
                raise

    # ------------------------------------------------------------------ the rest
    def is_finished(self) -> bool:
        """Whether the task has ended and every item was taken."""
        streams = self._streams
        if streams is None:
            return True  # closed
        with streams.basics.lock:
            return streams.is_finished(self._task_id)

    def next_ready(self) -> bool:
        """Whether the next item is there."""
        streams = self._streams
        if streams is None:
            return False  # closed
        with streams.basics.lock:
            return streams.peek_ready(self._task_id) and not streams.is_finished(self._task_id)

    def completed(self) -> ObjectRef[None]:
        """A ref that becomes ready when the task has ended: None, or its cancel, crash or other error not its own.

        Raises:
            ValueError: the generator was closed.
        """
        streams = self._streams
        if streams is None:
            raise ValueError(f"{self!r} was closed: ask for completed() before close().")
        with streams.basics.lock:
            streams.basics.objects.drain()
            return ObjectRef(streams.completion(self._task_id), self._code, self._at)

    def task_id(self) -> TaskID:
        """The id of the task."""
        from sundog.public_ids import TaskID

        return TaskID(self._task_id)

    def close(self) -> None:
        """Take no more: what the task has not done yet is cancelled."""
        streams, self._streams = self._streams, None
        if streams is not None and streams.basics.closed is None:
            with streams.basics.lock:
                streams.close(self._task_id)

    async def aclose(self) -> None:
        """The same as `close`."""
        self.close()

    def send(self, value: object) -> NoReturn:
        """Not possible: the generator runs in another process."""
        raise NotImplementedError(_ONE_WAY)

    def throw(self, *error: object) -> NoReturn:
        """Not possible either."""
        raise NotImplementedError(_ONE_WAY)

    async def asend(self, value: object) -> NoReturn:
        """Nor is this."""
        raise NotImplementedError(_ONE_WAY)

    async def athrow(self, *error: object) -> NoReturn:
        """Nor this."""
        raise NotImplementedError(_ONE_WAY)

    def _live(self) -> Streams:
        if self._streams is None:
            raise StopIteration
        return self._streams

    def __del__(self) -> None:
        streams = getattr(self, "_streams", None)
        if streams is not None and streams.basics.closed is None:
            # This may run under the owner's lock, so only note the task here.
            streams.basics.dropped_generators.append(self._task_id)
            streams.basics.reactor.wake()

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(
            "An ObjectRefGenerator cannot be sent to another process: its items belong to the process that "
            "submitted the task. Send the refs that it yields."
        )

    def __repr__(self) -> str:
        return f"ObjectRefGenerator({self._task_id.hex()})"


class _Announcer:
    __slots__ = ("key", "objects")

    def __init__(self, objects: Objects, key: bytes) -> None:
        self.objects = objects
        self.key = key

    def __call__(self) -> None:
        self.objects.announce(self.key)


class _LoopWaker:
    __slots__ = ("event", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
        self.loop = loop
        self.event = event

    def __call__(self) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed, so no coroutine waits
            self.loop.call_soon_threadsafe(self.event.set)


StreamingObjectRefGenerator = ObjectRefGenerator


def open_generator(streams: Streams, task: Task, code: object, at: int) -> ObjectRefGenerator[object]:
    """The generator for a task just submitted at this place."""
    streams.open(task)
    return ObjectRefGenerator(task.id, streams, code, at)
