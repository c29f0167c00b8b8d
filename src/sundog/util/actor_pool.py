"""A fixed set of actors that takes calls as they become free.

Owns which actor is idle, which call runs where, and what waits. Creates no actor and ends none.
Runs in the caller's thread; one pool belongs to one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import sundog
from sundog.refs import ObjectRef

__tracebackhide__ = True  # pytest folds the frames of this file

_FEW = 4  # up to this many calls, checking again is as quick as remembering

V = TypeVar("V")
Actor = TypeVar("Actor")
Result = TypeVar("Result")
# Makes a call: takes an actor of the pool and a value, returns its ref.
Call = Callable[[Actor, V], ObjectRef[Result]]


@dataclass(slots=True)
class _Running(Generic[Actor]):
    """One call in flight. `refs` holds several refs when the method has several returns."""

    actor: Actor
    refs: list[ObjectRef[object]]
    result: Any

    def ready(self, timeout_s: float | None) -> bool:
        done, _ = sundog.wait(self.refs, num_returns=len(self.refs), timeout=timeout_s)
        return len(done) == len(self.refs)


class ActorPool(Generic[Actor]):
    """Spread calls over existing actors, one call per actor at a time.

    Example:
        >>> import sundog as ray
        >>> @ray.remote
        ... class Doubler:
        ...     def double(self, v):
        ...         return 2 * v
        >>> pool = ActorPool([Doubler.remote(), Doubler.remote()])  # doctest: +SKIP
        >>> list(pool.map(lambda a, v: a.double.remote(v), [1, 2, 3]))  # doctest: +SKIP
        [2, 4, 6]
    """

    def __init__(self, actors: Iterable[Actor]) -> None:
        self._idle: list[Actor] = list(actors)
        # Insertion order is submission order, so the first key is always the oldest call.
        self._running: dict[int, _Running[Actor]] = {}
        self._ready: deque[int] = deque()  # calls that were seen to have ended
        self._waiting: deque[tuple[Call[Actor, Any, object], object]] = deque()
        self._submitted = 0
        self._returned = 0

    def map(self, fn: Call[Actor, V, Result], values: Iterable[V]) -> Iterator[Result]:
        """Call `fn(actor, value)` for every value; iterate over the results in order.

        All values are submitted before this returns. Results of earlier submissions which were not
        fetched are dropped.
        """
        self._drop_unfetched()
        for value in values:
            self.submit(fn, value)
        return self._drain(self.get_next)

    def map_unordered(self, fn: Call[Actor, V, Result], values: Iterable[V]) -> Iterator[Result]:
        """Like `map`, but each result comes as soon as it is there."""
        self._drop_unfetched()
        for value in values:
            self.submit(fn, value)
        return self._drain(self.get_next_unordered)

    def _drain(self, fetch: Callable[[], object]) -> Iterator[Any]:
        while self.has_next():
            yield fetch()

    def submit(self, fn: Call[Actor, V, object], value: V) -> None:
        """Run `fn(actor, value)` on an idle actor now, or as soon as one is free.

        Args:
            fn: Makes the remote call and returns its ref (or list of refs).
            value: Handed to `fn`.
        """
        if not self._idle:
            self._waiting.append((fn, value))
            return
        actor = self._idle.pop()
        try:
            result = fn(actor, value)
        except BaseException:
            self._idle.append(actor)
            raise
        refs = list(result) if isinstance(result, (list, tuple)) else [result]
        self._running[self._submitted] = _Running(actor, refs, result)
        self._submitted += 1

    def has_next(self) -> bool:
        """Whether a result is still to be fetched."""
        return bool(self._running)

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Give the next result in the order of submission.

        Args:
            timeout: Seconds to wait; None waits for ever.
            ignore_if_timedout: When the time is over, give the call up: its result is never
                returned, and its actor takes other work. The TimeoutError is raised all the same.

        Raises:
            StopIteration: Nothing is left to fetch.
            TimeoutError: The result was not there in time.
            ValueError: A later result was already fetched out of order.
        """
        if not self.has_next():
            raise StopIteration("No more results to get")
        index = self._returned
        if index not in self._running:
            raise ValueError(
                f"get_next() cannot give result {index}: get_next_unordered() has already passed it. "
                "Use one of the two for all the results of a pool."
            )
        call = self._running[index]
        if timeout is not None and not call.ready(timeout):
            self._time_out(index, timeout, ignore_if_timedout)
        return self._fetch(index)

    def get_next_unordered(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Give whichever result is there first.

        Args and errors are those of `get_next`; with `ignore_if_timedout`, the call that is given up
        is the oldest one.
        """
        if not self.has_next():
            raise StopIteration("No more results to get")
        while self._ready:
            index = self._ready.popleft()
            if index in self._running:
                return self._fetch(index)
        # The results of a call become ready together, so one ref stands for all.
        refs = [call.refs[-1] for call in self._running.values()]
        done, _ = sundog.wait(refs, num_returns=1, timeout=timeout)
        if not done:
            self._time_out(next(iter(self._running)), timeout, ignore_if_timedout)
        if len(refs) > _FEW:
            # Checking all calls takes time in proportion to the actors: remember the other finished calls for
            # the next questions.
            done, _ = sundog.wait(refs, num_returns=len(refs), timeout=0)
            by_ref = dict(zip(refs, self._running, strict=True))
            self._ready.extend(by_ref[ref] for ref in done[1:])
            return self._fetch(by_ref[done[0]])
        first = done[0]
        return self._fetch(
            next(index for index, ref in zip(self._running, refs, strict=True) if ref is first)
        )

    def _time_out(self, index: int, timeout_s: float | None, ignore: bool) -> None:
        if not ignore:
            raise TimeoutError(f"No result within {timeout_s} s; {len(self._running)} calls are running.")
        ref = self._running[index].result
        self._finish(index)
        raise TimeoutError(f"No result within {timeout_s} s. The call {ref} has been ignored.")

    def _fetch(self, index: int) -> object:
        result = self._running[index].result
        alive = True
        try:
            return sundog.get(list(result) if isinstance(result, tuple) else result)
        except sundog.exceptions.ActorDiedError as error:
            alive = False
            if self._waiting and not self._idle and len(self._running) == 1:
                error.add_note(
                    f"It was the last actor of its ActorPool, where {len(self._waiting)} submitted values "
                    "still wait. Give the pool a live actor with push()."
                )
            raise
        finally:
            self._finish(index, alive)

    def _finish(self, index: int, alive: bool = True) -> None:
        call = self._running.pop(index)
        self._returned = max(self._returned, index + 1)
        self._take_back(call.actor, alive)

    def _take_back(self, actor: Actor, alive: bool = True) -> None:
        if alive:
            self._idle.append(actor)
        if self._waiting and self._idle:
            self.submit(*self._waiting.popleft())

    def _drop_unfetched(self) -> None:
        while self._running:
            self._finish(next(iter(self._running)))

    def has_free(self) -> bool:
        """Whether an actor is idle and nothing waits for it."""
        return bool(self._idle) and not self._waiting

    def pop_idle(self) -> Actor | None:
        """Take an idle actor out of the pool, or None when there is none."""
        return self._idle.pop() if self.has_free() else None

    def push(self, actor: Actor) -> None:
        """Add an actor; it takes waiting work at once.

        Raises:
            ValueError: The actor is in the pool already.
        """
        if actor in self._idle or any(call.actor == actor for call in self._running.values()):
            raise ValueError(f"{actor} already belongs to this ActorPool.")
        self._take_back(actor)
