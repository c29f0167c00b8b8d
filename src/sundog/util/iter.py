"""Parallel iterators: one actor per shard, transformed where the data is.

```
 reader                                    one actor per shard
 gather_sync / gather_async / get_shard ──par_iter_next(_batch)──► ParallelIteratorWorker
        ▲ items, and the marker of the end ◄──────────────────────  item source → transforms
```

Owns `ParallelIterator`, the actor class, and the calls between them. What happens to a stream on
the reader's side is in `iter_local.py`. Refuses to be iterated over directly: the reader has to say
how shards are merged.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import sundog
from sundog.util.iter_local import LocalIterator, Stream, _NextValueNotReady
from sundog.util.iter_metrics import SharedMetrics

if TYPE_CHECKING:
    from sundog.actor import ActorHandle
    from sundog.refs import ObjectRef

    Shard = ActorHandle["ParallelIteratorWorker"]

T = TypeVar("T")
U = TypeVar("U")
Transform = Callable[[LocalIterator[Any]], LocalIterator[Any]]


class _ShardEnd:
    """Says, as the last item of a reply, that the shard has nothing more."""


def from_items(items: Sequence[T], num_shards: int = 2, repeat: bool = False) -> ParallelIterator[T]:
    """Deal objects out to shards, one to each in turn.

    Args:
        items: The objects.
        num_shards: How many actors to make.
        repeat: Start again for ever when a shard is at its end.
    """
    shards = [list(items[start::num_shards]) for start in range(num_shards)]
    kind = type(items[0]).__name__ if items else "None"
    name = f"from_items[{kind}, {len(items)}, shards={num_shards}{_repeat_label(repeat)}]"
    return from_iterators(shards, repeat=repeat, name=name)


def from_range(n: int, num_shards: int = 2, repeat: bool = False) -> ParallelIterator[int]:
    """Cut the numbers from 0 to `n` (without it) into consecutive shards.

    Args:
        n: The end of the range.
        num_shards: How many actors to make; the last one takes the remainder.
        repeat: Start again for ever when a shard is at its end.
    """
    size = n // num_shards
    starts = [shard * size for shard in range(num_shards)] + [n]
    shards = [range(starts[shard], starts[shard + 1]) for shard in range(num_shards)]
    return from_iterators(
        shards, repeat=repeat, name=f"from_range[{n}, shards={num_shards}{_repeat_label(repeat)}]"
    )


def from_iterators(
    generators: Sequence[Iterable[T] | Callable[[], Iterable[T]]],
    repeat: bool = False,
    name: str | None = None,
) -> ParallelIterator[T]:
    """Make a shard of each iterable.

    Args:
        generators: Iterables, or functions that return one (a generator cannot be pickled, a function that
            makes it can).
        repeat: Start again for ever when a shard is at its end.
        name: For `repr`.
    """
    worker_class = sundog.remote(ParallelIteratorWorker)
    actors = [worker_class.remote(source, repeat) for source in generators]
    return from_actors(actors, name or f"from_iterators[shards={len(actors)}{_repeat_label(repeat)}]")


def from_actors(actors: Sequence[Shard], name: str | None = None) -> ParallelIterator[Any]:
    """Make a shard of each actor; their classes must be subclasses of `ParallelIteratorWorker`."""
    return ParallelIterator([_ActorSet(list(actors), [])], name or f"from_actors[shards={len(actors)}]", [])


def _repeat_label(repeat: bool) -> str:
    return ", repeat=True" if repeat else ""


class _ActorSet:
    """Actors with the transforms they apply; a union has several sets."""

    def __init__(self, actors: list[Shard], transforms: list[Transform]) -> None:
        self.actors = actors
        self.transforms = transforms

    def init_actors(self) -> None:
        sundog.get([actor.par_iter_init.remote(self.transforms) for actor in self.actors])

    def with_transform(self, transform: Transform) -> _ActorSet:
        return _ActorSet(self.actors, [*self.transforms, transform])


class ParallelIterator(Generic[T]):
    """A lazy stream in shards. Transforms run in the shards' actors; gathering brings items here.

    Example:
        >>> from_range(4, num_shards=2).for_each(lambda x: 2 * x).take(4)  # doctest: +SKIP
        [0, 4, 2, 6]
    """

    def __init__(
        self, actor_sets: list[_ActorSet], name: str, parent_iterators: list[ParallelIterator[Any]]
    ) -> None:
        self.actor_sets = actor_sets
        self.name = name
        # Held so that the actors a repartition reads from do not go out of scope.
        self.parent_iterators = parent_iterators

    def __iter__(self) -> Iterator[T]:
        raise TypeError(
            f"{self!r} is in shards: say how to merge them with gather_sync() or gather_async(), "
            "or take one with get_shard()."
        )

    def __repr__(self) -> str:
        return f"ParallelIterator[{self.name}]"

    def _with_transform(self, transform: Transform, step: str) -> ParallelIterator[U]:
        sets = [actor_set.with_transform(transform) for actor_set in self.actor_sets]
        return ParallelIterator(sets, self.name + step, self.parent_iterators)

    def transform(self, fn: Callable[[Iterable[T]], Iterable[U]]) -> ParallelIterator[U]:
        """Replace each shard's stream by `fn(stream)`."""
        return self._with_transform(lambda it: it.transform(fn), ".transform()")

    def for_each(
        self, fn: Callable[[T], U], max_concurrency: int = 1, resources: dict[str, object] | None = None
    ) -> ParallelIterator[U]:
        """Call `fn` on every item, in its shard.

        Args:
            fn: The function.
            max_concurrency: More than 1 lets each shard use that many tasks (0 sets no limit); the order
                of results is then open.
            resources: Options of those tasks.
        """
        if max_concurrency < 0:
            raise AssertionError(f"max_concurrency must be non-negative, got {max_concurrency}")
        return self._with_transform(lambda it: it.for_each(fn, max_concurrency, resources), ".for_each()")

    def filter(self, fn: Callable[[T], bool]) -> ParallelIterator[T]:
        """Keep the items for which `fn` is true."""
        return self._with_transform(lambda it: it.filter(fn), ".filter()")

    def batch(self, n: int) -> ParallelIterator[list[T]]:
        """Put `n` items of a shard at a time into a list."""
        return self._with_transform(lambda it: it.batch(n), f".batch({n})")

    def flatten(self) -> ParallelIterator[Any]:
        """Yield what is inside each item."""
        return self._with_transform(lambda it: it.flatten(), ".flatten()")

    def combine(self, fn: Callable[[T], list[U]]) -> ParallelIterator[U]:
        """Call `fn` on every item and yield what is inside each list it returns."""
        combined: ParallelIterator[U] = self.for_each(fn).flatten()
        combined.name = self.name + ".combine()"
        return combined

    def local_shuffle(self, shuffle_buffer_size: int, seed: int | None = None) -> ParallelIterator[T]:
        """Mix the order within each shard, choosing among `shuffle_buffer_size` items at a time."""
        return self._with_transform(
            lambda it: it.shuffle(shuffle_buffer_size, seed),
            f".local_shuffle(shuffle_buffer_size={shuffle_buffer_size}, seed={seed})",
        )

    def repartition(self, num_partitions: int, batch_ms: int = 0) -> ParallelIterator[T]:
        """Deal the items of all shards out to `num_partitions` new ones.

        Args:
            num_partitions: How many new shards.
            batch_ms: Milliseconds a shard may collect items before it answers; 0 sends each at once.
        """
        actors = []
        for actor_set in self.actor_sets:
            actor_set.init_actors()
            actors.extend(actor_set.actors)
        sources = [
            partial(_partition, actors, num_partitions, start, batch_ms) for start in range(num_partitions)
        ]
        worker_class = sundog.remote(ParallelIteratorWorker)
        made = [worker_class.remote(source, False) for source in sources]
        name = self.name + f".repartition[num_partitions={num_partitions}]"
        return ParallelIterator([_ActorSet(made, [])], name, [self])

    def gather_sync(self) -> LocalIterator[T]:
        """Merge the shards, one item of each in turn."""
        merged: LocalIterator[T] = self.batch_across_shards().flatten()
        merged.name = f"{self}.gather_sync()"
        return merged

    def batch_across_shards(self) -> LocalIterator[list[T]]:
        """Give lists of one item from each shard that has one left."""
        return LocalIterator(
            partial(_rounds, self.actor_sets), SharedMetrics(), name=f"{self}.batch_across_shards()"
        )

    def gather_async(self, batch_ms: int = 0, num_async: int = 1) -> LocalIterator[T]:
        """Merge the shards, whichever item is ready first.

        Args:
            batch_ms: Milliseconds a shard may collect items before it answers; 0 sends each at once.
            num_async: Requests outstanding per shard.

        Raises:
            ValueError: `num_async` is below 1 or `batch_ms` negative.
        """
        _check_depth(batch_ms, num_async)
        metrics = SharedMetrics()
        return LocalIterator(
            partial(_as_ready, self.actor_sets, batch_ms, num_async, metrics),
            metrics,
            name=f"{self}.gather_async()",
        )

    def take(self, n: int) -> list[T]:
        """Give a list of up to `n` items, taken from the shards in turn."""
        return self.gather_sync().take(n)

    def show(self, n: int = 20) -> None:
        """Print up to `n` items, taken from the shards in turn."""
        self.gather_sync().show(n)

    def union(self, other: ParallelIterator[T]) -> ParallelIterator[T]:
        """Put the shards of both side by side.

        Raises:
            TypeError: `other` is not a ParallelIterator.
        """
        if not isinstance(other, ParallelIterator):
            raise TypeError(f"union() takes a ParallelIterator, not {type(other).__name__}.")
        return ParallelIterator(
            [*self.actor_sets, *other.actor_sets],
            f"ParallelUnion[{self}, {other}]",
            [*self.parent_iterators, *other.parent_iterators],
        )

    def select_shards(self, shards_to_keep: Sequence[int]) -> ParallelIterator[T]:
        """Keep only these shards, by index. Iterators that share a shard would share its items.

        Raises:
            ValueError: None is selected, one does not exist, or this is a union.
        """
        if len(self.actor_sets) > 1:
            raise ValueError("A union has shards of several iterators: call select_shards() before union().")
        if not shards_to_keep:
            raise ValueError("select_shards() needs the index of one shard or more.")
        whole = self.actor_sets[0]
        wrong = sorted(index for index in shards_to_keep if not 0 <= index < len(whole.actors))
        if wrong:
            raise ValueError(f"There is no shard {wrong[0]}: {self!r} has 0 to {len(whole.actors) - 1}.")
        kept = [actor for index, actor in enumerate(whole.actors) if index in shards_to_keep]
        return ParallelIterator(
            [_ActorSet(kept, whole.transforms)],
            f"{self}.select_shards({len(shards_to_keep)} total)",
            self.parent_iterators,
        )

    def num_shards(self) -> int:
        """How many shards there are."""
        return sum(len(actor_set.actors) for actor_set in self.actor_sets)

    def shards(self) -> list[LocalIterator[T]]:
        """Give an iterator for each shard."""
        return [self.get_shard(index) for index in range(self.num_shards())]

    def get_shard(self, shard_index: int, batch_ms: int = 0, num_async: int = 1) -> LocalIterator[T]:
        """Give an iterator over one shard; it may be passed to a task or actor and read there.

        Args:
            shard_index: Which one.
            batch_ms: Milliseconds the shard may collect items before it answers; 0 sends each at once.
            num_async: Requests outstanding.

        Raises:
            ValueError: There is no such shard, `num_async` is below 1 or `batch_ms` negative.
        """
        _check_depth(batch_ms, num_async)
        index = shard_index
        for actor_set in self.actor_sets:
            if 0 <= index < len(actor_set.actors):
                base = partial(_one_shard, actor_set.actors[index], actor_set.transforms, batch_ms, num_async)
                return LocalIterator(base, SharedMetrics(), name=f"{self.name}.shard[{shard_index}]")
            index -= len(actor_set.actors)
        raise ValueError("Shard index out of range", shard_index, self.num_shards())


