"""`ref.future()`: a future of the standard library whose reader waits as in `get`.

Owns the wait. Python's own would be left by the handler of a signal that raises with the future's lock held, and
its completer would wait for that lock for ever; it also would keep a worker's CPU, and let others read the
sockets. `moments` knows the methods of these futures, so that none of them is left in the middle.

Made and read on any thread; completed by `sundog-futures`.
"""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import TYPE_CHECKING

from sundog import events
from sundog.ids import number_of
from sundog.owner.call_sites import of_user
from sundog.owner.objects import CopyLost

if TYPE_CHECKING:
    from sundog.events import NoRing, Ring
    from sundog.owner.basics import Basics
    from sundog.owner.interfaces import Blocking, Recovering


_RECORDED_S = 1e-3  # a shorter wait is not recorded


class ObjectFuture(Future[object]):
    """The future of one object."""

    def __init__(self, basics: Basics, getting: Blocking) -> None:
        super().__init__()
        self._basics = basics
        self._getting = getting
        self._key = b"future" + id(self).to_bytes(8, "little")
        self._is_awaited = False
        self.site = 0  # in a driver: the ring's number for the line that awaits the future
        self.since_s = 0.0
        self.set_running_or_notify_cancel()

    def result(self, timeout: float | None = None) -> object:
        """The value; raises the error of the object, or TimeoutError if the object is not ready in time."""
        return super().result(self._await(timeout))

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error that the object holds; None if it holds a value. Raises TimeoutError if it is not ready
        in time.
        """
        return super().exception(self._await(timeout))

    def _await(self, timeout: float | None) -> float | None:
        """Wait; how long the future may be waited for after that.

        Not at all, unless the session has ended: then another thread is about to complete the future with the reason.
        """
        if not self.done():
            # Set before the check: a thread that completes the object after the check then announces it.
            self._is_awaited = True
            self._getting.block_until(self.done, self._key, timeout)
        return timeout if timeout is None or self._basics.closed is not None else 0.0

    def announce(self) -> None:
        """The future is done: wake the threads that wait for it."""
        if self._is_awaited:
            with self._basics.lock:
                self._basics.objects.announce(self._key)
            self._basics.reactor.wake()


class Futures:
    """Makes the futures of one owner, and completes them."""

    def __init__(self, basics: Basics, getting: Blocking, lineage: Recovering) -> None:
        self.basics = basics
        self.getting = getting
        self.lineage = lineage
        self.objects = basics.objects

    def of(self, oid: bytes) -> ObjectFuture:
        """A `concurrent.futures.Future` for an object."""
        future = ObjectFuture(self.basics, self.getting)
        # Hold the object until the reader of the future has read it.
        self.objects.ops.append((oid,))
        if self.basics.before_block is None:  # in a driver the wait is recorded, as for a get
            future.site, future.since_s = of_user(self.basics.ring, 0), time.time()
        if self._ready_or_deliver(future, oid):
            self._resolve_future(future, oid)
        return future

    def _ready_or_deliver(self, future: ObjectFuture, oid: bytes) -> bool:
        """Whether an object is ready; if not, the future receives it when it becomes ready."""

        def deliver(done_oid: bytes) -> None:
            self.basics.deliveries.bring(self._resolve_future, future, done_oid)

        with self.objects.lock:
            self.basics.check_open()
            if oid not in self.objects.ready:
                self.objects.ask_for(oid)
                if oid not in self.objects.ready:
                    self.objects.waiters.setdefault(oid, []).append(deliver)
                    return False
        return True

    def _resolve_future(self, future: ObjectFuture, oid: bytes) -> None:
        if future.site:
            record_wait(self.basics.ring, oid, future.site, future.since_s)
        try:
            while True:
                try:
                    if oid not in self.objects.ready:
                        self.basics.check_open()
                    value = self.objects.load(oid)
                    break
                except CopyLost as lost:
                    self.lineage.lost_here(lost)
                    if not self._ready_or_deliver(future, oid):
                        return
        except BaseException as error:
            self.objects.ops.append(oid)
            future.set_exception(error)
        else:
            self.objects.ops.append(oid)
            future.set_result(value)
        future.announce()


def record_wait(ring: Ring | NoRing, oid: bytes, site: int, since_s: float) -> None:
    """A driver has waited for an object: recorded as a get is."""
    now = time.time()
    if now - since_s > _RECORDED_S:
        last = float(number_of(oid[:16]))
        ring.write(events.GET, oid[:16], site, last, since_s, now, 0, 0, 1.0)
