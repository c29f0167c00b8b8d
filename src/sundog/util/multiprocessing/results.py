"""What a pool gives back: refs, read by the thread that wants the results.

Owns nothing that moves by itself: a `get` or `next` reads what workers sent in the user's own thread, without a
hand-over. Only callbacks need another thread, for they run without a call of the user's: one of the pool's, started
with the first.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing import TimeoutError
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import sundog
from sundog.util.multiprocessing.calls import Failure, RemoteTraceback
from sundog.util.multiprocessing.crew import PoolCrew, pool_error

if TYPE_CHECKING:
    from sundog.refs import ObjectRef
    from sundog.util.multiprocessing.pool import Pool

__all__ = ["AsyncResult", "Callbacks", "Failure", "IMapIterator", "PoolTaskError", "RemoteTraceback"]

T = TypeVar("T")

logger = logging.getLogger(__name__)

# imap keeps as many chunks in flight as are consumed in this time: many short chunks share a packet, and long
# ones are not read earlier than needed.
_AHEAD_S = 0.02
_AHEAD_MAX = 1024


class PoolTaskError(Exception):
    """An exception in the place of a result: an item of `imap`, what an `error_callback` is given.

    `underlying` is what was raised; `map` and `get` raise that itself.
    """

    def __init__(self, underlying: BaseException) -> None:
        super().__init__(underlying)
        self.underlying = underlying


def read(refs: list[ObjectRef[object]], whole: list[bool]) -> list[object]:
    """The results of some chunks, one after another; waits for chunks that are not ready. `whole`: for each chunk,
    whether its value is a list of results; otherwise the value is one result."""
    try:
        values = sundog.get(refs)
    except Exception:
        values = [_read_one(ref) for ref in refs]
    out: list[object] = []
    for value, is_list in zip(values, whole, strict=True):
        if is_list and type(value) is list:
            out.extend(value)
        else:
            out.append(value)
    return out


def _read_one(ref: ObjectRef[object]) -> object:
    try:
        return sundog.get(ref)
    except Exception as error:
        return Failure(pool_error(error))


class Callbacks:
    """The thread of a pool in which callbacks run: they may take their time, and submit more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pending = 0
        self._idle = threading.Condition(self._lock)

    def when_done(self, refs: list[ObjectRef[object]], call: Callable[[], None]) -> None:
        """Have `call` called in this thread when all the refs are ready."""
        with self._lock:
            self._pending += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="pool-callbacks", daemon=True)
                self._thread.start()
        left = itertools.count(len(refs) - 1, -1)

        def arrived(_future: object) -> None:
            # In a thread of the runtime: only notify the pool's own thread.
            if next(left) == 0:
                self._events.put(call)

        if not refs:
            self._events.put(call)
        for ref in refs:
            ref.future().add_done_callback(arrived)

    def _serve(self) -> None:
        while (event := self._events.get()) is not None:
            event()
            with self._lock:
                self._pending -= 1
                self._idle.notify_all()

    def join(self) -> None:
        """Wait until every callback has run, and end the thread."""
        if self._thread is None or threading.current_thread() is self._thread:
            return
        with self._lock:
            self._idle.wait_for(lambda: not self._pending)
        self.stop()

    def stop(self) -> None:
        """End the thread after what has arrived."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._events.put(None)


class AsyncResult(Generic[T]):
    """The result of one `*_async` call.

    Args:
        pool: Held as long as the result: the pool's work must not end when the program drops the pool.
        refs: Of the chunks, in order.
        whole: Of each chunk, whether its value is a list of results.
        single: The result is one value, not a list.
        callback: Called with the result, in the pool's thread for callbacks.
        error_callback: Called with the exception instead.
    """

    def __init__(
        self,
        pool: Pool,
        refs: list[ObjectRef[object]],
        whole: list[bool],
        *,
        single: bool = False,
        callback: Callable[[T], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
    ) -> None:
        self._pool = pool
        self._refs = refs
        self._whole = whole
        self._single = single
        self._callback = callback
        self._error_callback = error_callback
        self._values: list[object] | None = None
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        # A caller that has the result may rely on the effects of its callback.
        self._called: threading.Event | None = None
        if callback is not None or error_callback is not None:
            self._called = threading.Event()
            pool._callbacks.when_done(refs, self._call_back)

    def _call_back(self) -> None:
        try:
            self._collect()
            if self._error is None:
                if self._callback is not None:
                    self._callback(self._value())
            elif self._error_callback is not None:
                self._error_callback(PoolTaskError(self._error))
        except Exception:
            # A callback of the user must not end the thread that serves the whole pool.
            logger.exception("A callback given to a Pool raised")
        finally:
            assert self._called is not None
            self._called.set()

    def _collect(self) -> None:
        with self._lock:
            if self._values is None:
                values = read(self._refs, self._whole)
                # The error of the first item counts, whichever chunk failed first.
                failed = next((value for value in values if isinstance(value, Failure)), None)
                self._error = None if failed is None else failed.exception()
                self._values = values
                self._refs = []

    def _value(self) -> T:
        assert self._values is not None
        return cast(T, self._values[0] if self._single else list(self._values))

    def get(self, timeout: float | None = None) -> T:
        """Give the result, waiting for it.

        Args:
            timeout: Seconds to wait; None waits for ever.

        Raises:
            multiprocessing.TimeoutError: It was not there in time.
            Exception: Whatever the call raised.
        """
        if timeout is not None or self._called is not None:
            self.wait(timeout)
            if not self.ready():
                raise TimeoutError(f"The result was not there within {timeout} s.")
        self._collect()
        if self._error is not None:
            raise self._error
        return self._value()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the result is there, or the time is over."""
        if self._called is not None:
            self._called.wait(timeout)
        elif refs := self._refs:
            sundog.wait(
                list(refs), num_returns=len(refs), timeout=None if timeout is None else max(0, timeout)
            )

    def ready(self) -> bool:
        """Whether the result, or an error, is there."""
        if self._called is not None:
            return self._called.is_set()
        refs = self._refs
        return not refs or len(sundog.wait(list(refs), num_returns=len(refs), timeout=0)[0]) == len(refs)

    def successful(self) -> bool:
        """Whether it came without an error.

        Raises:
            ValueError: It is not there yet.
        """
        if not self.ready():
            raise ValueError(f"{self!r} not ready")
        self._collect()
        return self._error is None


