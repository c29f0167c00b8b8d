"""A first-in, first-out queue that tasks, actors and the driver share.

```
 any process: Queue handle ──put/get──►  one asyncio actor: _QueueActor (asyncio.Queue)
```

The handle owns nothing but the actor's handle, and travels. The actor owns the items. Blocking
puts and gets wait inside the actor, on its event loop, so many callers may wait at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic

import sundog

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from sundog.option_types import ActorKeywords

    T = TypeVar("T", default=Any)  # a queue that says nothing takes anything
else:
    from typing import TypeVar

    T = TypeVar("T")

__tracebackhide__ = True  # pytest folds the frames of this file


class Empty(queue.Empty):
    """Nothing to get, or not enough for a batch, within the time given."""


class Full(queue.Full):
    """No room for the item or the batch within the time given."""


@contextlib.contextmanager
def _plain_errors() -> Iterator[None]:
    """Show an Empty or Full of the actor as itself: a remote traceback says nothing more here."""
    try:
        yield
    except (Empty, Full) as error:
        cause = getattr(error, "cause", None)
        if not isinstance(cause, (Empty, Full)):
            raise
        raise cause from None


def _check_timeout(timeout: float | None) -> None:
    if timeout is not None and timeout < 0:
        raise ValueError(f"'timeout' must be a non-negative number, got {timeout}")


class Queue(Generic[T]):
    """A queue with the interface of `queue.Queue` (without `join` and `task_done`), across processes.

    Args:
        maxsize: How many items fit; 0 sets no limit.
        actor_options: Options of the actor that holds the items, e.g. `{"name": "jobs"}`.

    Example:
        >>> q = Queue(maxsize=2)  # doctest: +SKIP
        >>> q.put("a"); q.get()  # doctest: +SKIP
        'a'
    """

    def __init__(
        self, maxsize: int = 0, actor_options: ActorKeywords | dict[str, object] | None = None
    ) -> None:
        self.maxsize = maxsize
        # None once it was shut down. Its methods are called as they come, so they have no types.
        self.actor: Any = sundog.remote(_QueueActor).options(**(actor_options or {})).remote(maxsize)

    def __len__(self) -> int:
        return self.size()

    def size(self) -> int:
        """How many items are in it now."""
        return int(sundog.get(self.actor.qsize.remote()))

    def qsize(self) -> int:
        """How many items are in it now."""
        return self.size()

    def empty(self) -> bool:
        """Whether there is no item now."""
        return bool(sundog.get(self.actor.empty.remote()))

    def full(self) -> bool:
        """Whether there is no room now."""
        return bool(sundog.get(self.actor.full.remote()))

    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        """Add an item.

        Args:
            item: What to add.
            block: Wait for room; False ignores `timeout`.
            timeout: Seconds to wait; None waits for ever.

        Raises:
            Full: There was no room (in time).
            ValueError: `timeout` is negative.
        """
        with _plain_errors():
            sundog.get(self._put(item, block, timeout))

    async def put_async(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        """`put` for coroutines."""
        with _plain_errors():
            await self._put(item, block, timeout)

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Take the oldest item.

        Args:
            block: Wait for one; False ignores `timeout`.
            timeout: Seconds to wait; None waits for ever.

        Raises:
            Empty: There was none (in time).
            ValueError: `timeout` is negative.
        """
        with _plain_errors():
            return sundog.get(self._get(block, timeout))

    async def get_async(self, block: bool = True, timeout: float | None = None) -> T:
        """`get` for coroutines."""
        with _plain_errors():
            return await self._get(block, timeout)

    def _put(self, item: T, block: bool, timeout: float | None) -> sundog.ObjectRef[None]:
        if not block:
            told: sundog.ObjectRef[None] = self.actor.put_nowait.remote(item)
            return told
        _check_timeout(timeout)
        done: sundog.ObjectRef[None] = self.actor.put.remote(item, timeout)
        return done

    def _get(self, block: bool, timeout: float | None) -> sundog.ObjectRef[T]:
        if not block:
            taken: sundog.ObjectRef[T] = self.actor.get_nowait.remote()
            return taken
        _check_timeout(timeout)
        awaited: sundog.ObjectRef[T] = self.actor.get.remote(timeout)
        return awaited

    def put_nowait(self, item: T) -> None:
        """Add an item without waiting; raises `Full`."""
        self.put(item, block=False)

    def put_nowait_batch(self, items: Iterable[T]) -> None:
        """Add all the items, or none.

        Raises:
            Full: They do not all fit.
            TypeError: `items` is not iterable.
        """
        if not isinstance(items, Iterable):
            raise TypeError(f"Argument 'items' must be an Iterable, got {type(items).__name__}")
        with _plain_errors():
            sundog.get(self.actor.put_nowait_batch.remote(list(items)))

    def get_nowait(self) -> T:
        """Take the oldest item without waiting; raises `Empty`."""
        return self.get(block=False)

    def get_nowait_batch(self, num_items: int) -> list[T]:
        """Take the oldest `num_items`, or none.

        Raises:
            Empty: There are fewer.
            TypeError: `num_items` is not an int.
            ValueError: `num_items` is negative.
        """
        if not isinstance(num_items, int):
            raise TypeError(f"Argument 'num_items' must be an int, got {type(num_items).__name__}")
        if num_items < 0:
            raise ValueError(f"'num_items' must be nonnegative, got {num_items}")
        with _plain_errors():
            return list(sundog.get(self.actor.get_nowait_batch.remote(num_items)))

    def shutdown(self, force: bool = False, grace_period_s: float = 5) -> None:
        """End the actor; items still inside are lost. The queue cannot be used afterwards.

        Args:
            force: Kill it at once, instead of letting the calls it has taken finish.
            grace_period_s: How long those calls may take before it is killed.
        """
        if self.actor is None:
            return
        if not force:
            done, _ = sundog.wait([self.actor.__ray_terminate__.remote()], timeout=grace_period_s)
            force = not done
        if force:
            sundog.kill(self.actor, no_restart=True)
        self.actor = None


