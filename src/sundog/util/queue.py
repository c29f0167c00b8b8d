"""A first-in, first-out queue that tasks, actors and the driver share.

```
 any process: Queue handle ──small items──► ring in shared memory ◄──┐
                    └──────all else, long waits──► one asyncio actor: _QueueActor (queue_items.Items)
```

The handle owns the actor's handle, and travels. The actor owns the items and the memory that the small ones are in
(docs/decisions/0024). A put or get that cannot be done there within a moment is a call of the actor, and waits on its
event loop, so many callers may wait at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import select
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic
from weakref import WeakValueDictionary

import sundog
from sundog.exceptions import RayError
from sundog.serialize.pack import unpack
from sundog.store import shared_ring
from sundog.store.shared_ring import ASK, DONE, EMPTY, FULL, RingPlace, SharedRing
from sundog.util.queue_items import Items, record_of

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from sundog.option_types import ActorKeywords

    T = TypeVar("T", default=Any)  # a Queue without a type takes any items
else:
    from typing import TypeVar

    T = TypeVar("T")

__tracebackhide__ = True  # pytest folds the frames of this file

# this many verbs of a process are calls at first: most processes that use a queue once are done by then
_OPEN_AFTER = 2
_RINGS_MAX = 32  # rings of one process: each takes six descriptors
_HERE_S = 10e-3  # a wait that lasts longer is a call: it is recorded, lends its CPU, and has its turn
_perf = time.perf_counter
_rings: WeakValueDictionary[bytes, SharedRing] = WeakValueDictionary()
_uses: dict[bytes, int] = {}  # verbs on queues whose ring is not open; -1: never open it
_USES_MAX = 1000


class Empty(queue.Empty):
    """Nothing to get, or not enough for a batch, within the time given."""


class Full(queue.Full):
    """No room for the item or the batch within the time given."""


@contextlib.contextmanager
def _plain_errors(told: Empty | Full | None = None) -> Iterator[None]:
    """Show an Empty or Full of the actor as itself, or as `told`: a remote traceback says nothing more here."""
    try:
        yield
    except (Empty, Full) as error:
        cause = getattr(error, "cause", None)
        if not isinstance(cause, (Empty, Full)):
            raise
        raise told or cause from None


def _called(submit: Callable[..., sundog.ObjectRef[T]], *args: object) -> T:
    """What a call of the actor returns. The call is cancelled if its caller leaves it: Ctrl-C, a handler that raises.

    Without the cancel, the call would wait until it takes an item that no caller receives, or puts an item that its
    caller believes not to be put. A handler of a signal runs during this wait or after it (`owner/moments.py`), never
    between the call and the wait, so it cannot raise there.
    """
    call = submit(*args)
    try:
        return sundog.get(call)
    except (Empty, Full, RayError):
        raise
    except BaseException:
        _withdraw(call)
        raise


async def _called_async(call: sundog.ObjectRef[T]) -> T:
    """The same for a coroutine, which may be cancelled."""
    try:
        return await call
    except (Empty, Full, RayError):
        raise
    except BaseException:
        _withdraw(call)
        raise


def _withdraw(call: sundog.ObjectRef[T]) -> None:
    with contextlib.suppress(Exception):  # the session may be over
        sundog.cancel(call)


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

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_opened"}

    def __len__(self) -> int:
        return self.size()

    def size(self) -> int:
        """How many items are in it now."""
        ring = self._ring()
        return ring.size() if ring is not None else int(sundog.get(self.actor.qsize.remote()))

    def qsize(self) -> int:
        """How many items are in it now."""
        return self.size()

    def empty(self) -> bool:
        """Whether there is no item now."""
        ring = self._ring()
        return not ring.size() if ring is not None else bool(sundog.get(self.actor.empty.remote()))

    def full(self) -> bool:
        """Whether there is no room now."""
        ring = self._ring()
        if ring is not None:
            return 0 < ring.limit <= ring.size()
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
        ring = self._ring_if_open() or self._ring()
        if ring is not None and (record := record_of(item)) is not None:
            wait_s = _HERE_S if block and timeout is None else _wait_s(block, timeout)
            found = ring.put(record, False, wait_s > 0)
            if found == DONE:
                return
            began = _perf()
            if found == FULL and wait_s > 0:
                found = _put_soon(ring, record, wait_s)
                if found == DONE:
                    return
            if found == FULL and wait_s < _HERE_S:
                raise _full(ring.limit, timeout if block else None)
            if timeout is not None and block:
                with _plain_errors(_full(ring.limit, timeout)):
                    _called(self._put, item, block, max(0.0, timeout - (_perf() - began)))
                return
        with _plain_errors():
            _called(self._put, item, block, timeout)

    async def put_async(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        """`put` for coroutines."""
        ring = self._ring_if_open() or await self._ring_async()
        if ring is not None and (record := record_of(item)) is not None:
            _wait_s(block, timeout)
            found = ring.put(record)
            if found == DONE:
                return
            if found == FULL and not block:
                raise _full(ring.limit, None)
        with _plain_errors():
            await _called_async(self._put(item, block, timeout))

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Take the oldest item.

        Args:
            block: Wait for one; False ignores `timeout`.
            timeout: Seconds to wait; None waits for ever.

        Raises:
            Empty: There was none (in time).
            ValueError: `timeout` is negative.
        """
        ring = self._ring_if_open() or self._ring()
        if ring is not None:
            wait_s = _HERE_S if block and timeout is None else _wait_s(block, timeout)
            found = ring.get(False, wait_s > 0)
            began = _perf()
            if found == EMPTY and wait_s > 0:
                found = _get_soon(ring, wait_s)
            if type(found) is bytes:
                item: T = unpack(found, None)
                return item
            if found == EMPTY and wait_s < _HERE_S:
                raise _empty(timeout if block else None)
            if timeout is not None and block:
                with _plain_errors(_empty(timeout)):
                    return _called(self._get, block, max(0.0, timeout - (_perf() - began)))
        with _plain_errors():
            return _called(self._get, block, timeout)

    async def get_async(self, block: bool = True, timeout: float | None = None) -> T:
        """`get` for coroutines."""
        ring = self._ring_if_open() or await self._ring_async()
        if ring is not None:
            _wait_s(block, timeout)
            found = ring.get()
            if type(found) is bytes:
                item: T = unpack(found, None)
                return item
            if found == EMPTY and not block:
                raise _empty(None)
        with _plain_errors():
            return await _called_async(self._get(block, timeout))

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
        given = list(items)
        ring = self._ring()
        if ring is not None:
            records = [record for each in given if (record := record_of(each)) is not None]
            found = ring.put_all(records) if len(records) == len(given) else ASK
            if found == DONE:
                return
            if found == FULL:
                raise _too_many(len(given), ring.size(), ring.limit)
        with _plain_errors():
            sundog.get(self.actor.put_nowait_batch.remote(given))

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
        ring = self._ring()
        if ring is not None:
            found = ring.get_all(num_items)
            if isinstance(found, list):
                return [unpack(each, None) for each in found]
            if found == EMPTY:
                raise _too_few(num_items, ring.size())
        with _plain_errors():
            return list(sundog.get(self.actor.get_nowait_batch.remote(num_items)))

    # ------------------------------------------------------------------ the ring
    def _ring_if_open(self) -> SharedRing | None:
        """The ring of this queue, if this process has it open and its actor lives."""
        ring: SharedRing | None = self.__dict__.get("_opened")
        if ring is not None:
            if self.actor is not None and not ring.is_over():
                return ring
            del self.__dict__["_opened"]
        return None

    def _ring(self) -> SharedRing | None:
        """The ring; opened once this process has used the queue a few times. None where there is none."""
        ring = self._ring_if_open() or self._known_ring()
        if ring is None and self._should_open():
            ring = self._opened_at(sundog.get(self.actor.share.remote()))
        return ring

    async def _ring_async(self) -> SharedRing | None:
        """The same for coroutines."""
        ring = self._known_ring()
        if ring is None and self._should_open():
            ring = self._opened_at(await self.actor.share.remote())
        return ring

    def _key(self) -> bytes | None:
        """The id of the actor; None of one of another engine, and of a queue that was shut down."""
        core = getattr(self.actor, "_core", None)
        return None if core is None else core.actor_id

    def _known_ring(self) -> SharedRing | None:
        """The ring that another handle of this process has opened."""
        ring = _rings.get(self._key() or b"")
        if ring is None or ring.is_over():
            return None
        self.__dict__["_opened"] = ring
        return ring

    def _should_open(self) -> bool:
        key = self._key()
        if key is None:
            return False
        used = _uses.get(key, 0)
        if 0 <= used < _OPEN_AFTER:
            if len(_uses) >= _USES_MAX:
                _uses.clear()
            _uses[key] = used + 1
            return False
        return used > 0 and len(_rings) < _RINGS_MAX

    def _opened_at(self, place: tuple[int, ...] | None) -> SharedRing | None:
        key = self._key()
        if key is None:
            return None  # shut down meanwhile
        _uses[key] = -1
        if place is None or place[0] == os.getpid():
            return None
        ring = self._known_ring()  # another coroutine or thread may have opened it meanwhile
        if ring is None:
            try:
                ring = _rings[key] = SharedRing.open(RingPlace(*place))
            except OSError:
                return None  # no descriptor is left, or the actor has just died: then the next call says so
        _uses[key] = _OPEN_AFTER
        self.__dict__["_opened"] = ring
        return ring

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