class IMapIterator(Generic[T]):
    """Results of `imap` and `imap_unordered`, one at a time.

    Args:
        pool: Held while the iterator is.
        crew: The workers that run the chunks.
        submit: Submits up to so many chunks: of each its ref, and whether its value is a list. Fewer: the items ended.
        ordered: Give results in the order of the items.
    """

    def __init__(
        self,
        pool: object,
        crew: PoolCrew,
        submit: Callable[[int], list[tuple[ObjectRef[object], bool]]],
        ordered: bool,
    ) -> None:
        self._pool = pool
        self._crew = crew
        self._submit = submit
        self._ordered = ordered
        self._least = self._window = 2 * crew.size
        self._taking = threading.Lock()  # held while results are read
        # Held while items are read: the reader and Pool.close() may both want to submit.
        self._reading = threading.Lock()
        self._submitted: deque[tuple[ObjectRef[object], bool]] = deque()
        self._waited: dict[
            bytes, tuple[ObjectRef[object], bool]
        ] = {}  # the reader's own: those that it waits for
        self._values: deque[object] = deque()
        self._exhausted = False
        self._given = 0  # chunks
        self._took_at = time.monotonic()
        self._fill(self._window)

    def _fill(self, most: int) -> None:
        """Submit chunks until this many are under way."""
        with self._reading:
            missing = most - len(self._waited) - len(self._submitted)
            if missing > 0 and not self._exhausted:
                made = self._submit(missing)
                self._exhausted = len(made) < missing
                self._submitted.extend(made)

    def submit_all(self) -> None:
        """Submit all that is left of the items."""
        with self._reading:
            while not self._exhausted:
                made = self._submit(_AHEAD_MAX)
                self._exhausted = len(made) < _AHEAD_MAX
                self._submitted.extend(made)

    def _take(self, timeout: float | None) -> None:
        """Read the results that are there, after the first of them has come. Only with `_taking` held."""
        waited = self._waited
        while self._submitted:
            made = self._submitted.popleft()
            waited[made[0].binary()] = made
        if not waited:
            self._fill(self._window)
            if not self._submitted:
                raise StopIteration
            return
        ready = self._crew.ready(list(waited), timeout, in_order=self._ordered)
        if not ready:
            raise TimeoutError(f"No result within {timeout} s.")
        taken = [waited.pop(oid) for oid in ready]
        self._values.extend(read([ref for ref, _ in taken], [is_list for _, is_list in taken]))
        self._refill(len(ready))

    def _refill(self, taken: int) -> None:
        now = time.monotonic()
        pace = taken * _AHEAD_S / max(now - self._took_at, 1e-6)
        self._took_at = now
        # At most as many as were given to the user: after ten results, thousands of items have not been read.
        self._window = int(max(self._least, min(pace, self._given, _AHEAD_MAX)))
        self._given += taken  # when the next are read
        if self._window - len(self._waited) - len(self._submitted) >= self._window // 4:
            self._fill(self._window)

    def next(self, timeout: float | None = None) -> T:
        """Give the next result.

        Args:
            timeout: Seconds to wait; None waits for ever.

        Raises:
            StopIteration: All were given.
            multiprocessing.TimeoutError: It was not there in time.

        An item on which the call raised is given as a `PoolTaskError`, as in Ray, and the iteration continues.
        """
        while True:
            try:
                value = self._values.popleft()
                break
            except IndexError:
                pass
            if not self._taking.acquire(timeout=-1 if timeout is None else max(0, timeout)):
                raise TimeoutError(f"No result within {timeout} s.")
            try:
                if not self._values:
                    self._take(timeout)
            finally:
                self._taking.release()
        return cast(T, PoolTaskError(value.exception()) if type(value) is Failure else value)

    def __next__(self) -> T:
        return self.next()

    def __iter__(self) -> Iterator[T]:
        return self
