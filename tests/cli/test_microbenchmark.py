"""`sundog microbenchmark`: the clock and the cases, against a runtime that only counts."""

import inspect
import itertools
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from click.testing import Result

from sundog.cli.microbenchmark import MEGABYTE, Case, make_cases, make_table, measure
from sundog.cli.microbenchmark import Result as Figures


class CountingFunction:
    """A remote function or method: counts its submissions."""

    def __init__(self, calls: Counter[str]) -> None:
        self.calls = calls

    def remote(self) -> str:
        self.calls["submit"] += 1
        return "ref"


class CountingActor:
    """An actor's handle with one method."""

    def __init__(self, nothing: CountingFunction) -> None:
        self.nothing = nothing


class CountingClass:
    """A remote class: makes actors and counts none of them."""

    def __init__(self, method: CountingFunction) -> None:
        self.method = method

    def remote(self) -> CountingActor:
        return CountingActor(self.method)


class CountingRay(ModuleType):
    """Has the verbs that the cases use; counts what is asked of it and does nothing."""

    def __init__(self) -> None:
        super().__init__("ray")
        self.calls: Counter[str] = Counter()

    def remote(self, target: Any) -> Any:
        """A function's `.remote` submits; a class's makes an actor whose `.nothing.remote` does."""
        submits = CountingFunction(self.calls)
        return CountingClass(submits) if inspect.isclass(target) else submits

    def put(self, value: object) -> str:
        self.calls["put"] += 1
        return "ref"

    def get(self, refs: object) -> None:
        self.calls["get"] += 1

    def wait(self, refs: list[str], num_returns: int) -> None:
        assert num_returns == len(refs) == 1_000
        self.calls["wait"] += 1


def test_each_case_does_as_much_as_it_says() -> None:
    ray = CountingRay()
    verb_of = {"put": "put", "get": "get", "wait": "wait", "tasks": "submit", "calls": "submit"}
    names = []
    for case in make_cases(ray):
        names.append(case.name)
        ray.calls.clear()
        case.work()
        verb = next(counted for word, counted in verb_of.items() if word in case.name.split())
        per_call = MEGABYTE / 1e9 if case.unit == "GB/s" else 1
        assert ray.calls[verb] * per_call == pytest.approx(case.amount), case.name
        if case.name.endswith("sync") and not case.name.endswith("async"):
            assert ray.calls["get"] == ray.calls["submit"], "one at a time means a get for each"
        if case.name.endswith(" async"):
            assert ray.calls["get"] == 1, "many in flight means one get for all"
    assert len(names) == len(set(names)) >= 10


def test_the_rate_is_the_median_over_rounds_after_a_first_that_is_thrown_away() -> None:
    seconds_per_round = itertools.chain([100.0], itertools.cycle([1.0, 2.0, 4.0]))
    now = 0.0

    def work() -> None:
        nonlocal now
        now += next(seconds_per_round)

    result = measure(Case("case", "things/s", 8.0, work), seconds=21.0, clock=lambda: now)
    assert (result.median, result.rounds) == (4.0, 9)


def test_a_slow_case_still_has_three_rounds() -> None:
    ticks = itertools.count()
    result = measure(Case("case", "x/s", 1.0, lambda: None), seconds=0, clock=lambda: float(next(ticks)))
    assert (result.median, result.spread, result.rounds) == (1.0, 0.0, 3)


def test_the_table_shows_every_result() -> None:
    table = make_table([Figures("a", "calls/s", 12345.6, 7.0, 9), Figures("b", "ms", 85.25, 0.0, 1)])
    columns = [list(column.cells) for column in table.columns]
    assert columns == [["a", "b"], ["12,346", "85.2"], ["7", ""], ["calls/s", "ms"], ["9", "1"]]


def test_a_pattern_that_is_none_is_refused_before_anything_starts(sundog: Callable[..., Result]) -> None:
    result = sundog("microbenchmark", "--only", "(")
    assert result.exit_code == 2
    assert "not a regular expression" in result.output
