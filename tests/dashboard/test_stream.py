"""Ended tasks as bars: what a window shows, and how much of it."""

from __future__ import annotations

import sqlite3

from sundog.dashboard import stream as streams
from sundog.dashboard.stream import BARS_MAX, Bar, TaskStream, merge
from sundog.observe.index import Index


class Rows:
    """An index with attempts of our choice."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:")
        self.db.executescript(
            "CREATE TABLE attempts(id INTEGER PRIMARY KEY, process INTEGER, start_s REAL, end_s REAL, name INTEGER,"
            " flags INTEGER); CREATE TABLE names(id INTEGER PRIMARY KEY, text TEXT);"
            "CREATE TABLE processes(id INTEGER PRIMARY KEY, pid INTEGER, role TEXT, class_name TEXT, actor_name TEXT);"
            "INSERT INTO names VALUES(1, 'f'), (2, 'g');"
            "INSERT INTO processes VALUES(1, 11, 'worker', '', ''), (2, 12, 'worker', 'A', 'store');"
        )
        self.index = Index("", self.db)

    def add(self, process: int, start_s: float, end_s: float, name: int = 1, flags: int = 0) -> None:
        self.db.execute(
            "INSERT INTO attempts(process, start_s, end_s, name, flags) VALUES(?, ?, ?, ?, ?)",
            (process, start_s, end_s, name, flags),
        )


def test_only_what_is_new_is_read() -> None:
    rows, stream = Rows(), TaskStream()
    rows.add(1, 1.0, 2.0)
    assert stream.read(rows.index) == 1
    rows.add(2, 2.0, 3.0, 2, 1)
    assert stream.read(rows.index) == 1 and stream.read(rows.index) == 0
    assert [lane.label for lane in stream.lanes.values()] == ["worker 11", "store 12"]
    assert (stream.first_s, stream.last_s, stream.longest_s) == (1.0, 3.0, 1.0)
    assert stream.names == {1: "f", 2: "g"}


def test_a_window_shows_what_overlaps_it() -> None:
    rows, stream = Rows(), TaskStream()
    for start in range(10):
        rows.add(1, float(start), start + 0.9)
    stream.read(rows.index)
    bars = stream.bars(2.5, 4.5)[1]
    assert [bar.start_s for bar in bars] == [2.0, 3.0, 4.0]
    assert stream.bars(100.0, 101.0) == {}


def test_short_tasks_are_merged_and_a_zoom_shows_them_one_by_one() -> None:
    rows, stream = Rows(), TaskStream()
    for number in range(20_000):
        rows.add(1, number / 1000, number / 1000 + 0.0009, 1 + number % 2, number == 7)
    stream.read(rows.index)
    bars = stream.bars(0.0, 20.0)[1]
    assert len(bars) < BARS_MAX and sum(bar.tasks for bar in bars) == 20_000
    assert [bar.failed for bar in bars].count(True) == 1 and bars[0].failed
    close = stream.bars(5.0, 5.0095)[1]
    assert [bar.tasks for bar in close].count(1) >= 9


def test_many_lanes_never_give_more_bars_than_the_limit() -> None:
    rows, stream = Rows(), TaskStream()
    for process in range(1, 31):
        for number in range(600):
            rows.add(process, float(number), number + 0.99)
    stream.read(rows.index)
    assert sum(map(len, stream.bars(0.0, 600.0).values())) <= BARS_MAX


def test_a_task_that_was_told_late_does_not_break_the_order() -> None:
    rows, stream = Rows(), TaskStream()
    rows.add(1, 5.0, 6.0)
    rows.add(1, 1.0, 2.0, flags=17)
    stream.read(rows.index)
    assert list(stream.lanes[1].ends) == sorted(stream.lanes[1].ends)
    assert len(stream.bars(0.0, 10.0)[1]) == 2


def test_the_oldest_tasks_are_forgotten_beyond_the_limit() -> None:
    rows, stream = Rows(), TaskStream()
    before, streams.KEPT = streams.KEPT, 100
    try:
        for number in range(300):
            rows.add(1, float(number), number + 0.5)
        stream.read(rows.index)
    finally:
        streams.KEPT = before
    assert stream.count == len(stream.lanes[1].ends) <= 100 and stream.total == 300
    assert stream.lanes[1].ends[-1] == 299.5


def test_rates_are_counted_by_second_and_function() -> None:
    rows, stream = Rows(), TaskStream()
    for end in (1.1, 1.2, 2.5):
        rows.add(1, 1.0, end)
    rows.add(2, 1.0, 2.6, 2)
    stream.read(rows.index)
    assert stream.rates(0) == {"f": {1: 2, 2: 1}, "g": {2: 1}}
    assert stream.rates(2) == {"f": {2: 1}, "g": {2: 1}}


def test_a_long_task_between_short_ones_stays_its_own_bar() -> None:
    tasks = [Bar(0.0, 0.01, 1, False, 1, 1), Bar(0.01, 5.0, 2, False, 1, 2), Bar(5.0, 5.01, 1, False, 1, 3)]
    assert sorted((bar.start_s, bar.tasks) for bar in merge(tasks, 1.0)) == [(0.0, 1), (0.01, 1), (5.0, 1)]
