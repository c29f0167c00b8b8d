"""`ref.future()`: a future of the standard library whose reader waits as in `get`.

Owns the wait. Python's own would be left by the handler of a signal that raises with the future's lock held, and
whoever completes it would wait for that lock for ever; it also would keep a worker's CPU, and let others read the
sockets. `moments` knows the methods of these futures, so that none of them is left in the middle.

Made and read on any thread; completed by `sundog-futures`.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sundog.owner.core import Owner


class ObjectFuture(Future[Any]):
    """The future of one object."""

    def __init__(self, owner: Owner) -> None:
        super().__init__()
        self._owner = owner
        self._key = b"future" + id(self).to_bytes(8, "little")
        self._is_awaited = False
        self.set_running_or_notify_cancel()

    def result(self, timeout: float | None = None) -> Any:
        """The value; raises its error, or TimeoutError if it does not come in time."""
        return super().result(self._await(timeout))

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error that the object is; None if it is a value. TimeoutError if it does not come in time."""
        return super().exception(self._await(timeout))

    def _await(self, timeout: float | None) -> float | None:
        """Wait; how long the future may be waited for after that."""
        if not self.done():
            self._is_awaited = True  # before the question: who completes it after that announces it
            self._owner.getting.block_until(self.done, self._key, timeout)
        return None if timeout is None else 0.0

    def announce(self) -> None:
        """It is done: tell who waits."""
        if self._is_awaited:
            with self._owner.lock:
                self._owner.announce(self._key)
            self._owner.reactor.wake()