def _check_depth(batch_ms: int, num_async: int) -> None:
    if num_async < 1:
        raise ValueError(f"num_async must be positive, got {num_async}")
    if batch_ms < 0:
        raise ValueError(f"batch_ms must not be negative, got {batch_ms}")


def _rounds(actor_sets: list[_ActorSet], timeout: float | None = None) -> Stream:
    """One item from each shard per round."""
    active = []
    for actor_set in actor_sets:
        actor_set.init_actors()
        active.extend(actor_set.actors)
    refs = [actor.par_iter_next.remote() for actor in active]
    while active:
        try:
            items = sundog.get(refs, timeout=timeout)
        except sundog.exceptions.GetTimeoutError:
            yield _NextValueNotReady()
            continue
        active = [a for a, item in zip(active, items, strict=True) if not isinstance(item, _ShardEnd)]
        # Ask for the next round before this one is processed: the shards continue in the meantime.
        refs = [actor.par_iter_next.remote() for actor in active]
        found = [item for item in items if not isinstance(item, _ShardEnd)]
        if found:
            yield found


def _as_ready(
    actor_sets: list[_ActorSet],
    batch_ms: int,
    num_async: int,
    metrics: SharedMetrics,
    timeout: float | None = None,
) -> Stream:
    """Batches of any shard, as they arrive."""
    running: dict[ObjectRef[list[object]], Shard] = {}
    actors = []
    for actor_set in actor_sets:
        actor_set.init_actors()
        actors.extend(actor_set.actors)
    for _ in range(num_async):
        for actor in actors:
            running[actor.par_iter_next_batch.remote(batch_ms)] = actor
    while running:
        waiting = list(running)
        ready, _ = sundog.wait(waiting, num_returns=len(waiting), timeout=timeout or 0)
        if not ready and timeout is None:
            ready, _ = sundog.wait(waiting, num_returns=1)
        for ref in ready:
            actor = running.pop(ref)
            items = sundog.get(ref)
            ended = bool(items) and isinstance(items[-1], _ShardEnd)
            if not ended:
                running[actor.par_iter_next_batch.remote(batch_ms)] = actor
            for item in items[:-1] if ended else items:
                metrics.get().current_actor = actor
                yield item
        if timeout is not None:
            yield _NextValueNotReady()


