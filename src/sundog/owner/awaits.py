"""`await ref`: a loop of asyncio that waits for objects reads this process' sockets itself.

::

    reply ─► the loop's own poll ─► reactor.pump ─► the future is set ─► the coroutine goes on

Without it a reply passes two threads before the loop hears of it: the reader, and the one that completes futures. Each
hand-over costs more than the reply itself.

Owns the loops that wait, and which of them reads: the first, while it runs and waits, until most of what comes is for
another. What another thread reads is handed to the loop by `call_soon_threadsafe`. Refuses to read a value in shared
memory on the loop's thread: that may take long, so `futures` does it. Made for a loop on its own thread; told of
results on any thread, under the lock.
"""

from __future__ import annotations

import asyncio
import select
import time
from collections import deque
from concurrent.futures import Future as ConcurrentFuture
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING

from sundog.owner.call_sites import of_user
from sundog.owner.futures import Futures, record_wait
from sundog.owner.objects import CopyLost

if TYPE_CHECKING:
    from sundog.owner.basics import Basics
    from sundog.owner.objects import Objects

_HANDED_MAX = 32  # after so many results that other threads have read, the loop reads the sockets itself


class Awaits:
    """The loops of one owner."""

    def __init__(self, basics: Basics, futures: Futures) -> None:
        self.basics = basics
        self.futures = futures
        self._loops: dict[asyncio.AbstractEventLoop, _Loop] = {}

    def of(self, oid: bytes) -> asyncio.Future[object]:
        """A future of the running loop for an object; of the thread's loop if none runs."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.wrap_future(self.futures.of(oid))
        found = self._loops.get(loop)
        if found is None:
            self._forget_closed()
            found = self._loops[loop] = _Loop(self.basics, self.futures, loop)
        return found.future(oid)

    def _forget_closed(self) -> None:
        for loop, each in list(self._loops.items()):
            if loop.is_closed():
                each.close()
                self._loops.pop(loop, None)

    def close(self) -> None:
        """No loop reads any more; the descriptors are closed."""
        for each in list(self._loops.values()):
            each.close()


def awaited_objects(objects: Objects) -> dict[int, str]:
    """Which object each future of an `await ref` stands for that is not there: the future's address, the object's id.

    Read from what is called when the object comes, so that awaiting costs nothing for it. Runs on any thread.
    """
    found: dict[int, str] = {}
    for oid, calls in list(objects.waiters.items()):
        for call in calls:
            names = getattr(getattr(call, "__code__", None), "co_freevars", ())
            if "future" in names:
                cell = (call.__closure__ or ())[names.index("future")]
                found[id(cell.cell_contents)] = oid.hex()
    return found


class _Loop:
    """A loop, the futures that it waits for, and the reading."""

    def __init__(self, basics: Basics, futures: Futures, loop: asyncio.AbstractEventLoop) -> None:
        self.basics, self.futures = basics, futures
        self.objects, self.reactor = basics.objects, basics.reactor
        self.loop = loop
        self.thread = get_ident()
        self.waiting = 0
        self.epoll: select.epoll | None = None
        self._came: deque[tuple[asyncio.Future[object], bytes, int, float]] = deque()
        self._is_told = False  # a call of `_set_all` is scheduled
        self._is_due = False  # a call of `_read` is scheduled
        self._can_read = True
        self._handed = 0  # results for this loop that another thread has read since the loop last read

    # ------------------------------------------------------------------ waiting, on the loop's thread
    def future(self, oid: bytes) -> asyncio.Future[object]:
        """The future of an object."""
        future = self.loop.create_future()
        self.objects.ops.append((oid,))  # hold the object until it has been read
        if self._is_ready_or_waited_for(future, oid):
            self._set(future, oid)
        return future

    def _is_ready_or_waited_for(self, future: asyncio.Future[object], oid: bytes) -> bool:
        """Whether an object is ready; if not, the future receives it when it becomes ready."""

        site, since_s = 0, 0.0
        if self.basics.before_block is None:  # in a driver the wait is recorded, as for a get
            site, since_s = of_user(self.basics.ring, 0), time.time()

        def came(oid: bytes) -> None:
            self.waiting -= 1
            self._came.append((future, oid, site, since_s))
            if not self._is_told:
                self._is_told = True
                self._tell()

        with self.objects.lock:
            self.basics.check_open()
            if oid in self.objects.ready:
                return True
            self.objects.ask_for(oid)
            if oid in self.objects.ready:
                return True
            self.objects.waiters.setdefault(oid, []).append(came)
            self.waiting += 1
            if self.reactor.stander is not self and self._can_read:
                self._stand_by()
        return False

    def _tell(self) -> None:
        """Locked, on any thread: have what came set, unless this loop reads at this moment and does so by itself."""
        if self.reactor.is_read_by(self):
            return
        self._handed += 1
        with suppress(RuntimeError):  # the loop is closed, so no coroutine waits
            if get_ident() == self.thread:
                self.loop.call_soon(self._set_all)
            else:
                self.loop.call_soon_threadsafe(self._set_all)

    def _stand_by(self) -> None:
        """Locked: this loop reads from now on, unless another loop reads and most objects are not for this
        one.
        """
        other = self.reactor.stander
        if other is not None and other.is_needed() and self._handed < _HANDED_MAX:
            return
        self._handed = 0
        if self.epoll is None:
            self.epoll = select.epoll()
            self.epoll.register(self.reactor.ep.fileno(), 0)
            try:
                self.loop.add_reader(self.epoll.fileno(), self._read)
            except NotImplementedError:  # the loop cannot watch file descriptors
                self._can_read = False
                return
        self.reactor.stand_by(self)

    def is_needed(self) -> bool:
        """Whether this loop runs and waits for something."""
        return self.waiting > 0 and self.loop.is_running()

    def soon(self) -> None:
        """On the loop's thread: read, and send what has been submitted, when the coroutines that can run have run."""
        if not self._is_due:
            self._is_due = True
            self.loop.call_soon(self._read)

    # ------------------------------------------------------------------ reading, on the loop's thread
    def _read(self) -> None:
        self._is_due = False
        reactor = self.reactor
        try:
            with reactor.lock:
                if not reactor.closed and not reactor.leader:
                    reactor.pump_for(self)
        finally:
            if self._came:
                self._set_all()

    def _set_all(self) -> None:
        self._is_told = False
        while self._came:
            future, oid, site, since_s = self._came.popleft()
            if since_s and self.basics.closed is None:
                record_wait(self.basics.ring, oid, site, since_s)
            if future.done():  # the coroutine no longer waits for it
                self.objects.ops.append(oid)
            else:
                self._set(future, oid)

    def _set(self, future: asyncio.Future[object], oid: bytes) -> None:
        found = self.objects.value(oid)
        if found is None or found[2] is not None:
            self._set_elsewhere(future, oid)
            return
        try:
            value = self.objects.load(oid)
        except CopyLost:
            self._set_elsewhere(future, oid)
            return
        except BaseException as error:
            self.objects.ops.append(oid)
            set_error(future, error)
        else:
            self.objects.ops.append(oid)
            future.set_result(value)

    def _set_elsewhere(self, future: asyncio.Future[object], oid: bytes) -> None:
        """A value in shared memory, which may have to be read from disk or computed again."""
        try:
            there = self.futures.of(oid)
        except BaseException as error:  # the session has ended
            set_error(future, error)
            return
        self.objects.ops.append(oid)  # the other future has a hold of its own
        there.add_done_callback(lambda done: self._hand_over(done, future))

    def _hand_over(self, done: ConcurrentFuture[object], future: asyncio.Future[object]) -> None:
        """On any thread: what a future of another thread has become is what ours becomes."""
        with suppress(RuntimeError):  # the loop is closed, so no coroutine waits
            self.loop.call_soon_threadsafe(copy_result, done, future)

    # ------------------------------------------------------------------ the end
    def close(self) -> None:
        """The session ends: the loop forgets the descriptor, on its own thread if it runs."""
        if self.epoll is None:
            return
        if self.loop.is_closed():
            self._forget()
        elif self.loop.is_running() and get_ident() != self.thread:
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._forget)
        else:
            self._forget()

    def _forget(self) -> None:
        epoll = self.epoll
        self._can_read = False
        if epoll is None:
            return
        with self.reactor.lock:
            # Every get mutes the standby's epoll object, so that object must never be closed while it is
            # registered.
            if self.reactor.stander is self and not self.reactor.closed:
                self.reactor.stand_by(None)
            self.epoll = None
        if not self.loop.is_closed():
            self.loop.remove_reader(epoll.fileno())
        epoll.close()


def copy_result(done: ConcurrentFuture[object], future: asyncio.Future[object]) -> None:
    """On the thread of the loop: a future becomes what another one has become."""
    if future.done():
        return
    error = done.exception()
    if error is not None:
        set_error(future, error)
    else:
        future.set_result(done.result())


def set_error(future: asyncio.Future[object], error: BaseException) -> None:
    """End a future with an error, also with one that no coroutine can raise."""
    if isinstance(error, StopIteration):  # `await` would take a StopIteration for the end of the coroutine
        told = RuntimeError(f"the task raised {type(error).__name__}: {error}")
        told.__cause__ = error
        error = told
    future.set_exception(error)
