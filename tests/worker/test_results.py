"""Several results, all items of a generator, or a stream of them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog.config import Config
from sundog.wire import lanes as wire
from sundog.worker.results import bounds_of
from tests.worker.whole import WholeWorker, error_in, whole_worker


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WholeWorker]:
    config = Config(record_enabled=False, capsule_on_failure=False, max_num_generator_returns=5)
    with whole_worker(tmp_path, config) as made:
        yield made


def _run(worker: WholeWorker, function: Any, returns: int | str, **extra: Any) -> list[Any]:
    worker.executor.run(
        worker.lane, worker.item(worker.knows(function, returns=returns), extra=extra or None)
    )
    return worker.replies()


def _values(values: list[Any]) -> list[object]:
    return [pickle.loads(value[1]) for value in values]


def counts(most: int) -> Any:
    def count() -> Iterator[int]:
        yield from range(most)

    return count


def fails_after(most: int) -> Any:
    def count() -> Iterator[int]:
        yield from range(most)
        raise ValueError("no more")

    return count


def test_a_tuple_is_split_into_as_many_results_as_were_asked_for(worker: WholeWorker) -> None:
    [(_, kind, (values, held), _)] = _run(worker, lambda: ("a", "b"), 2)
    assert (kind, _values(values), held) == (wire.R_VALUES, ["a", "b"], [])


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda: (1, 2, 3), "has num_returns=2 but returned 3 values"),
        (lambda: 1, "has num_returns=2 but returned int, which is not iterable"),
        (counts(1), "has num_returns=2 but yielded 1 values"),
    ],
)
def test_a_wrong_number_of_results_is_an_error_that_says_both_numbers(
    worker: WholeWorker, function: Any, words: str
) -> None:
    [reply] = _run(worker, function, 2)
    text = str(error_in(reply))
    assert words in text
    assert "  File " not in text, "the user's code raised nothing, and a frame of sundog's explains nothing"


def test_no_result_is_an_empty_answer(worker: WholeWorker) -> None:
    [(_, kind, (values, _), _)] = _run(worker, lambda: "ignored", 0)
    assert (kind, values) == (wire.R_VALUES, [])


def test_a_generator_gives_as_many_as_are_wanted_and_is_closed(worker: WholeWorker) -> None:
    closed: list[bool] = []

    class Items:
        """A generator that tells when it is closed."""

        def __init__(self) -> None:
            self.next = 0

        def __next__(self) -> int:
            self.next += 1
            return self.next

        def send(self, _: object) -> int:
            return next(self)

        def close(self) -> None:
            closed.append(True)

    worker.executor.codes[b"1"] = Items
    [(_, _, (values, _), _)] = _run(worker, lambda: None, 2)
    assert _values(values) == [1, 2] and closed == [True]


def test_what_a_generator_made_before_it_raised_goes_along_with_the_error(worker: WholeWorker) -> None:
    [reply] = _run(worker, fails_after(1), 3)
    assert isinstance(error_in(reply), ValueError)
    assert _values(reply[2][3]) == [0]


def test_all_items_of_a_dynamic_generator_go_back_together(worker: WholeWorker) -> None:
    [(_, kind, (values, _), _)] = _run(worker, counts(3), "dynamic")
    assert (kind, _values(values)) == (wire.R_DYNAMIC, [0, 1, 2])


def test_items_of_a_stream_go_back_one_by_one_and_then_the_end(worker: WholeWorker) -> None:
    *items, end = _run(worker, counts(3), "streaming")
    assert [(kind, payload[0]) for _, kind, payload, _ in items] == [
        (wire.R_ITEM, index) for index in (1, 2, 3)
    ]
    assert _values([payload[1] for _, _, payload, _ in items]) == [0, 1, 2]
    assert (end[1], end[2]) == (wire.R_END, (3, []))
    assert worker.executor.results.streamed == {}


def test_a_stream_that_raises_has_sent_what_it_yielded(worker: WholeWorker) -> None:
    item, failed = _run(worker, fails_after(1), "streaming")
    assert item[1] == wire.R_ITEM and isinstance(error_in(failed), ValueError)


def test_a_list_is_a_stream_too_but_a_number_is_not(worker: WholeWorker) -> None:
    assert len(_run(worker, lambda: ["a", "b"], "streaming")) == 3
    [reply] = _run(worker, lambda: 3, "streaming")
    assert "has num_returns='streaming' and must be a generator, but it returned int" in str(error_in(reply))


def test_more_items_than_the_setting_allows_are_an_error(worker: WholeWorker) -> None:
    *items, failed = _run(worker, counts(9), "streaming")
    assert len(items) == 5
    assert "yielded more than 5 items, the limit of the setting max_num_generator_returns" in str(
        error_in(failed)
    )
    [reply] = _run(worker, counts(9), "dynamic")
    assert "yielded more than 5 items" in str(error_in(reply))


def test_a_yield_of_several_objects_is_as_many_items(worker: WholeWorker) -> None:
    def pairs() -> Iterator[tuple[int, int]]:
        yield (1, 2)
        yield (3, 4)

    *items, end = _run(worker, pairs, "streaming", **{wire.EXTRA_PER_YIELD: 2})
    assert [payload[0] for _, _, payload, _ in items] == [1, 2, 3, 4] and end[2][0] == 4


@pytest.mark.parametrize(
    ("yielded", "words"), [((1, 2, 3), "a tuple of 3"), (7, "a int, not a tuple or list")]
)
def test_a_yield_of_another_number_is_an_error(worker: WholeWorker, yielded: object, words: str) -> None:
    def wrong() -> Iterator[object]:
        yield yielded

    [reply] = _run(worker, wrong, "streaming", **{wire.EXTRA_PER_YIELD: 2})
    assert f"has _num_objects_per_yield=2, but yielded {words}" in str(error_in(reply))


def test_objects_of_a_yield_behind_one_that_cannot_be_pickled_are_errors_too(worker: WholeWorker) -> None:
    def pairs() -> Iterator[list[object]]:
        import threading

        yield [threading.Lock(), 2]

    first, second, end = _run(worker, pairs, "streaming", **{wire.EXTRA_PER_YIELD: 2})
    assert first[2][1][0] == second[2][1][0] == wire.ERROR and end[1] == wire.R_END


def test_a_generator_that_was_called_for_one_result_gives_its_first_item(worker: WholeWorker) -> None:
    [reply] = _run(worker, counts(3), 1)
    assert pickle.loads(reply[2]) == 0
    [reply] = _run(worker, counts(0), 1)
    assert "has num_returns=1 but yielded 0 values" in str(error_in(reply))


def test_a_stream_whose_owner_is_gone_makes_no_more_items(worker: WholeWorker) -> None:
    made: list[int] = []

    def count() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            worker.executor.gates.owner_died(worker.lane.owner_id)
            yield number

    worker.executor.codes[b"1"] = count
    _run(worker, lambda: None, "streaming", **{wire.EXTRA_BACKPRESSURE: 4})
    assert made == [0]


def test_the_bounds_of_a_stream_are_in_its_options() -> None:
    assert bounds_of(None) == (1, 0)
    assert bounds_of({wire.EXTRA_PER_YIELD: 3, wire.EXTRA_BACKPRESSURE: 7}) == (3, 7)