def _one_shard(
    actor: Shard, transforms: list[Transform], batch_ms: int, num_async: int, timeout: float | None = None
) -> Stream:
    """All items of one shard, in order."""
    sundog.get(actor.par_iter_init.remote(transforms))
    refs = deque(actor.par_iter_next_batch.remote(batch_ms) for _ in range(num_async))
    while True:
        try:
            items = sundog.get(refs[0], timeout=timeout)
        except sundog.exceptions.GetTimeoutError:
            yield _NextValueNotReady()
            continue
        refs.popleft()
        ended = bool(items) and isinstance(items[-1], _ShardEnd)
        if ended:
            yield from items[:-1]
            return
        refs.append(actor.par_iter_next_batch.remote(batch_ms))
        yield from items


def _partition(actors: list[Shard], step: int, start: int, batch_ms: int) -> Stream:
    """Every `step`-th item of each shard, from `start` on, as they arrive. Runs in a new shard's actor."""
    running = {actor.par_iter_slice_batch.remote(step, start, batch_ms): actor for actor in actors}
    while running:
        waiting = list(running)
        ready, _ = sundog.wait(waiting, num_returns=len(waiting), timeout=0)
        if not ready:
            ready, _ = sundog.wait(waiting, num_returns=1)
        for ref in ready:
            actor = running.pop(ref)
            items = sundog.get(ref)
            ended = bool(items) and isinstance(items[-1], _ShardEnd)
            if not ended:
                running[actor.par_iter_slice_batch.remote(step, start, batch_ms)] = actor
            yield from items[:-1] if ended else items