class _QueueActor(Generic[T]):
    """The items, in one process. An asyncio actor: a waiting call blocks none of the others."""

    def __init__(self, maxsize: int) -> None:
        self.maxsize = maxsize
        self.queue: asyncio.Queue[T] = asyncio.Queue(maxsize)  # the name that subclasses know

    def qsize(self) -> int:
        return self.queue.qsize()

    def empty(self) -> bool:
        return self.queue.empty()

    def full(self) -> bool:
        return self.queue.full()

    async def put(self, item: T, timeout: float | None = None) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self.queue.put(item)
        except TimeoutError:
            raise Full(f"No room within {timeout} s: all {self.queue.maxsize} places are taken.") from None

    async def get(self, timeout: float | None = None) -> T:
        # Not wait_for: in 3.11 it may drop an item that arrives together with the timeout, and with
        # a timeout of 0 it never looks at the queue.
        try:
            async with asyncio.timeout(timeout):
                return await self.queue.get()
        except TimeoutError:
            raise Empty(f"No item within {timeout} s.") from None

    def put_nowait(self, item: T) -> None:
        try:
            self.queue.put_nowait(item)
        except asyncio.QueueFull:
            raise Full(f"No room: all {self.queue.maxsize} places are taken.") from None

    def put_nowait_batch(self, items: list[T]) -> None:
        limit, size = self.queue.maxsize, self.queue.qsize()
        if limit > 0 and size + len(items) > limit:
            raise Full(f"{len(items)} items do not fit: {size} of {limit} places are taken.")
        for item in items:
            self.queue.put_nowait(item)

    def get_nowait(self) -> T:
        try:
            return self.queue.get_nowait()
        except asyncio.QueueEmpty:
            raise Empty("The queue is empty.") from None

    def get_nowait_batch(self, num_items: int) -> list[T]:
        if num_items > self.queue.qsize():
            raise Empty(f"{num_items} items were asked for; there are {self.queue.qsize()}.")
        return [self.queue.get_nowait() for _ in range(num_items)]
