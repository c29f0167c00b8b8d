"""What the controller publishes, and the readers that wait for news of it: long polling.

Owns the values and the waiters. A version is unique to one life of the controller, so that a reader that knows a
value of an earlier life is told at once. In the controller's loop.
"""

from __future__ import annotations

import asyncio
import itertools
import os

_WAIT_S = 30.0


class Topics:
    """Values by key."""

    def __init__(self) -> None:
        self._life = os.urandom(4).hex()
        self._numbers = itertools.count(1)
        self._values: dict[object, tuple[str, object]] = {}
        self._waiters: dict[object, set[asyncio.Future[None]]] = {}

    def publish(self, key: object, value: object) -> None:
        """A new value."""
        self._values[key] = (f"{self._life}-{next(self._numbers)}", value)
        self._wake(key)

    def drop(self, key: object) -> None:
        """There is no such thing any more."""
        if self._values.pop(key, None) is not None:
            self._wake(key)

    def get(self, key: object) -> object:
        """The present value."""
        found = self._values.get(key)
        return None if found is None else found[1]

    def _wake(self, key: object) -> None:
        for each in self._waiters.pop(key, ()):
            if not each.done():
                each.set_result(None)

    async def listen(self, key: object, seen: str | None) -> tuple[str, object]:
        """The value, as soon as it is another one than the reader has seen."""
        absent = (f"{self._life}-0", None)
        found = self._values.get(key, absent)
        if found[0] == seen:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.setdefault(key, set()).add(waiter)
            try:
                await asyncio.wait_for(waiter, _WAIT_S)
            except TimeoutError:
                pass
            finally:
                self._waiters.get(key, set()).discard(waiter)
            found = self._values.get(key, absent)
        return found
