"""`Pool`: the interface of `multiprocessing.Pool`, over the machines of a session.

Owns the shape of the calls: chunking, argument styles, open and closed. Each chunk is a task of the pool's own workers
(`crew.py`), read by the thread that wants its result (`results.py`). Any thread may use a pool.
"""

from __future__ import annotations

import itertools
import logging
import weakref
from collections.abc import Callable, Iterable, Sized
from typing import TypeVar, cast

import sundog
from sundog import config, init_options
from sundog.refs import ObjectRef
from sundog.util.debug import log_once
from sundog.util.multiprocessing.crew import PoolCrew
from sundog.util.multiprocessing.results import AsyncResult, Callbacks, IMapIterator, PoolTaskError

__tracebackhide__ = True  # pytest folds the frames of this file

__all__ = ["AsyncResult", "IMapIterator", "Pool", "PoolTaskError"]

S = TypeVar("S")
T = TypeVar("T")

logger = logging.getLogger(__name__)

# As in the standard library: about four chunks per process even out differences between items.
CHUNKS_PER_PROCESS = 4


class Pool:
    """A pool of processes: workers of the session, held by the pool until it ends.

    Args:
        processes: How many; by default one per CPU of the session.
        initializer: Called once in each process before its first call.
        initargs: Its arguments.
        maxtasksperchild: After this many chunks a process is replaced by a fresh one.
        context: Accepted for compatibility, without effect.
        ray_address: The session to join when there is none yet.
        ray_remote_args: Options of the processes, e.g. `{"num_cpus": 1}`; by default they reserve nothing.

    Raises:
        ValueError: `processes` is not positive, or more than the session has CPUs.

    Example:
        >>> with Pool(2) as pool:  # doctest: +SKIP
        ...     pool.map(abs, [-1, 2, -3])
        [1, 2, 3]
    """

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[object] | None = None,
        maxtasksperchild: int | None = None,
        context: object = None,
        ray_address: str | None = None,
        ray_remote_args: dict[str, object] | None = None,
    ) -> None:
        if context is not None and log_once("pool_context"):
            logger.warning("Pool(context=...) has no effect: its processes are workers of the session.")
        if maxtasksperchild is not None and maxtasksperchild <= 0:
            raise ValueError(f"maxtasksperchild must be a positive int or None, got {maxtasksperchild}")
        self._closed = False
        self._unread: weakref.WeakSet[IMapIterator[object]] = weakref.WeakSet()
        count = _process_count(processes, ray_address)
        self._crew = PoolCrew(
            count, initializer, tuple(initargs or ()), maxtasksperchild, dict(ray_remote_args or {})
        )
        self._callbacks = Callbacks()
        # A pool without references ends its running chunks; results keep their pool alive. At the end of the
        # program the session ends anyway.
        self._finalizer = weakref.finalize(self, _abandon, self._crew, self._callbacks)
        self._finalizer.atexit = False

    def apply(
        self,
        func: Callable[..., T],
        args: Iterable[object] | None = None,
        kwargs: dict[str, object] | None = None,
    ) -> T:
        """Call `func(*args, **kwargs)` in a process and give its result."""
        return self.apply_async(func, args, kwargs).get()

    def apply_async(
        self,
        func: Callable[..., T],
        args: Iterable[object] | None = None,
        kwargs: dict[str, object] | None = None,
        callback: Callable[[T], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
    ) -> AsyncResult[T]:
        """Like `apply`, without waiting.

        Args:
            func: The function.
            args: Its positional arguments.
            kwargs: Its keyword arguments.
            callback: Called with the result, in a thread of the pool.
            error_callback: Called with the exception instead.
        """
        self._check_running()
        given, named = tuple(args or ()), dict(kwargs or {})
        if any(type(each) is ObjectRef for each in (*given, *named.values())):
            ref = self._crew.known(func, "apply").remote(
                (given, named)
            )  # the function is given the ref itself
        else:
            ref = self._crew.known(func, "call").remote(*given, **named)
        return AsyncResult(
            self, [ref], [False], single=True, callback=callback, error_callback=error_callback
        )

    def map(self, func: Callable[[S], T], iterable: Iterable[S], chunksize: int | None = None) -> list[T]:
        """Call `func` on every item and give the list of results, in order.

        Args:
            func: The function.
            iterable: Its arguments, one per call.
            chunksize: How many calls travel together.
        """
        return list(self._map(func, iterable, chunksize, "map").get())

    def map_async(
        self,
        func: Callable[[S], T],
        iterable: Iterable[S],
        chunksize: int | None = None,
        callback: Callable[[list[T]], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
    ) -> AsyncResult[list[T]]:
        """Like `map`, without waiting. Callbacks as for `apply_async`."""
        return self._map(func, iterable, chunksize, "map", callback, error_callback)

    def starmap(
        self, func: Callable[..., T], iterable: Iterable[Iterable[object]], chunksize: int | None = None
    ) -> list[T]:
        """Like `map`, with each item unpacked into arguments."""
        return list(self._map(func, iterable, chunksize, "star").get())

    def starmap_async(
        self,
        func: Callable[..., T],
        iterable: Iterable[Iterable[object]],
        chunksize: int | None = None,
        callback: Callable[[list[T]], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
    ) -> AsyncResult[list[T]]:
        """Like `starmap`, without waiting. Callbacks as for `apply_async`."""
        # Ray's signature has no chunksize here, so a callable in its place is the callback.
        if callable(chunksize):
            callback, error_callback, chunksize = chunksize, callback, None
        return self._map(func, iterable, chunksize, "star", callback, error_callback)

    def _map(
        self,
        func: Callable[..., T],
        iterable: Iterable[object],
        chunksize: int | None,
        style: str,
        callback: Callable[[list[T]], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
    ) -> AsyncResult[list[T]]:
        self._check_running()
        items = list(iterable)
        size = self._chunksize(items, chunksize)
        chunks = [items[start : start + size] for start in range(0, len(items), size)]
        # Pickled once for all chunks: a function may carry much data in its closure.
        run = self._crew.function(func, style)
        refs = [run.remote(calls) for calls in chunks]
        whole = [True] * len(refs)
        return AsyncResult(self, refs, whole, callback=callback, error_callback=error_callback)

    def imap(
        self, func: Callable[[S], T], iterable: Iterable[S], chunksize: int | None = 1
    ) -> IMapIterator[T]:
        """Call `func` on every item; iterate over the results in order, as they arrive.

        Items are read as results are taken, so `iterable` may be endless.
        """
        return self._imap(func, iterable, chunksize, ordered=True)

    def imap_unordered(
        self, func: Callable[[S], T], iterable: Iterable[S], chunksize: int | None = 1
    ) -> IMapIterator[T]:
        """Like `imap`, with each result as soon as it is there."""
        return self._imap(func, iterable, chunksize, ordered=False)

    def _imap(
        self,
        func: Callable[[S], T],
        iterable: Iterable[S],
        chunksize: int | None,
        ordered: bool,
    ) -> IMapIterator[T]:
        self._check_running()
        size = self._chunksize(iterable, chunksize)
        items = iter(iterable)
        run_one, run_many = self._crew.function(func, "call"), self._crew.function(func, "map")

        def submit(count: int) -> list[tuple[ObjectRef[object], bool]]:
            calls: list[object] = list(itertools.islice(items, size * count))
            # A ref among the items is an ordinary item: as the argument of a task it would be replaced by its
            # value.
            if size == 1 and ObjectRef not in {type(each) for each in calls}:
                return [(ref, False) for ref in run_one.remote_each(calls)]
            return [
                (run_many.remote(calls[start : start + size]), True) for start in range(0, len(calls), size)
            ]

        results: IMapIterator[T] = IMapIterator(self, self._crew, submit, ordered)
        self._unread.add(cast("IMapIterator[object]", results))
        return results

    def _chunksize(self, items: Iterable[object], asked: int | None) -> int:
        if asked is not None:
            if asked < 1:
                raise ValueError(f"Chunksize must be 1+, not {asked}")
            return asked
        if not isinstance(items, Sized):
            return 1
        return max(1, -(-len(items) // (self._crew.size * CHUNKS_PER_PROCESS)))

    def _check_running(self) -> None:
        if self._closed:
            raise ValueError("Pool not running")

    def close(self) -> None:
        """Take no more work; the processes go back to the session when what was submitted is done."""
        if not self._closed:
            self._closed = True
            # From here on no thread may wait for the reader: join() comes before the last next().
            for results in list(self._unread):
                results.submit_all()
            self._crew.close()

    def terminate(self) -> None:
        """End what runs now, and wait for that. Results that are not there yet become errors."""
        self._closed = True
        self._finalizer.detach()
        self._crew.terminate()
        self._crew.join()
        self._callbacks.join()

    def join(self) -> None:
        """Wait until everything has ended, callbacks too, and the processes have gone back to the session.

        Raises:
            ValueError: Neither `close()` nor `terminate()` was called before.
        """
        if not self._closed:
            raise ValueError("Pool is still running")
        self._crew.join()
        self._callbacks.join()

    def __enter__(self) -> Pool:
        self._check_running()
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()


def _abandon(crew: PoolCrew, callbacks: Callbacks) -> None:
    crew.abandon()
    callbacks.stop()


def _process_count(processes: int | None, address: str | None) -> int:
    if processes is not None and processes <= 0:
        raise ValueError(f"Processes in the pool must be >0, got {processes}.")
    if not sundog.is_initialized():
        if address is None:
            joins = init_options.session_to_join(None, config.load()) not in (None, "local")
            sundog.init(num_cpus=None if joins else processes)
        elif address == "local":
            sundog.init(address=address, num_cpus=processes)
        else:
            sundog.init(address=address)
    cpus = int(sundog.cluster_resources().get("CPU", 0))
    if processes is None:
        processes = max(1, cpus)
    elif processes > cpus:
        raise ValueError(
            f"Tried to start a pool with {processes} processes, but the session has {cpus} CPUs. "
            "Ask for fewer, or start the session with more: init(num_cpus=...)."
        )
    return processes
