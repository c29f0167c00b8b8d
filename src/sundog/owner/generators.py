"""Generators of refs: what a streaming or dynamic task returns.

Runs in the process that submitted the task, in whichever thread (or asyncio task) iterates.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from sundog.refs import Counterparts, ObjectRef

if TYPE_CHECKING:
    import asyncio

    from sundog.owner.core import Owner


T_co = TypeVar("T_co", covariant=True)

_ONE_WAY = (
    "Nothing can be sent into a streaming task: its generator runs in another process, and items come one way. "
    "Close it to stop it, or hand the task a Queue (sundog.util.queue) to talk to it."
)


class ObjectRefGenerator(Generic[T_co], metaclass=Counterparts):
    """Yields a ref for each item that a streaming task yields, as soon as it is there.

    Iterate with ``for`` or ``async for``; closing or dropping it cancels what the task has not done yet.
    """

    def __init__(self, task_id: bytes, owner: Owner, code: object = None, at: int = 0) -> None:
        self._task_id = task_id
        self._code, self._at = code, at  # where the task was submitted: the site of its items
        self._owner: Owner | None = owner

    # ------------------------------------------------------------------ sync
    def __iter__(self) -> Iterator[ObjectRef[T_co]]:
        return self

    def __next__(self) -> ObjectRef[T_co]:
        return self._next_sync(None)

    def _next_sync(self, timeout_s: float | None = None) -> ObjectRef[T_co]:
        owner = self._live()
        found: Any = None
        key = b"gen:" + self._task_id

        def there() -> bool:
            nonlocal found
            if found is None:
                with owner.lock:
                    owner.check_open()
                    found = owner.streams.take(self._task_id)
                    if found is None:
                        stream = owner.streams.streams[self._task_id]
                        if not any(getattr(each, "key", None) == key for each in stream.wakers):
                            stream.wakers.append(_Announcer(owner, key))
            return found is not None

        def target() -> tuple[str, int, tuple[bytes, ...]]:
            return "next", 1, (self._task_id,)

        if not there() and not owner.getting.block_until(there, key, timeout_s, target):
            owner.check_open()
            return ObjectRef.nil()
        if found is False:
            raise StopIteration
        return ObjectRef(found, self._code, self._at)

    # ------------------------------------------------------------------ async
    def __aiter__(self) -> AsyncIterator[ObjectRef[T_co]]:
        return self

    async def __anext__(self) -> ObjectRef[T_co]:
        if self._owner is None:
            raise StopAsyncIteration  # closed
        owner = self._owner
        import asyncio

        loop = asyncio.get_running_loop()
        while True:
            waker = _LoopWaker(loop, asyncio.Event())
            with owner.lock:
                owner.check_open()
                found = owner.streams.take(self._task_id)
                if found is None:
                    stream = owner.streams.streams[self._task_id]
                    stream.wakers.append(waker)
            if found is False:
                raise StopAsyncIteration
            if found is not None:
                return ObjectRef(found, self._code, self._at)  # type: ignore[arg-type]
            try:
                await waker.event.wait()
            except BaseException:
                with owner.lock:  # it was given up, as by wait_for(): nobody is to be woken
                    if waker in stream.wakers:
                        stream.wakers.remove(waker)
                raise

    # ------------------------------------------------------------------ the rest
    def is_finished(self) -> bool:
        """Whether the task has ended and every item was taken."""
        owner = self._owner
        if owner is None:
            return True  # closed
        with owner.lock:
            return owner.streams.is_finished(self._task_id)

    def next_ready(self) -> bool:
        """Whether the next item is there."""
        owner = self._owner
        if owner is None:
            return False  # closed
        with owner.lock:
            streams = owner.streams
            return streams.peek_ready(self._task_id) and not streams.is_finished(self._task_id)

    def completed(self) -> ObjectRef[None]:
        """A ref that becomes ready when the task has ended: None, or its cancel, crash or other error not its own.

        Raises:
            ValueError: the generator was closed.
        """
        owner = self._owner
        if owner is None:
            raise ValueError(f"{self!r} was closed: ask for completed() before close().")
        with owner.lock:
            owner.objects.drain()
            return ObjectRef(owner.streams.completion(self._task_id), self._code, self._at)

    def task_id(self) -> Any:
        """The id of the task."""
        from sundog.public_ids import TaskID

        return TaskID(self._task_id)

    def close(self) -> None:
        """Take no more: what the task has not done yet is cancelled."""
        owner, self._owner = self._owner, None
        if owner is not None and owner.closed is None:
            with owner.lock:
                owner.streams.close(self._task_id)

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

    def _live(self) -> Owner:
        if self._owner is None:
            raise StopIteration
        return self._owner

    def __del__(self) -> None:
        owner = getattr(self, "_owner", None)
        if owner is not None and owner.closed is None:
            # May run under the owner's lock, so only leave a note.
            owner.dropped_generators.append(self._task_id)
            owner.reactor.wake()

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "An ObjectRefGenerator cannot be sent to another process: its items belong to the one that submitted "
            "the task. Send the refs that it yields."
        )

    def __repr__(self) -> str:
        return f"ObjectRefGenerator({self._task_id.hex()})"


class _Announcer:
    __slots__ = ("key", "owner")

    def __init__(self, owner: Owner, key: bytes) -> None:
        self.owner = owner
        self.key = key

    def __call__(self) -> None:
        self.owner.objects.announce(self.key)


class _LoopWaker:
    __slots__ = ("event", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
        self.loop = loop
        self.event = event

    def __call__(self) -> None:
        with contextlib.suppress(RuntimeError):  # its loop was closed: then nobody waits
            self.loop.call_soon_threadsafe(self.event.set)


class DynamicObjectRefGenerator:
    """The value of a num_returns="dynamic" task: iterates over refs to the items it yielded."""

    def __init__(self, refs: list[ObjectRef[Any]]) -> None:
        self._refs = deque(refs)

    def __iter__(self) -> Iterator[ObjectRef[Any]]:
        while self._refs:
            yield self._refs.popleft()

    def __len__(self) -> int:
        return len(self._refs)


StreamingObjectRefGenerator = ObjectRefGenerator
