"""Parallel iterators: sources, transforms in the shards, and the ways to merge them."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

import pytest

from sundog.util import iter as parallel
from sundog.util.iter import LocalIterator, ParallelIteratorWorker
from sundog.util.iter_local import _NextValueNotReady
from sundog.util.iter_metrics import SharedMetrics


def test_items_are_dealt_out_and_gathered_in_turn(ray: ModuleType) -> None:
    it = parallel.from_items(["a", "b", "c", "d", "e"], num_shards=2)
    assert repr(it) == "ParallelIterator[from_items[str, 5, shards=2]]"
    assert it.num_shards() == 2
    assert list(it.gather_sync()) == ["a", "b", "c", "d", "e"]
    assert [list(shard) for shard in it.shards()] == [["a", "c", "e"], ["b", "d"]]


def test_a_range_is_cut_into_consecutive_shards(ray: ModuleType) -> None:
    it = parallel.from_range(5, num_shards=2)
    assert [list(shard) for shard in it.shards()] == [[0, 1], [2, 3, 4]]
    assert list(it.gather_sync()) == [0, 2, 1, 3, 4]


def test_sources_may_be_iterables_or_functions_that_make_one(ray: ModuleType) -> None:
    it: parallel.ParallelIterator[object] = parallel.from_iterators([range(2), lambda: (x for x in "ab")])
    assert repr(it) == "ParallelIterator[from_iterators[shards=2]]"
    assert list(it.gather_sync()) == [0, "a", 1, "b"]


def test_a_repeated_source_never_ends(ray: ModuleType) -> None:
    assert parallel.from_range(2, num_shards=1, repeat=True).take(5) == [0, 1, 0, 1, 0]


def test_actors_of_ones_own_can_serve_shards(ray: ModuleType) -> None:
    class Squares(ParallelIteratorWorker):
        def __init__(self) -> None:
            super().__init__([x * x for x in range(3)], False)

    actors = [ray.remote(Squares).options(num_cpus=0).remote() for _ in range(2)]
    assert parallel.from_actors(actors).take(10) == [0, 0, 1, 1, 4, 4]


def test_transforms_run_in_order_in_the_shards(ray: ModuleType) -> None:
    it = parallel.from_range(8, num_shards=2)
    assert it.for_each(lambda x: x * 10).filter(lambda x: x > 10).take(10) == [20, 40, 30, 50, 60, 70]
    assert it.batch(3).take(10) == [[0, 1, 2], [4, 5, 6], [3], [7]]
    assert it.batch(3).flatten().take(10) == [0, 4, 1, 5, 2, 6, 3, 7]
    assert it.combine(lambda x: [x, x] if x % 4 == 0 else []).take(10) == [0, 4, 0, 4]


def test_transform_sees_the_whole_stream_of_a_shard(ray: ModuleType) -> None:
    def total(stream: Iterable[int]) -> Iterator[int]:
        yield sum(stream)

    assert parallel.from_range(6, num_shards=2).transform(total).take(5) == [3, 12]


@pytest.mark.parametrize("concurrency", [0, 2])
def test_for_each_can_use_several_tasks_per_shard(ray: ModuleType, concurrency: int) -> None:
    it = parallel.from_range(6, num_shards=1).for_each(
        lambda x: -x, max_concurrency=concurrency, resources={"num_cpus": 0.5}
    )
    assert sorted(it.take(10)) == [-5, -4, -3, -2, -1, 0]


def test_names_tell_the_chain(ray: ModuleType) -> None:
    it = parallel.from_range(4, num_shards=1)
    chain = it.for_each(str).filter(bool).batch(2).flatten().combine(list).transform(list)
    assert repr(chain) == (
        "ParallelIterator[from_range[4, shards=1]"
        ".for_each().filter().batch(2).flatten().combine().transform()]"
    )
    assert repr(it.local_shuffle(2, seed=1)).endswith(".local_shuffle(shuffle_buffer_size=2, seed=1)]")
    assert repr(it.gather_sync()) == "LocalIterator[ParallelIterator[from_range[4, shards=1]].gather_sync()]"
    assert repr(it.get_shard(0)) == "LocalIterator[from_range[4, shards=1].shard[0]]"


def test_local_shuffle_keeps_all_items_and_repeats_with_its_seed(ray: ModuleType) -> None:
    it = parallel.from_range(40, num_shards=1)
    first = it.local_shuffle(10, seed=3).take(50)
    assert sorted(first) == list(range(40))
    assert first != list(range(40))
    assert it.local_shuffle(10, seed=3).take(50) == first


def test_repartition_deals_all_items_out_again(ray: ModuleType) -> None:
    for batch_ms in (0, 5):
        it = parallel.from_range(9, num_shards=2).repartition(3, batch_ms=batch_ms)
        assert it.num_shards() == 3
        shards = [sorted(shard) for shard in it.shards()]
        assert sorted(itertools.chain(*shards)) == list(range(9))
        assert shards == [[0, 3, 4, 7], [1, 5, 8], [2, 6]]


def test_gather_async_gives_every_item_once(ray: ModuleType) -> None:
    it = parallel.from_range(30, num_shards=3)
    for options in ({}, {"num_async": 3}, {"batch_ms": 5, "num_async": 2}):
        assert sorted(it.gather_async(**options)) == list(range(30))


def test_gather_async_knows_where_items_came_from(ray: ModuleType) -> None:
    it = parallel.from_range(6, num_shards=2)
    pairs = list(it.gather_async().zip_with_source_actor())
    by_actor = [{item for source, item in pairs if source == actor} for actor in it.actor_sets[0].actors]
    assert by_actor == [{0, 1, 2}, {3, 4, 5}]


def test_batch_across_shards_gives_one_item_of_each(ray: ModuleType) -> None:
    assert list(parallel.from_range(5, num_shards=2).batch_across_shards()) == [[0, 2], [1, 3], [4]]


def test_union_puts_shards_side_by_side(ray: ModuleType) -> None:
    left = parallel.from_range(2, num_shards=1)
    right = parallel.from_range(2, num_shards=1).for_each(lambda x: x + 100)
    union = left.union(right)
    assert union.num_shards() == 2
    assert union.take(10) == [0, 100, 1, 101]
    assert list(union.get_shard(1)) == [100, 101]
    with pytest.raises(TypeError):
        left.union([1])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="union"):
        union.select_shards([0])


def test_shards_can_be_selected(ray: ModuleType) -> None:
    it = parallel.from_range(6, num_shards=3)
    assert it.select_shards([0, 2]).take(10) == [0, 4, 1, 5]
    for wrong in ([], [3], [-1]):
        with pytest.raises(ValueError):
            it.select_shards(wrong)
    with pytest.raises(ValueError):
        it.get_shard(3)


def test_a_shard_can_be_read_in_another_process(ray: ModuleType) -> None:
    it = parallel.from_range(6, num_shards=2).for_each(lambda x: x * 2)

    @ray.remote(num_cpus=0)
    def read(shard: Any) -> list[int]:
        return list(shard)

    assert ray.get([read.remote(shard) for shard in it.shards()]) == [[0, 2, 4], [6, 8, 10]]


def test_show_prints_the_first_items(ray: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    parallel.from_range(5, num_shards=1).show(2)
    assert capsys.readouterr().out == "0\n1\n"


def test_iterating_over_shards_directly_is_refused(ray: ModuleType) -> None:
    with pytest.raises(TypeError, match="gather_sync"):
        iter(parallel.from_range(1))


def test_an_error_in_a_shard_reaches_the_reader(ray: ModuleType) -> None:
    with pytest.raises(ZeroDivisionError):
        parallel.from_range(2, num_shards=1).for_each(lambda x: 1 // x).take(2)


@pytest.mark.parametrize("options", [{"num_async": 0}, {"batch_ms": -1}])
def test_bad_depths_are_refused(ray: ModuleType, options: dict[str, int]) -> None:
    it = parallel.from_range(1, num_shards=1)
    for gather in (it.gather_async, lambda **o: it.get_shard(0, **o)):
        with pytest.raises(ValueError):
            gather(**options)


class TestLocal:
    """What happens on the reader's side."""

    def local(self, n: int) -> LocalIterator[int]:
        return parallel.from_range(n, num_shards=1).gather_sync()

    def test_the_same_transforms_exist_here(self, ray: ModuleType) -> None:
        assert self.local(4).for_each(lambda x: x + 1).filter(lambda x: x % 2 == 1).take(9) == [1, 3]
        assert self.local(5).batch(2).take(9) == [[0, 1], [2, 3], [4]]
        assert self.local(2).combine(lambda x: [x, x]).take(9) == [0, 0, 1, 1]
        assert self.local(4).transform(lambda it: (x for x in it if x)).take(9) == [1, 2, 3]
        assert sorted(self.local(4).for_each(lambda x: -x, max_concurrency=2).take(9)) == [-3, -2, -1, 0]
        assert sorted(self.local(9).shuffle(3, seed=1)) == list(range(9))
        assert self.local(3).take(0) == []

    def test_duplicates_each_see_everything(self, ray: ModuleType) -> None:
        first, second = self.local(4).duplicate(2)
        assert [next(first), next(first), next(second)] == [0, 1, 0]
        assert list(second) == [1, 2, 3]
        assert list(first) == [2, 3]
        with pytest.raises(ValueError):
            self.local(1).duplicate(1)

    def test_a_deterministic_union_takes_in_turn(self, ray: ModuleType) -> None:
        union = self.local(3).union(self.local(3).for_each(lambda x: x + 10), deterministic=True)
        assert list(union) == [0, 10, 1, 11, 2, 12]

    def test_a_union_takes_what_is_ready(self, ray: ModuleType) -> None:
        left = parallel.from_range(10, num_shards=2)
        for gather in (left.gather_sync, left.gather_async, lambda: left.get_shard(0)):
            some: Callable[[], LocalIterator[int]] = gather
            union = some().union(self.local(3).for_each(lambda x: x + 100))
            expected = list(range(5)) if gather not in (left.gather_sync, left.gather_async) else range(10)
            assert sorted(union) == [*expected, 100, 101, 102]

    def test_duplicates_can_be_worked_on_and_united_again(self, ray: ModuleType) -> None:
        first, second = self.local(3).duplicate(2)
        union = first.for_each(lambda x: ("a", x)).union(second.for_each(lambda x: ("b", x)))
        assert sorted(union) == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2)]

    def test_a_copy_that_is_ahead_lets_the_others_go_first(self, ray: ModuleType) -> None:
        first, second = self.local(5).duplicate(2)
        both: LocalIterator[Any] = first.batch(2).union(second)  # type: ignore[arg-type]
        assert list(both) == [0, [0, 1], 1, 2, [2, 3], 3, 4, [4]]

    def test_copies_of_a_late_stream_keep_their_turns(self, ray: ModuleType) -> None:
        """The stream has nothing ready at the first question, then an item: the first copy has its turn again."""
        late = _NextValueNotReady()
        source: LocalIterator[Any] = LocalIterator(
            lambda timeout=None: iter([late, 0, late, late, 1, late]), SharedMetrics(), timeout=0
        )
        first, second = source.duplicate(2)
        union = first.for_each(lambda x: ("a", x)).union(second.for_each(lambda x: ("b", x)))
        assert list(union) == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]

    def test_a_copy_does_not_wait_for_one_that_nobody_reads(self, ray: ModuleType) -> None:
        first, _unread = self.local(3).duplicate(2)
        assert sorted(first.union(self.local(1).for_each(lambda x: x + 10))) == [0, 1, 2, 10]

    def test_weights_decide_how_much_comes_from_each(self, ray: ModuleType) -> None:
        union = self.local(4).union(self.local(4).for_each(lambda x: x + 10), round_robin_weights=[2, 1])
        assert list(union) == [0, 1, 10, 2, 3, 11, 12, 13]
        everything = self.local(3).union(
            self.local(3).for_each(lambda x: x + 10), round_robin_weights=[1, "*"]
        )
        assert sorted(everything) == [0, 1, 2, 10, 11, 12]
        with pytest.raises(ValueError):
            self.local(1).union(self.local(1), round_robin_weights=[1])
        with pytest.raises(ValueError):
            self.local(1).union([1])  # type: ignore[arg-type]

    def test_functions_can_count_in_the_chains_metrics(self, ray: ModuleType) -> None:
        def count(x: int) -> int:
            metrics = LocalIterator.get_metrics()
            metrics.counters["seen"] += 1
            return metrics.counters["seen"]

        chain = self.local(3).for_each(count)
        assert list(chain) == [1, 2, 3]
        assert chain.shared_metrics.get().save()["counters"] == {"seen": 3}

    def test_a_hook_is_called_before_each_fetch(self, ray: ModuleType) -> None:
        calls: list[str] = []

        class Observed:
            def _on_fetch_start(self) -> None:
                calls.append("fetch")

            def __call__(self, x: int) -> int:
                calls.append(f"item {x}")
                return x

        assert list(self.local(2).for_each(Observed())) == [0, 1]
        assert calls == ["fetch", "item 0", "fetch", "item 1", "fetch"]