def _wait_s(block: bool, timeout: float | None) -> float:
    """How long a verb waits before it becomes a call; less than `_HERE_S` if it never does."""
    if not block:
        return 0.0
    _check_timeout(timeout)
    return _HERE_S if timeout is None else min(timeout, _HERE_S)


def _put_soon(ring: SharedRing, record: bytes, wait_s: float) -> int:
    """Put a record into a ring that was full, as one that waits: DONE, FULL after this many seconds, or ASK."""
    end = _perf() + wait_s
    while True:
        _wait(ring, ring.room, shared_ring.PUTTERS, wait_s)
        wait_s = end - _perf()
        found = ring.put(record, waited=True, waits=wait_s > 0)
        if found != FULL or wait_s <= 0:
            return found


def _get_soon(ring: SharedRing, wait_s: float) -> bytes | int:
    """Take a record out of a ring that was empty, as one that waits: EMPTY after this many seconds, or ASK."""
    end = _perf() + wait_s
    while True:
        _wait(ring, ring.items, shared_ring.GETTERS, wait_s)
        wait_s = end - _perf()
        found = ring.get(waited=True, waits=wait_s > 0)
        if found != EMPTY or wait_s <= 0:
            return found


def _wait(ring: SharedRing, pipe: int, word: int, wait_s: float) -> None:
    """Sleep until another look may be worth it. A handler of a signal may run here, and raise."""
    try:
        poller = select.poll()
        poller.register(pipe, select.POLLIN)
        if poller.poll(wait_s * 1000):
            shared_ring.hear(pipe)
    except BaseException:
        ring.note(word, -1)
        raise


