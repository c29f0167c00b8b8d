"""What a pool gives back: results that arrive chunk by chunk.

Written by the pool's result thread, read by any thread of the user's; each object has one condition
that guards it. Knows nothing of actors.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing import TimeoutError
from typing import Any

logger = logging.getLogger(__name__)


class RemoteTraceback(Exception):
    """Shows, as the cause of an exception, where it was raised in the other process."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class PoolTaskError(Exception):
    """An exception in the place of a result: an item of `imap`, what an `error_callback` is given.

    `underlying` is what was raised; `map` and `get` raise that itself.
    """

    def __init__(self, underlying: BaseException) -> None:
        super().__init__(underlying)
        self.underlying = underlying


class Failure:
    """An exception in the place of a result, so that one bad item does not lose its chunk."""

    def __init__(self, error: BaseException, traceback_text: str = "") -> None:
        self.error = error
        self.traceback_text = traceback_text

    def exception(self) -> BaseException:
        """Give the exception, caused by its remote traceback as in the standard library."""
        if self.traceback_text and self.error.__cause__ is None:
            self.error.__cause__ = RemoteTraceback(self.traceback_text)
        return self.error


class AsyncResult:
    """The result of one `*_async` call.

    Args:
        pool: Held while the result is, so that dropping the pool's last name does not end its work.
        chunk_count: How many chunks make up the result.
        single: The result is one value, not a list.
        callback: Called with the result, in the pool's result thread.
        error_callback: Called with the exception instead.
    """

    def __init__(
        self,
        pool: object,
        chunk_count: int,
        *,
        single: bool = False,
        callback: Callable[[Any], Any] | None = None,
        error_callback: Callable[[BaseException], Any] | None = None,
    ) -> None:
        self._pool = pool
        self._single = single
        self._callback = callback
        self._error_callback = error_callback
        self._chunks: list[list[Any] | None] = [None] * chunk_count
        self._missing = chunk_count
        self._error: BaseException | None = None
        self._error_chunk = chunk_count
        self._done = False
        self._condition = threading.Condition()
        if chunk_count == 0:
            self._finish()

    def chunk_done(self, index: int, values: list[Any]) -> None:
        """Take the results of a chunk. Called by the pool."""
        failed = next((value.exception() for value in values if isinstance(value, Failure)), None)
        with self._condition:
            if self._chunks[index] is not None or self._missing == 0:
                return
            self._chunks[index] = values
            self._missing -= 1
            # The error of the first item counts, whichever chunk happens to fail first.
            if failed is not None and index < self._error_chunk:
                self._error, self._error_chunk = failed, index
            finished = self._missing == 0
        if finished:
            self._finish()

    def _finish(self) -> None:
        # The callback comes first: who has got the result may rely on its effects.
        self._call_back()
        with self._condition:
            self._done = True
            self._condition.notify_all()

    def _call_back(self) -> None:
        callback = self._callback if self._error is None else self._error_callback
        if callback is None:
            return
        try:
            callback(self._value() if self._error is None else PoolTaskError(self._error))
        except Exception:
            # As a callback of the user's it must not end the thread that serves the whole pool.
            logger.exception("A callback given to a Pool raised")

    def _value(self) -> Any:
        values = [value for chunk in self._chunks for value in (chunk or [])]
        return values[0] if self._single else values

    def get(self, timeout: float | None = None) -> Any:
        """Give the result, waiting for it.

        Args:
            timeout: Seconds to wait; None waits for ever.

        Raises:
            multiprocessing.TimeoutError: It was not there in time.
            Exception: Whatever the call raised.
        """
        self.wait(timeout)
        with self._condition:
            if not self._done:
                raise TimeoutError(
                    f"{self._missing} of {len(self._chunks)} chunks were not done within {timeout} s."
                )
            if self._error is not None:
                raise self._error
            return self._value()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the result is there, or the time is over."""
        with self._condition:
            self._condition.wait_for(lambda: self._done, timeout)

    def ready(self) -> bool:
        """Whether the result, or an error, is there."""
        with self._condition:
            return self._done

    def successful(self) -> bool:
        """Whether it came without an error.

        Raises:
            ValueError: It is not there yet.
        """
        with self._condition:
            if not self._done:
                raise ValueError(f"{self!r} not ready")
            return self._error is None


class IMapIterator:
    """Results of `imap` and `imap_unordered`, one at a time.

    Args:
        pool: Held while the iterator is.
        submit_next: Submits one more chunk; returns whether there was one.
        ordered: Give results in the order of the items.
    """

    def __init__(self, pool: object, submit_next: Callable[[IMapIterator, int], bool], ordered: bool) -> None:
        self._pool = pool
        self._submit_next = submit_next
        self._ordered = ordered
        self._condition = threading.Condition()
        # Held while items are read: the reader and Pool.close() may both want to submit.
        self._reading = threading.Lock()
        self._arrived: dict[int, list[Any]] = {}
        self._values: deque[Any] = deque()
        self._submitted = 0
        self._consumed = 0
        self._exhausted = False

    def submit(self, count: float) -> None:
        """Submit up to `count` more chunks."""
        with self._reading:
            while count > 0 and not self._exhausted:
                count -= 1
                if self._submit_next(self, self._submitted):
                    self._submitted += 1
                else:
                    self._exhausted = True

    def chunk_done(self, index: int, values: list[Any]) -> None:
        """Take the results of a chunk. Called by the pool."""
        with self._condition:
            self._arrived[index] = values
            self._condition.notify_all()

    def _next_chunk(self) -> list[Any] | None:
        if self._ordered:
            return self._arrived.pop(self._consumed, None)
        return self._arrived.pop(next(iter(self._arrived))) if self._arrived else None

    def next(self, timeout: float | None = None) -> Any:
        """Give the next result.

        Args:
            timeout: Seconds to wait; None waits for ever.

        Raises:
            StopIteration: All were given.
            multiprocessing.TimeoutError: It was not there in time.

        An item on which the call raised is given as a `PoolTaskError`, as in Ray, and the iteration goes on.
        """
        until_s = None if timeout is None else time.monotonic() + timeout
        while not self._values:
            if self._exhausted and self._consumed == self._submitted:
                raise StopIteration
            with self._condition:
                chunk = self._next_chunk()
                if chunk is None:
                    left_s = None if until_s is None else until_s - time.monotonic()
                    if left_s is not None and left_s <= 0:
                        raise TimeoutError(f"No result within {timeout} s.")
                    self._condition.wait(left_s)
                    continue
            self._consumed += 1
            self._values.extend(chunk)
            # One chunk in for one chunk out: the items are read no faster than the results.
            self.submit(1)
        value = self._values.popleft()
        return PoolTaskError(value.exception()) if isinstance(value, Failure) else value

    def __next__(self) -> Any:
        return self.next()

    def __iter__(self) -> Iterator[Any]:
        return self