class ParallelIteratorWorker:
    """The actor behind a shard. Subclass it to serve items of your own with `from_actors`.

    Args:
        item_generator: An iterable, or a function that returns one.
        repeat: Start again for ever at its end.
    """

    def __init__(
        self, item_generator: Iterable[object] | Callable[[], Iterable[object]], repeat: bool
    ) -> None:
        self.item_generator = item_generator
        self.repeat = repeat
        self.local_it: Iterator[object] | None = None
        self.transforms: list[Transform] = []
        self.slices: dict[int, deque[object]] = {}

    def _items(self, timeout: float | None = None) -> Stream:
        while True:
            source = self.item_generator() if callable(self.item_generator) else self.item_generator
            found = False
            for item in iter(source):
                found = True
                yield item
            if not self.repeat:
                return
            if not found:
                raise ValueError(
                    "repeat=True needs a source with items in it that can be read more than once."
                )

    def par_iter_init(self, transforms: list[Transform]) -> None:
        """Start from the beginning, through these transforms."""
        stream: LocalIterator[object] = LocalIterator(self._items, SharedMetrics())
        for transform in transforms:
            stream = transform(stream)
        self.local_it = iter(stream)
        self.slices = {}

    def par_iter_next(self) -> object:
        """Give one item, or the marker of the end."""
        if self.local_it is None:
            raise RuntimeError("The shard was read before par_iter_init() was called.")
        return next(self.local_it, _ShardEnd())

    def par_iter_next_batch(self, batch_ms: int) -> list[object]:
        """Give what `batch_ms` milliseconds bring, at least one item; the last reply ends with the marker."""
        return self._collect(batch_ms, self.par_iter_next)

    def par_iter_slice(self, step: int, start: int) -> object:
        """Give the next item whose index is `start` modulo `step`, or the marker of the end."""
        own = self.slices.setdefault(start, deque())
        while not own:
            for residue in range(step):
                item = self.par_iter_next()
                if isinstance(item, _ShardEnd):
                    # The stream has ended for every slice; what other slices have buffered stays theirs.
                    return own.popleft() if own else item
                self.slices.setdefault(residue, deque()).append(item)
        return own.popleft()

    def par_iter_slice_batch(self, step: int, start: int, batch_ms: int) -> list[object]:
        """`par_iter_next_batch` of one slice."""
        return self._collect(batch_ms, partial(self.par_iter_slice, step, start))

    def _collect(self, batch_ms: int, fetch: Callable[[], object]) -> list[object]:
        until_s = time.monotonic() + batch_ms / 1000
        items = [fetch()]
        while not isinstance(items[-1], _ShardEnd) and time.monotonic() < until_s:
            items.append(fetch())
        return items


__all__ = [
    "LocalIterator",
    "ParallelIterator",
    "ParallelIteratorWorker",
    "from_actors",
    "from_items",
    "from_iterators",
    "from_range",
]
