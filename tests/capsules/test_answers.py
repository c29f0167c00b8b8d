"""Results of a run, as its caller would get them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from sundog.capsules.answers import ItemTally, outcome_of


def _count(number: int) -> Iterator[int]:
    yield from range(number)


def test_the_items_of_a_generator_are_counted_and_compared_without_being_held() -> None:
    assert outcome_of(_count(7), "f", "streaming").text == "7 items: 0, 1, 2, 3, 4, …"
    assert outcome_of(_count(0), "f", "dynamic").text == "0 items"
    assert outcome_of(_count(7), "f", "streaming").is_same(outcome_of(_count(7), "f", "streaming"))
    other = ItemTally()
    for each in (0, 1, 2, 3, 4, 5, 60):
        other.add(each)
    assert not outcome_of(_count(7), "f", "streaming").is_same(other.outcome())


def test_a_generator_runs_to_the_last_item_that_is_a_result() -> None:
    items = _count(9)
    assert outcome_of(items, "f", "2").text == "2 items: 0, 1"
    assert next(items) == 2
    assert outcome_of(_count(9), "f", "1").text == "1 item: 0"
    with pytest.raises(ValueError, match=r"f\(\) has num_returns=3 but yielded 2 values"):
        outcome_of(_count(2), "f", "3")


def test_a_result_that_nobody_can_get_fails_in_the_words_of_a_worker() -> None:
    with pytest.raises(ValueError, match=r"f\(\) has num_returns=2 but returned 3 values"):
        outcome_of([1, 2, 3], "f", "2")
    with pytest.raises(TypeError, match="has num_returns=2 but returned int, which is not iterable"):
        outcome_of(3, "f", "2")
    for result, returns in ((threading.Lock(), "1"), ([1, threading.Lock()], "2")):
        with pytest.raises(TypeError, match=r"Cannot pickle the result of f\(\)"):
            outcome_of(result, "f", returns)
    assert outcome_of(threading.Lock(), "f", "0").digest == ""
