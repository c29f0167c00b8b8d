"""The actors of a pool, and who works on what.

```
 user's threads ──submit(chunk)──► Crew ──run_chunk.remote──► PoolActor × processes
                                    ▲                              │ ref.future() done
 pool's result thread ◄── events ───┴──────────────────────────────┘
   stores results, runs callbacks, hands out the next chunk
```

Owns the actors, the chunks that wait, and one thread that handles everything that arrives. A lock
guards what submitters and that thread share. An actor has at most two chunks: one that runs and one
that waits there, so that it never idles between them and a slow chunk holds up only one other.
"""

from __future__ import annotations

import queue
import threading
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import sundog
from sundog.exceptions import ActorDiedError
from sundog.util.multiprocessing.results import Failure

CHUNKS_PER_ACTOR = 2
# How long the actors of a closed pool may take for their exit handlers.
GRACE_S = 5.0


class Sink(Protocol):
    """Where the results of a chunk go."""

    def chunk_done(self, index: int, values: list[Any]) -> None: ...


@dataclass(slots=True, eq=False)
class Chunk:
    """Some calls of one function. `func` is the function, or a ref to it."""

    sink: Sink
    index: int
    func: Any
    calls: list[Any]
    style: str

    def fail(self, error: BaseException) -> None:
        self.sink.chunk_done(self.index, [Failure(error)])


class PoolActor:
    """One process of a pool."""

    def __init__(self, initializer: Callable[..., Any] | None, initargs: tuple[Any, ...]) -> None:
        if initializer is not None:
            initializer(*initargs)

    def ping(self) -> None:
        """Answer once the initializer is through."""

    def run_chunk(self, func: Callable[..., Any], calls: list[Any], style: str) -> list[Any]:
        """Call `func` for each entry: an argument ("map"), its arguments ("star"), or (args, kwargs)."""
        results: list[Any] = []
        for call in calls:
            try:
                if style == "map":
                    results.append(func(call))
                elif style == "star":
                    results.append(func(*call))
                else:
                    results.append(func(*call[0], **call[1]))
            except Exception as error:
                results.append(Failure(error, traceback.format_exc()))
        return results


@dataclass(slots=True, eq=False)
class _Member:
    """An actor of the crew."""

    handle: Any
    started: int = 0
    running: list[Chunk] = field(default_factory=list)
    dismissed: bool = False
    # The chunk it was running when it died; those behind it had not begun.
    died_on: Chunk | None = None


