"""Totals of what functions used: exact where they say so, near enough where they do not."""

from __future__ import annotations

import doctest
import json
import random

import pytest

from sundog.observe import usage
from sundog.observe.usage import FunctionKey, Spread, Totals


def test_the_examples_in_the_docstrings_run() -> None:
    assert doctest.testmod(usage).failed == 0


def test_nothing_is_zero() -> None:
    assert Spread().figures() == {"mean": 0.0, "p95": 0.0, "max": 0.0}


def test_equal_values_have_themselves_as_percentile() -> None:
    spread = Spread()
    spread.add([14_000_000.0] * 100)
    assert spread.figures() == {"mean": 14e6, "p95": 14e6, "max": 14e6}


def test_zeros_are_counted() -> None:
    spread = Spread()
    spread.add([0.0] * 99 + [5.0])
    assert (spread.percentile(0.5), spread.maximum, spread.count) == (0.0, 5.0, 100)


def test_percentiles_are_right_to_five_per_cent_whatever_the_batches(seeds: range) -> None:
    for seed in seeds:
        dice = random.Random(seed)
        spread, parts = Spread(), [Spread(), Spread()]
        values: list[float] = []
        for _ in range(dice.randrange(1, 30)):
            batch = [dice.lognormvariate(0, 2) for _ in range(dice.randrange(1, 40))]
            values += batch
            spread.add(batch)
            dice.choice(parts).add(batch)
        parts[0].merge(parts[1])
        assert parts[0].figures()["p95"] == pytest.approx(spread.figures()["p95"])
        values.sort()
        near = [values[max(0, int(len(values) * share) - 1)] for share in (0.94, 0.96, 0.97)]
        assert 0.94 * min(near) <= spread.percentile(0.95) <= 1.06 * max(near), seed
        assert (spread.count, spread.maximum) == (len(values), values[-1])
        assert spread.total == pytest.approx(sum(values))


def test_a_long_batch_weighs_as_much_as_it_has_values() -> None:
    spread = Spread()
    spread.add([1.0] * 9_500)
    for _ in range(500):
        spread.add([100.0])
    assert spread.percentile(0.94) == pytest.approx(1.0, rel=0.05)
    assert spread.percentile(0.96) == pytest.approx(100.0, rel=0.05)


def test_a_class_is_the_sum_of_its_methods() -> None:
    totals = Totals()
    for name, class_name, seconds in (("A.m", "A", 1.0), ("A.__init__", "A", 3.0), ("f", "", 9.0)):
        row = totals.row(FunctionKey(name, class_name))
        row.count += 1
        row.duration_s.add([seconds])
    assert set(totals.functions()) == {"A.m", "A.__init__", "f"}
    assert set(totals.classes()) == {"A"}
    assert totals.classes()["A"]["count"] == 2
    assert totals.classes()["A"]["duration_s"]["mean"] == 2.0


def test_totals_survive_json() -> None:
    totals = Totals()
    row = totals.row(FunctionKey("f", ""))
    row.count, row.failed, row.lost = 3, 2, 1
    row.duration_s.add([0.0, 1.0, 2.0])
    row.cpu_s.add([0.5])
    row.peak_memory.add([1e6])
    again = Totals()
    again.load(json.loads(json.dumps(totals.dump())))
    assert again.functions() == totals.functions()
    again.load(totals.dump())
    assert again.functions()["f"]["count"] == 6


def test_functions_beyond_a_bound_are_told_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "_ROWS_MAX", 2)
    totals = Totals()
    for number in range(6):
        totals.row(FunctionKey(f"task-{number}", "")).count += 1
    totals.row(FunctionKey("A.m", "A")).count += 1
    told = {name: figures["count"] for name, figures in totals.functions().items()}
    assert told == {"task-0": 1, "task-1": 1, "(others)": 5}
    assert totals.classes()["A"]["count"] == 1
