"""Chains over one stream, read where they are: steps, markers of what is not ready, turns of a union."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

import pytest

from sundog.util.iter_local import LocalIterator, _NextValueNotReady
from sundog.util.iter_metrics import SharedMetrics


def over(items: Iterable[object]) -> LocalIterator[int]:
    def base(timeout: float | None = None) -> Iterator[object]:
        return iter(list(items))

    return LocalIterator(base, SharedMetrics(), name="test")


def test_steps_follow_each_other_and_the_name_tells_them() -> None:
    chain = over(range(6)).for_each(lambda x: x + 1).filter(lambda x: x % 2 == 0).batch(2)
    assert list(chain) == [[2, 4], [6]]
    assert repr(chain) == "LocalIterator[test.for_each().filter().batch(2)]"


def test_what_is_not_ready_passes_through_every_step() -> None:
    late = _NextValueNotReady()
    chain = over([1, late, 2]).for_each(lambda x: [x, x]).flatten().filter(lambda x: x > 1).batch(2)
    assert list(chain) == [late, [2, 2]]


def test_a_function_that_says_not_yet_is_asked_again_for_the_same_item() -> None:
    asked: list[int] = []

    def slow(x: int) -> object:
        asked.append(x)
        return x if len(asked) > 1 else _NextValueNotReady()

    found = list(over([7]).for_each(slow))
    assert isinstance(found[0], _NextValueNotReady) and found[1:] == [7] and asked == [7, 7]


def test_a_shuffle_keeps_all_items_and_the_same_seed_gives_the_same_order() -> None:
    first, again = (list(over(range(20)).shuffle(5, seed=3)) for _ in range(2))
    assert first == again != list(range(20)) and sorted(first) == list(range(20))


def test_a_chain_is_read_once_and_take_leaves_the_rest() -> None:
    chain = over(range(5))
    assert chain.take(2) == [0, 1] and chain.take(9) == [2, 3, 4] and chain.take(1) == []


def test_a_union_takes_strictly_in_turn_or_by_weights() -> None:
    assert list(over([1, 2]).union(over([10, 20, 30]), deterministic=True)) == [1, 10, 2, 20, 30]
    weighted = over([1, 2, 3, 4]).union(over([10, 20]), round_robin_weights=[2, 1])
    assert list(weighted) == [1, 2, 10, 3, 4, 20]
    every = over([1, 2, 3]).union(over([10]), round_robin_weights=["*", 1])
    assert sorted(every) == [1, 2, 3, 10]


def test_a_union_refuses_what_it_cannot_merge() -> None:
    with pytest.raises(ValueError, match="takes LocalIterators, not list"):
        over([1]).union([2])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Length of round robin weights"):
        over([1]).union(over([2]), round_robin_weights=[1])


def test_metrics_are_there_for_functions_of_a_chain_alone() -> None:
    def counted(x: int) -> int:
        LocalIterator.get_metrics().counters["seen"] += 1
        return x

    chain = over(range(3))
    assert list(chain.for_each(counted)) == [0, 1, 2]
    assert chain.shared_metrics.get().counters["seen"] == 3


def test_a_hook_is_called_before_each_item_is_fetched() -> None:
    calls: list[str] = []

    class Step:
        def _on_fetch_start(self) -> None:
            calls.append("fetch")

        def __call__(self, x: int) -> int:
            calls.append(f"item {x}")
            return x

    assert list(over([1, 2]).for_each(Step())) == [1, 2]
    assert calls[:4] == ["fetch", "item 1", "fetch", "item 2"]


@pytest.mark.parametrize("seed", range(20))
def test_items_that_come_late_change_no_turn_of_two_copies(seed: int) -> None:
    dice, late = Random(seed), _NextValueNotReady()
    items: list[object] = []
    for item in range(5):
        items += [late] * dice.choice([0, 0, 1, 2]) + [item]
    first, second = over(items).duplicate(2)
    first.timeout = second.timeout = 0
    both = first.batch(2).union(second)  # type: ignore[arg-type]
    assert list[object](both) == [0, [0, 1], 1, 2, [2, 3], 3, 4, [4]]
