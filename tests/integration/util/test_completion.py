"""as_completed and map_unordered: every result once, early ones first, bounded look-ahead."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from sundog import util
from tests.integration.gates import Gate


def test_as_completed_yields_every_result_once(ray: ModuleType) -> None:
    @ray.remote
    def double(x: int) -> int:
        return 2 * x

    refs = [double.remote(i) for i in range(25)]
    assert sorted(util.as_completed(refs)) == [2 * i for i in range(25)]


def test_as_completed_yields_what_is_ready_before_what_is_not(ray: ModuleType, tmp_path: Path) -> None:
    gate = Gate(tmp_path)

    @ray.remote(num_cpus=0)
    def behind(name: str) -> str:
        gate.enter(name)
        return name

    results = util.as_completed([behind.remote(name) for name in ("c", "b", "a")], chunk_size=1)
    for name in ("a", "b", "c"):
        gate.open(name)
        assert next(results) == name
    assert list(results) == []


def test_as_completed_can_yield_the_refs(ray: ModuleType) -> None:
    refs = [ray.put(i) for i in range(3)]
    assert set(util.as_completed(refs, yield_obj_refs=True)) == set(refs)


def test_as_completed_of_nothing_is_empty(ray: ModuleType) -> None:
    assert list(util.as_completed([])) == []


def test_an_error_is_raised_where_its_result_would_be(ray: ModuleType) -> None:
    @ray.remote
    def fail() -> None:
        raise KeyError("missing")

    with pytest.raises(KeyError):
        list(util.as_completed([fail.remote()]))


def test_map_unordered_yields_every_result_once(ray: ModuleType) -> None:
    @ray.remote
    def double(x: int) -> int:
        return 2 * x

    assert sorted(util.map_unordered(double, range(30), backpressure_size=4, chunk_size=2)) == [
        2 * i for i in range(30)
    ]
    assert sorted(util.map_unordered(double, range(5), backpressure_size=None)) == [0, 2, 4, 6, 8]


def test_map_unordered_reads_items_no_faster_than_results_are_taken(ray: ModuleType) -> None:
    @ray.remote
    def same(x: int) -> int:
        return x

    read = []

    def endless() -> Iterator[int]:
        number = 0
        while True:
            read.append(number)
            yield number
            number += 1

    results = util.map_unordered(same, endless(), backpressure_size=3, chunk_size=1)
    for _ in range(5):
        next(results)
    assert len(read) <= 3 + 5


@pytest.mark.parametrize("options", [{"chunk_size": 0}, {"num_returns": 2}])
def test_bad_options_of_as_completed_are_refused(ray: ModuleType, options: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        next(util.as_completed([ray.put(1)], **options))  # type: ignore[call-overload]


@pytest.mark.parametrize("options", [{"chunk_size": 0}, {"num_returns": 2}, {"backpressure_size": 0}])
def test_bad_options_of_map_unordered_are_refused(ray: ModuleType, options: dict[str, int]) -> None:
    @ray.remote
    def same(x: int) -> int:
        return x

    with pytest.raises(ValueError):
        next(util.map_unordered(same, [1], **options))  # type: ignore[arg-type]
