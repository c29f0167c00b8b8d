"""The items of a `Queue`, in the actor that holds them.

::

    older ◄── ring: small items, in shared memory (`store/shared_ring.py`) ── beside: all others ──► younger

Owns what is beside the ring, and the calls of this actor that wait, first come, first served. While calls wait here,
other processes leave the ring alone and ask here, so that no caller is overtaken for ever. Without a ring (nobody has
opened one, or there is no descriptor for it) all items are beside it. Runs in the event loop of the actor."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from sundog.serialize.pack import pack, unpack
from sundog.store import shared_ring
from sundog.store.shared_ring import RingPlace, SharedRing, sealed

T = TypeVar("T")

_BOUNDED_BYTES = 1 << 20
_UNBOUNDED_BYTES = 16 << 20  # only what is written takes memory
_BOUNDED_ITEMS = 4096
_MOMENT_S = 5e-3


def record_of(item: object) -> bytes | None:
    """An item as a record of the ring; None if it is large, or holds refs or buffers, which others count."""
    stream, buffers, refs = pack(item, shared_ring.RECORD_MAX_BYTES)
    return sealed(stream) if buffers is None and refs is None else None


class Items(Generic[T]):
    """Like an `asyncio.Queue`; other processes may put and get beside it."""

    def __init__(self, maxsize: int) -> None:
        self.maxsize = maxsize
        self.ring: SharedRing | None = None
        self._beside: deque[T] = deque()
        self._getters: deque[asyncio.Future[None]] = deque()
        self._putters: deque[asyncio.Future[None]] = deque()
        self._oldest: bytes | bool | None = False  # the record of the first one beside; False: not known yet
        self._timer: asyncio.TimerHandle | None = None
        self._waits = {shared_ring.THEIR_GETTERS: 0, shared_ring.THEIR_PUTTERS: 0}

    def share(self) -> RingPlace:
        """Where the ring is; made now if there is none.

        Raises:
            OSError: there is no descriptor left.
        """
        if self.ring is None:
            few = 0 < self.maxsize <= _BOUNDED_ITEMS
            ring = SharedRing.make(max(0, self.maxsize), _BOUNDED_BYTES if few else _UNBOUNDED_BYTES)
            for word, count in self._waits.items():
                ring.note(word, count)
            ring.note(shared_ring.BESIDE, len(self._beside))
            asyncio.get_running_loop().add_reader(ring.maker, self._heard)
            self.ring = ring
            self._move_in()
        return self.ring.place()

    # ------------------------------------------------------------------ without waiting
    def qsize(self) -> int:
        return len(self._beside) if self.ring is None else self.ring.size()

    def empty(self) -> bool:
        return not self.qsize()

    def full(self) -> bool:
        return 0 < self.maxsize <= self.qsize()

    def put_nowait(self, item: T) -> None:
        """Add an item, or raise `asyncio.QueueFull`."""
        if not self._stored(item):
            raise asyncio.QueueFull
        self._wake_getters()

    def get_nowait(self) -> T:
        """Take the oldest item, or raise `asyncio.QueueEmpty`."""
        item = self._taken()
        self._wake_putters()
        return item

    def put_all_nowait(self, items: list[T]) -> None:
        """Add all the items, or raise `asyncio.QueueFull`."""
        ring = self.ring
        if ring is None:
            if 0 < self.maxsize < len(self._beside) + len(items):
                raise asyncio.QueueFull
        else:
            records = [record_of(item) for item in items] if not self._beside else [None]
            plain = [record for record in records if record is not None]
            found = ring.put_all(plain, True) if len(plain) == len(items) else shared_ring.ASK
            if found == shared_ring.FULL or (found == shared_ring.ASK and not ring.add_beside(len(items))):
                raise asyncio.QueueFull
            if found == shared_ring.DONE:
                self._wake_getters()
                return
        self._beside.extend(items)
        self._move_in()
        self._wake_getters()

    def get_all_nowait(self, wanted: int) -> list[T]:
        """Take this many items, the oldest first, or raise `asyncio.QueueEmpty`."""
        out: list[T] = []
        if self.ring is not None:
            found = self.ring.get_all(wanted, True)
            if isinstance(found, int):
                raise asyncio.QueueEmpty
            out = [unpack(each, None) for each in found]
        elif wanted > len(self._beside):
            raise asyncio.QueueEmpty
        out += [self._pop() for _ in range(wanted - len(out))]
        self._move_in()
        self._wake_putters()
        return out

    def _stored(self, item: T) -> bool:
        ring = self.ring
        if ring is None:
            if self.full():
                return False
        else:
            record = record_of(item) if not self._beside else None
            found = ring.put(record, by_maker=True) if record is not None else shared_ring.ASK
            if found == shared_ring.DONE:
                return True
            if found == shared_ring.FULL or not ring.add_beside():
                return False
        self._beside.append(item)
        if ring is not None:
            self._move_in()
            ring.tell_getter()
        return True

    def _taken(self) -> T:
        ring = self.ring
        if ring is not None:
            found = ring.get(by_maker=True)
            if type(found) is bytes:
                item: T = unpack(found, None)
                return item
        if not self._beside:
            raise asyncio.QueueEmpty
        item = self._pop()
        if ring is not None:
            ring.note(shared_ring.BESIDE, -1)
            self._move_in()
            ring.tell_putter()
        return item

    def _pop(self) -> T:
        self._oldest = False
        return self._beside.popleft()

    def _move_in(self) -> None:
        """Move items from beside the ring into it, in order: there other processes can take them without a call."""
        ring = self.ring
        while ring is not None and self._beside:
            record = self._oldest
            if record is False:
                record = self._oldest = record_of(self._beside[0])
            if type(record) is not bytes or not ring.move_in(record):
                return
            self._pop()

    # ------------------------------------------------------------------ waiting
    async def put(self, item: T) -> None:
        """Add an item, once there is room for it."""
        if self._putters or not self._stored(item):
            with self._noted(shared_ring.THEIR_PUTTERS):
                turn: asyncio.Future[None] | None = None
                while turn is None or not self._stored(item):
                    turn = await self._turn(self._putters, self._wake_putters)
        self._wake_getters()

    async def get(self) -> T:
        """Take the oldest item, once there is one."""
        if not self._getters:
            with contextlib.suppress(asyncio.QueueEmpty):
                return self.get_nowait()
        with self._noted(shared_ring.THEIR_GETTERS):
            while True:
                await self._turn(self._getters, self._wake_getters)
                with contextlib.suppress(asyncio.QueueEmpty):
                    return self.get_nowait()

    async def _turn(
        self, line: deque[asyncio.Future[None]], wake: Callable[[], object]
    ) -> asyncio.Future[None]:
        """Wait for this call's turn to try again. A call that is cancelled meanwhile passes its turn on."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        wake()  # items that came before this call was counted as waiting have woken no waiter
        try:
            await turn
        except BaseException:
            with contextlib.suppress(ValueError):
                line.remove(turn)
            if turn.done() and not turn.cancelled():
                wake()
            raise
        return turn

    @contextlib.contextmanager
    def _noted(self, word: int) -> Iterator[None]:
        """While this lasts, other processes leave the items to the calls that wait here."""
        self._note(word, 1)
        try:
            yield
        finally:
            self._note(word, -1)

    def _note(self, word: int, by: int) -> None:
        self._waits[word] += by
        if self.ring is not None:
            self.ring.note(word, by)

    def _heard(self) -> None:
        """Another process has put or taken something while calls wait here."""
        assert self.ring is not None
        self.ring.heard()
        self._wake_getters()
        self._wake_putters()

    def _wake_getters(self) -> None:
        if self._getters:
            _wake(self._getters, self.qsize())

    def _wake_putters(self, now: bool = False) -> None:
        """Let puts continue: at once if there is much room, so that many follow; after a moment if there is some."""
        if now:
            self._timer = None
        if self._putters:
            size = self.qsize()
            if now or self.ring is None or size <= self.ring.low:
                _wake(self._putters, self.maxsize - size)
            elif size < self.maxsize and self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(_MOMENT_S, self._wake_putters, True)


def _wake(line: deque[asyncio.Future[None]], count: int) -> None:
    while line and count > 0:
        turn = line.popleft()
        if not turn.done():
            turn.set_result(None)
            count -= 1