class Crew:
    """A fixed number of actors that share one queue of chunks."""

    def __init__(
        self,
        size: int,
        initializer: Callable[..., Any] | None,
        initargs: tuple[Any, ...],
        chunks_per_life: int | None,
        actor_options: dict[str, Any],
    ) -> None:
        self._initializer = initializer
        self._initargs = initargs
        self._chunks_per_life = chunks_per_life
        # With one call at a time, a chunk behind another has not begun, and may move to another actor.
        self._in_order = actor_options.get("max_concurrency", 1) in (1, None)
        self._actor_class = sundog.remote(PoolActor).options(**{"num_cpus": 0, **actor_options})
        self._lock = threading.Lock()
        self._waiting: deque[Chunk] = deque()
        self._events: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._members = [self._recruit() for _ in range(size)]
        self._leaving: list[_Member] = []
        self._closing = False
        self._stopped = False
        try:
            # An initializer that fails shows up here, not in the first result.
            sundog.get([member.handle.ping.remote() for member in self._members])
        except BaseException:
            for member in self._members:
                sundog.kill(member.handle)
            raise
        self._thread = threading.Thread(target=self._serve, name="pool-results", daemon=True)
        self._thread.start()

    @property
    def size(self) -> int:
        """How many actors there are."""
        return len(self._members)

    def _recruit(self) -> _Member:
        return _Member(self._actor_class.remote(self._initializer, self._initargs))

    def submit(self, chunk: Chunk) -> None:
        """Run a chunk as soon as an actor is free."""
        with self._lock:
            if not self._stopped:
                self._waiting.append(chunk)
                self._assign()
                return
        chunk.fail(_terminated())

    def _assign(self) -> None:
        """Hand waiting chunks to the actors with least to do. Called with the lock held."""
        while self._waiting:
            free = [member for member in self._members if self._may_take(member)]
            if not free:
                return
            member = min(free, key=lambda candidate: len(candidate.running))
            self._start(member, self._waiting.popleft())

    def _may_take(self, member: _Member) -> bool:
        if member.dismissed or len(member.running) >= CHUNKS_PER_ACTOR:
            return False
        return self._chunks_per_life is None or member.started < self._chunks_per_life

    def _start(self, member: _Member, chunk: Chunk) -> None:
        try:
            ref = member.handle.run_chunk.remote(chunk.func, chunk.calls, chunk.style)
        except Exception as error:
            # Arguments that cannot be pickled fail their own chunk, and no other.
            failure = error
            self._events.put(lambda: chunk.fail(failure))
            return
        member.started += 1
        member.running.append(chunk)
        # The future's callback runs in a thread of the runtime: it only leaves a note for ours.
        ref.future().add_done_callback(
            lambda future: self._events.put(lambda: self._finished(member, chunk, future))
        )

    def _finished(self, member: _Member, chunk: Chunk, future: Any) -> None:
        error = future.exception()
        with self._lock:
            if chunk not in member.running:
                return
            died = isinstance(error, sundog.exceptions.RayActorError)
            if died and member.died_on is None:
                member.died_on = member.running[0]
            moved = died and self._in_order and member.died_on is not chunk
            member.running.remove(chunk)
            if moved:
                self._waiting.appendleft(chunk)
            worn_out = self._chunks_per_life is not None and member.started >= self._chunks_per_life
            if not member.dismissed and (died or (worn_out and not member.running)):
                self._replace(member, died)
            self._assign()
        if moved:
            return
        if error is not None:
            chunk.fail(error)
        else:
            chunk.sink.chunk_done(chunk.index, future.result())

    def _replace(self, member: _Member, died: bool) -> None:
        member.dismissed = True
        if not died:
            member.handle.__ray_terminate__.remote()
        self._members[self._members.index(member)] = self._recruit()
        # Its other chunks are told one by one that it is dead; until then they are nobody else's.
        self._leaving.append(member)

    def _serve(self) -> None:
        while True:
            event = self._events.get()
            if event is None:
                break
            event()
            with self._lock:
                self._leaving = [member for member in self._leaving if member.running]
                busy = self._waiting or self._leaving or any(member.running for member in self._members)
                if self._closing and not busy and self._events.empty():
                    break
        self._stop()

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            members, unfinished = list(self._members), list(self._waiting)
            self._waiting.clear()
            for member in [*members, *self._leaving]:
                unfinished.extend(member.running)
                member.running.clear()
        if sundog.is_initialized():
            if not unfinished:
                ends = [member.handle.__ray_terminate__.remote() for member in members]
                sundog.wait(ends, num_returns=len(ends), timeout=GRACE_S)
            for member in members:
                sundog.kill(member.handle)
        for chunk in unfinished:
            chunk.fail(_terminated())

    def close(self) -> None:
        """Let what was submitted finish, then end the actors."""
        with self._lock:
            self._closing = True
        self._events.put(_nothing)

    def terminate(self) -> None:
        """End the actors now; what has not finished never will."""
        with self._lock:
            self._closing = True
        self._events.put(None)

    def join(self) -> None:
        """Wait until the actors have been ended."""
        if threading.current_thread() is not self._thread:
            self._thread.join()


def _terminated() -> ActorDiedError:
    return ActorDiedError("The Pool was terminated before this was done, so there is no result.")


def _nothing() -> None:
    """Wakes the result thread so that it looks around."""
