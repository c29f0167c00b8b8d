"""The half of `sundog.util.iter` that runs where it is read: lazy chains over one stream.

Owns `LocalIterator`. A chain is a function that makes the stream and a list of functions that wrap
it, so it travels by pickle until it is read; from then on it belongs to one thread. A stream built
with a timeout yields `_NextValueNotReady` when it would block longer, which unions rely on: every
wrapper here passes it through.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import sundog
from sundog.util.iter_metrics import MetricsContext, SharedMetrics

if TYPE_CHECKING:
    from sundog.refs import ObjectRef

T = TypeVar("T")
U = TypeVar("U")
# Items of a chain: each step may change their type, and steps are kept in lists.
Stream = Iterator[Any]
Wrapper = Callable[[Stream], Stream]

# A union that finds nothing ready in a whole round waits this long, doubling up to the maximum.
_IDLE_WAIT_S = 0.0005
_IDLE_WAIT_MAX_S = 0.02


class _NextValueNotReady(Exception):
    """Stands in a stream for an item that is not there yet. Never raised by this module."""


class LocalIterator(Generic[T]):
    """A lazy stream over one shard, or over several that were gathered.

    Made by `ParallelIterator.gather_sync()`, `get_shard()` and the like, not by hand. Can be passed to
    tasks and actors as long as its reading has not begun; is read by one process at a time.
    """

    # A function given to for_each() may have this method: it is called before each item is fetched.
    ON_FETCH_START_HOOK_NAME = "_on_fetch_start"

    thread_local = threading.local()

    def __init__(
        self,
        base_iterator: Callable[[float | None], Iterable[object]],
        shared_metrics: SharedMetrics,
        local_transforms: list[Wrapper] | None = None,
        timeout: float | None = None,
        name: str | None = None,
    ) -> None:
        self.base_iterator = base_iterator
        self.shared_metrics = shared_metrics
        self.local_transforms = local_transforms or []
        self.timeout = timeout
        self.name = name or "unknown"
        self.built_iterator: Stream | None = None

    @staticmethod
    def get_metrics() -> MetricsContext:
        """Give the metrics of the chain whose function is being called.

        Raises:
            ValueError: Called from outside of such a function.
        """
        metrics = getattr(LocalIterator.thread_local, "metrics", None)
        if not isinstance(metrics, MetricsContext):
            raise ValueError("Iterator metrics exist only inside functions that an iterator calls.")
        return metrics

    @contextmanager
    def _metrics_context(self) -> Iterator[None]:
        LocalIterator.thread_local.metrics = self.shared_metrics.get()
        yield

    def _built(self) -> Stream:
        if self.built_iterator is None:
            stream = iter(self.base_iterator(self.timeout))
            for wrap in self.local_transforms:
                stream = wrap(stream)
            self.built_iterator = stream
        return self.built_iterator

    def __iter__(self) -> Iterator[T]:
        return self._built()

    def __next__(self) -> T:
        item: T = next(self._built())
        return item

    def __repr__(self) -> str:
        return f"LocalIterator[{self.name}]"

    def _then(self, wrap: Wrapper, step: str) -> LocalIterator[U]:
        return LocalIterator(
            self.base_iterator,
            self.shared_metrics,
            [*self.local_transforms, wrap],
            timeout=self.timeout,
            name=self.name + step,
        )

    def transform(self, fn: Callable[[Iterable[T]], Iterable[U]]) -> LocalIterator[U]:
        """Replace the stream by `fn(stream)`."""

        def wrap(stream: Stream) -> Stream:
            yield from fn(stream)

        return self._then(wrap, ".transform()")

    def for_each(
        self, fn: Callable[[T], U], max_concurrency: int = 1, resources: dict[str, object] | None = None
    ) -> LocalIterator[U]:
        """Call `fn` on every item.

        Args:
            fn: The function.
            max_concurrency: 1 calls it here, in order. More calls it in that many tasks at a time (0 sets
                no limit), and results come as they are finished.
            resources: Options of those tasks, e.g. `{"num_cpus": 2}`.
        """
        if max_concurrency == 1:
            wrap = self._calling(fn)
        else:
            wrap = _calling_in_tasks(fn, max_concurrency, resources or {})
        hook = getattr(fn, LocalIterator.ON_FETCH_START_HOOK_NAME, None)
        if hook is not None:
            wrap = self._announcing(wrap, hook)
        return self._then(wrap, ".for_each()")

    def _calling(self, fn: Callable[[T], object]) -> Wrapper:
        def wrap(stream: Stream) -> Stream:
            for item in stream:
                if isinstance(item, _NextValueNotReady):
                    yield item
                    continue
                while True:
                    with self._metrics_context():
                        result = fn(item)
                    yield result
                    # A function may return "not yet" itself; then it is called again for the same item.
                    if not isinstance(result, _NextValueNotReady):
                        break

        return wrap

    def _announcing(self, inner: Wrapper, hook: Callable[[], None]) -> Wrapper:
        def wrap(stream: Stream) -> Stream:
            items = inner(stream)
            announced = False
            while True:
                if not announced:
                    with self._metrics_context():
                        hook()
                    announced = True
                try:
                    item = next(items)
                except StopIteration:
                    return
                if not isinstance(item, _NextValueNotReady):
                    announced = False
                yield item

        return wrap

    def filter(self, fn: Callable[[T], bool]) -> LocalIterator[T]:
        """Keep the items for which `fn` is true."""

        def wrap(stream: Stream) -> Stream:
            for item in stream:
                with self._metrics_context():
                    keep = isinstance(item, _NextValueNotReady) or fn(item)
                if keep:
                    yield item

        return self._then(wrap, ".filter()")

    def batch(self, n: int) -> LocalIterator[list[T]]:
        """Put `n` items at a time into a list; the last one may be shorter."""

        def wrap(stream: Stream) -> Stream:
            batch: list[object] = []
            for item in stream:
                if isinstance(item, _NextValueNotReady):
                    yield item
                    continue
                batch.append(item)
                if len(batch) >= n:
                    yield batch
                    batch = []
            if batch:
                yield batch

        return self._then(wrap, f".batch({n})")

    def flatten(self) -> LocalIterator[Any]:
        """Yield what is inside each item."""

        def wrap(stream: Stream) -> Stream:
            for item in stream:
                if isinstance(item, _NextValueNotReady):
                    yield item
                else:
                    yield from item

        return self._then(wrap, ".flatten()")

    def shuffle(self, shuffle_buffer_size: int, seed: int | None = None) -> LocalIterator[T]:
        """Mix the order within a buffer of that many items.

        Args:
            shuffle_buffer_size: How many items are held back to choose from.
            seed: The same seed gives the same order.
        """

        def wrap(stream: Iterator[object]) -> Stream:
            chance = random.Random(seed)
            held: list[object] = []
            for item in stream:
                if isinstance(item, _NextValueNotReady):
                    yield item
                    continue
                held.append(item)
                if len(held) >= shuffle_buffer_size:
                    yield held.pop(chance.randrange(len(held)))
            chance.shuffle(held)
            yield from held

        return self._then(wrap, f".shuffle(shuffle_buffer_size={shuffle_buffer_size}, seed={seed})")

    def combine(self, fn: Callable[[T], list[U]]) -> LocalIterator[U]:
        """Call `fn` on every item and yield what is inside each list it returns."""
        combined: LocalIterator[U] = self.for_each(fn).flatten()
        combined.name = self.name + ".combine()"
        return combined

    def zip_with_source_actor(self) -> LocalIterator[tuple[Any, T]]:
        """Yield `(actor, item)`: where each item came from."""

        def wrap(stream: Iterator[object]) -> Stream:
            for item in stream:
                if isinstance(item, _NextValueNotReady):
                    yield item
                else:
                    yield self.shared_metrics.get().current_actor, item

        return self._then(wrap, ".zip_with_source_actor()")

    def take(self, n: int) -> list[T]:
        """Give a list of up to `n` items."""
        taken: list[T] = []
        if n > 0:
            for item in self:
                taken.append(item)
                if len(taken) >= n:
                    break
        return taken

    def show(self, n: int = 20) -> None:
        """Print up to `n` items."""
        for item in self.take(n):
            print(item)

    def duplicate(self, n: int) -> list[LocalIterator[T]]:
        """Give `n` iterators that each yield all the items. An item is kept until all iterators have read it.

        In a union that takes the items that are ready, a copy that is ahead waits for slower copies that are read.

        Raises:
            ValueError: `n` is below 2.
        """
        if n < 2:
            raise ValueError(f"duplicate() makes at least 2 copies, got {n}")
        waiting: list[deque[object]] = [deque() for _ in range(n)]
        read = [0] * n  # how many items each copy has given

        def fetch() -> None:
            item = next(self)
            late = isinstance(item, _NextValueNotReady)
            for one in waiting:
                # A copy whose turn it is waits for a late item. Otherwise the next copy would overtake it.
                if not (late and one and isinstance(one[-1], _NextValueNotReady)):
                    one.append(item)

        def make(number: int) -> Callable[[float | None], Stream]:
            own = waiting[number]

            def base(timeout: float | None = None) -> Stream:
                # All copies pull from one stream, so it has to be built as the reader asks for it.
                if self.built_iterator is None:
                    self.timeout = timeout
                behind = -1  # the position of the slowest copy, when this copy last let it go first
                while True:
                    slowest = min(read)
                    if timeout == 0 and read[number] > slowest != behind:
                        behind = slowest
                        yield _NextValueNotReady()
                        continue
                    if not own:
                        try:
                            fetch()
                        except StopIteration:
                            return
                    item = own.popleft()
                    read[number] += not isinstance(item, _NextValueNotReady)
                    yield item

            return base

        return [
            LocalIterator(make(i), self.shared_metrics, name=f"{self.name}.duplicate[{i}]") for i in range(n)
        ]

    def union(
        self,
        *others: LocalIterator[T],
        deterministic: bool = False,
        round_robin_weights: list[object] | None = None,
    ) -> LocalIterator[T]:
        """Merge this stream with others.

        Args:
            *others: The other streams.
            deterministic: True takes strictly in turn. False takes what is ready.
            round_robin_weights: How many items to take from each per round, e.g. `[2, 1]`; "*" takes all
                that is ready, without waiting. Fractions are met on average. Overrides `deterministic`.

        Raises:
            ValueError: Something given is not a LocalIterator, or the weights do not match in number.
        """
        for other in others:
            if not isinstance(other, LocalIterator):
                raise ValueError(f"union() takes LocalIterators, not {type(other).__name__}.")
        parents: list[LocalIterator[T]] = [self, *others]
        if round_robin_weights and len(round_robin_weights) != len(parents):
            raise ValueError(
                f"Length of round robin weights must equal the number of iterators, {len(parents)}; "
                f"got {len(round_robin_weights)}."
            )
        metrics = SharedMetrics(parents=[parent.shared_metrics for parent in parents])
        weights = round_robin_weights or [1] * len(parents)
        blocking = deterministic or bool(round_robin_weights)

        def base(timeout: float | None = None) -> Stream:
            turns = []
            for parent, weight in zip(parents, weights, strict=True):
                wait_s = timeout if blocking and weight != "*" else 0
                source: LocalIterator[object] = LocalIterator(
                    parent.base_iterator, metrics, parent.local_transforms, timeout=wait_s
                )
                turns.append((iter(source), weight))
            return _take_turns(turns, timeout)

        inside = ", ".join(map(str, parents))
        return LocalIterator(base, metrics, [], name=f"LocalUnion[{inside}]")


def _calling_in_tasks(fn: Callable[[T], U], limit: int, options: dict[str, Any]) -> Wrapper:
    def wrap(stream: Stream) -> Stream:
        task = sundog.remote(fn)
        if options:
            task = task.options(**options)
        running: list[ObjectRef[U]] = []
        for item in stream:
            if isinstance(item, _NextValueNotReady):
                yield item
                continue
            if limit and len(running) >= limit:
                done, running = sundog.wait(running)
                yield from sundog.get(done)
            running.append(task.remote(item))
        while running:
            done, running = sundog.wait(running)
            yield from sundog.get(done)

    return wrap


def _turns_of(weight: object) -> float:
    if not isinstance(weight, int | float):  # "*"
        return float("inf")
    whole = int(weight)
    # A weight of 1.3 takes two items in three rounds of ten.
    return whole + (1 if random.random() < weight - whole else 0)


def _take_turns(turns: list[tuple[Stream, object]], timeout: float | None) -> Stream:
    """Merge streams: per round, so many items from each, skipping those that are not ready."""
    idle_s = _IDLE_WAIT_S
    while turns:
        progressed = False
        for turn in list(turns):
            source, weight = turn
            left = _turns_of(weight)
            while left > 0:
                try:
                    item = next(source)
                except StopIteration:
                    turns.remove(turn)
                    progressed = True
                    break
                if isinstance(item, _NextValueNotReady):
                    break
                progressed = True
                left -= 1
                yield item
        if progressed:
            idle_s = _IDLE_WAIT_S
        elif timeout is not None:
            yield _NextValueNotReady()
        else:
            time.sleep(idle_s)
            idle_s = min(2 * idle_s, _IDLE_WAIT_MAX_S)