def _full(limit: int, timeout: float | None) -> Full:
    within = "" if timeout is None else f" within {timeout} s"
    return Full(f"No room{within}: all {limit} places are taken.")


def _empty(timeout: float | None) -> Empty:
    return Empty("The queue is empty." if timeout is None else f"No item within {timeout} s.")


def _too_many(count: int, size: int, limit: int) -> Full:
    return Full(f"{count} items do not fit: {size} of {limit} places are taken.")


def _too_few(wanted: int, size: int) -> Empty:
    return Empty(f"{wanted} items were asked for; there are {size}.")


class _QueueActor(Generic[T]):
    """The items, in one process. An asyncio actor: a waiting call blocks none of the others."""

    def __init__(self, maxsize: int) -> None:
        self.maxsize = maxsize
        # The name that subclasses know. A subclass may use it in any way, so its queue is not shared with other
        # processes.
        self.queue: Any = Items[T](maxsize) if type(self) is _QueueActor else asyncio.Queue[T](maxsize)

    def share(self) -> tuple[int, ...] | None:
        """Where other processes find the ring of small items; None if they cannot."""
        if not isinstance(self.queue, Items):
            return None
        try:
            return tuple(self.queue.share())
        except OSError:
            return None

    def qsize(self) -> int:
        return int(self.queue.qsize())

    def empty(self) -> bool:
        return bool(self.queue.empty())

    def full(self) -> bool:
        return bool(self.queue.full())

    async def put(self, item: T, timeout: float | None = None) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self.queue.put(item)
        except TimeoutError:
            raise _full(self.queue.maxsize, timeout) from None

    async def get(self, timeout: float | None = None) -> T:
        # Not wait_for: in 3.11 it may drop an item that arrives together with the timeout, and with
        # a timeout of 0 it never looks at the queue.
        try:
            async with asyncio.timeout(timeout):
                item: T = await self.queue.get()
                return item
        except TimeoutError:
            raise _empty(timeout) from None

    def put_nowait(self, item: T) -> None:
        try:
            self.queue.put_nowait(item)
        except asyncio.QueueFull:
            raise _full(self.queue.maxsize, None) from None

    def put_nowait_batch(self, items: list[T]) -> None:
        limit, size = self.queue.maxsize, self.queue.qsize()
        if isinstance(self.queue, Items):
            try:
                self.queue.put_all_nowait(items)
            except asyncio.QueueFull:
                raise _too_many(len(items), size, limit) from None
            return
        if limit > 0 and size + len(items) > limit:
            raise _too_many(len(items), size, limit)
        for item in items:
            self.queue.put_nowait(item)

    def get_nowait(self) -> T:
        try:
            item: T = self.queue.get_nowait()
            return item
        except asyncio.QueueEmpty:
            raise _empty(None) from None

    def get_nowait_batch(self, num_items: int) -> list[T]:
        size = self.queue.qsize()
        if isinstance(self.queue, Items):
            try:
                return self.queue.get_all_nowait(num_items)
            except asyncio.QueueEmpty:
                raise _too_few(num_items, size) from None
        if num_items > size:
            raise _too_few(num_items, size)
        return [self.queue.get_nowait() for _ in range(num_items)]
