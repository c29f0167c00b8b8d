"""Samples of user metrics, and the points that charts make of them."""

from __future__ import annotations

from typing import Any

from sundog.observe.metric_files import Series, SeriesKey
from sundog.observe.metric_history import MOST, History, sample


def _series(kind: str, *values: float, name: str = "m", process: str = "") -> Series:
    return Series(SeriesKey(name, kind, "", (("route", "a"),)), values, process)


def test_a_sample_has_what_changed_and_no_more_than_it_may() -> None:
    counter, gauge = _series("counter", 3.0), _series("gauge", 7.0, 100.0, name="g", process="ab" * 8)
    first = sample([counter, gauge], {})
    assert first == {
        "m{route=a}": ["counter", "m", 3.0],
        "g{route=a, process=abababab}": ["gauge", "g", 7.0],
    }
    assert sample([counter, gauge], first) == {}
    assert sample([_series("counter", 4.0), gauge], first) == {"m{route=a}": ["counter", "m", 4.0]}
    many = [_series("counter", 1.0, name=f"m{number}") for number in range(2 * MOST)]
    assert len(sample(many, {})) == MOST


def test_counters_become_rates_histograms_means_and_gauges_stay() -> None:
    history = History()
    samples: list[tuple[float, dict[str, list[Any]]]] = [
        (100.0, {"c": ["counter", "c", 0.0], "g": ["gauge", "g", 5.0], "h": ["histogram", "h", 2.0, 2.0]}),
        (105.0, {"c": ["counter", "c", 10.0], "h": ["histogram", "h", 12.0, 4.0]}),
        (125.0, {"c": ["counter", "c", 20.0], "g": ["gauge", "g", 6.0]}),
    ]
    for at_s, rows in samples:
        history.take(at_s, rows)
    history.take(126.0, {"broken": 7})  # type: ignore[dict-item]
    counter, gauge, histogram = history.lines(0.0, 140.0)
    assert counter.points[0] == [105_000, 2.0] and [125_000, 2.0] in counter.points
    assert [119_999, 0.0] in counter.points and counter.points[-1] == [140_000, 0.0], "nothing in between"
    assert gauge.points == [[100_000, 5.0], [125_000, 6.0], [140_000, 6.0]]
    assert histogram.points == [[100_000, 1.0], [105_000, 5.0]]
    assert [line.label for line in history.lines(110.0, 140.0)] == ["c", "g"]


def test_a_counter_that_goes_on_has_a_steady_rate_though_samples_come_a_little_late() -> None:
    history = History()
    for number in range(4):
        history.take(100.0 + 5.03 * number, {"c": ["counter", "c", 10.06 * number]})
    (line,) = history.lines(0.0, 115.1)
    assert [round(value, 6) for _, value in line.points] == [2.0, 2.0, 2.0]
