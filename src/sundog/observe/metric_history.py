"""The history of a program's own metrics: a sample every few seconds among the node's facts, points of charts from it.

::

    metric files ──► sample (node, every 5 s: what has changed) ──► facts ──► History (the reader) ──► charts

Owns which series a sample has (the first `MOST` by name), and what becomes of them in a chart: of a counter its rate,
of a histogram the mean of what was observed, of a gauge its value. Pure. Runs in the node and in the caller's
process.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from itertools import pairwise

from sundog.observe.metric_files import COUNTER, GAUGE, HISTOGRAM, Series, summed
from sundog.plain import NamedTuple

MOST = 100
KEPT = 720  # samples of a series: an hour
EVERY_S = 5.0

Sample = list[str | float]  # of a series: its kind, its metric, then its numbers


class ChartLine(NamedTuple):
    """One line of a chart: points of (milliseconds, value)."""

    metric: str
    label: str
    kind: str
    points: list[list[float]]


def sample(series: Iterable[Series], before: dict[str, Sample]) -> dict[str, Sample]:
    """The series that have changed since the sample before, by name and tags: kind, metric, and its numbers.

    >>> from sundog.observe.metric_files import SeriesKey
    >>> one = Series(SeriesKey("served", "counter", "", (("route", "a"),)), (3.0,))
    >>> sample([one], {})
    {'served{route=a}': ['counter', 'served', 3.0]}
    """
    found: dict[str, Sample] = {}
    for each in sorted(summed(series), key=lambda row: (row.key.name, row.key.tags, row.process))[:MOST]:
        tags = [f"{name}={value}" for name, value in each.key.tags]
        if each.key.kind == GAUGE and each.process:
            tags.append(f"process={each.process[:8]}")
        label = each.key.name + (f"{{{', '.join(tags)}}}" if tags else "")
        numbers = (
            [each.values[0], sum(each.values[1:])] if each.key.kind == HISTOGRAM else [float(each.values[0])]
        )
        row: Sample = [each.key.kind, each.key.name, *numbers]
        if before.get(label) != row:
            found[label] = row
    return found


class History:
    """The samples of a session so far, the last hour of each series."""

    def __init__(self) -> None:
        self._rows: dict[str, deque[tuple[float, Sample]]] = {}

    def take(self, at_s: float, series: dict[str, Sample]) -> None:
        """One sample; series that did not change are not in it."""
        for label, row in series.items():
            if isinstance(row, list) and len(row) >= 3:
                self._rows.setdefault(label, deque(maxlen=KEPT)).append((at_s, row))

    def lines(self, since_s: float, until_s: float) -> list[ChartLine]:
        """A line for each series, by metric. What did not change between two samples stayed as it was."""
        found = []
        for label, rows in sorted(self._rows.items()):
            kind, metric = str(rows[-1][1][0]), str(rows[-1][1][1])
            points = _POINTS.get(kind, _values)(list(rows), until_s)
            shown = [[round(at * 1000), value] for at, value in points if at >= since_s]
            if shown:
                found.append(ChartLine(metric, label, kind, shown))
        return found

    def grouped(self, metric: str, tag: str, since_s: float, until_s: float) -> list[ChartLine]:
        """A line for each value of a tag: the series of a counter or a histogram that have it, added up."""
        groups: dict[str, dict[str, Sample]] = {}
        moved: dict[str, list[tuple[float, Sample]]] = {}
        rows = [
            (at, label, row) for label, kept in self._rows.items() for at, row in kept if row[1] == metric
        ]
        for at, label, row in sorted(rows, key=lambda each: each[0]):
            name = _tag(label, tag)
            group = groups.setdefault(name, {})
            group[label] = row
            total: Sample = [
                row[0],
                metric,
                *(sum(map(float, numbers)) for numbers in zip(*(each[2:] for each in group.values()))),
            ]
            zero: tuple[float, Sample] = (
                at - EVERY_S,
                [row[0], metric, *(0.0 for _ in row[2:])],
            )  # what is counted begins at nothing
            samples = moved.setdefault(name, [zero])
            if samples and samples[-1][0] == at:
                samples.pop()
            samples.append((at, total))
        found = []
        for name, samples in sorted(moved.items()):
            kind = str(samples[-1][1][0])
            points = _POINTS.get(kind, _values)(samples, until_s)
            found.append(
                ChartLine(
                    metric, name, kind, [[round(at * 1000), value] for at, value in points if at >= since_s]
                )
            )
        return found


def _tag(label: str, tag: str) -> str:
    """The value of a tag in a label.

    >>> _tag("served{deployment=D, route=/a}", "deployment")
    'D'
    """
    found = re.search(rf"[{{ ]{re.escape(tag)}=([^,}}]*)", label)
    return found.group(1) if found else ""


def _values(rows: list[tuple[float, Sample]], until_s: float) -> list[tuple[float, float]]:
    return [*((at, float(row[2])) for at, row in rows), (until_s, float(rows[-1][1][2]))]


def _rates(rows: list[tuple[float, Sample]], until_s: float) -> list[tuple[float, float]]:
    """Increase in each second, between two samples; nothing while it was not in any."""
    found: list[tuple[float, float]] = []
    for (at, row), (then, after) in pairwise(rows):
        # After a pause it began to move one interval before the sample that shows it; intervals vary a little.
        began = at if then - at < 1.5 * EVERY_S else then - EVERY_S
        if began > at:
            found += [(at + 0.001, 0.0), (began - 0.001, 0.0)]
        found.append((then, max(0.0, float(after[2]) - float(row[2])) / max(1e-3, then - began)))
    if rows and until_s - rows[-1][0] > 1.5 * EVERY_S:
        found += [(rows[-1][0] + EVERY_S, 0.0), (until_s, 0.0)]
    return found


def _means(rows: list[tuple[float, Sample]], _until_s: float) -> list[tuple[float, float]]:
    found = []
    before = (0.0, 0.0)
    for at, row in rows:
        total, count = float(row[2]), float(row[3])
        if count > before[1]:
            found.append((at, (total - before[0]) / (count - before[1])))
        before = (total, count)
    return found


_POINTS = {COUNTER: _rates, HISTOGRAM: _means, GAUGE: _values}
