"""Where in the table of attempts to look: which rows lie in which stretch of time, and hold which tasks.

::

    rows of `attempts`, in the order they were read   1 ────── 4,100 │ 4,101 ────── 9,000 │ …
    zones                                             times, owner,  │ times, owner,      │
                                                      numbers        │ numbers            │

A million rows are too many to look through for each question, and an index for each column would double the time of the
first one. Rows that were read together were written together, so a few figures for each stretch of them say where a
task or a moment can be. Owns the table `zones`, and the conditions in SQL that follow from it: each admits at least the
rows that are asked for, so the question keeps its own condition beside it. Runs where the index is used.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterable

from sundog.events import EVENT_BYTES
from sundog.ids import PROCESS_BYTES, TASK_BYTES, number_of
from sundog.plain import SqlRow, plain

_ROWS = 4096  # a zone takes rows on until it has this many
_MOST = (1 << 63) - 1
_RANGES_MAX = 50


@plain()
class _Zone:
    """A stretch of rows; `owner` is None if their tasks have several."""

    first: int
    last: int
    owner: bytes | None
    low: int
    high: int

    def takes(self) -> bool:
        return self.last - self.first < _ROWS

    def extend(self, count: int, owner: bytes | None, low: int, high: int) -> None:
        self.last += count
        self.owner = owner if owner == self.owner else None
        self.low, self.high = min(self.low, low), max(self.high, high)


class Zones:
    """What is told of new rows, within one transaction of the index."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._next = (db.execute("SELECT max(id) FROM attempts").fetchone()[0] or 0) + 1
        self._new: list[_Zone] = []
        found = db.execute(
            "SELECT first, last, owner, low, high FROM zones ORDER BY first DESC LIMIT 1"
        ).fetchone()
        if found is not None and found[1] == self._next - 1 and _Zone(*found).takes():
            self._new.append(_Zone(*found))

    def add_events(self, data: bytes) -> None:
        """Rows were made of these events, one of each."""
        count = len(data) // EVENT_BYTES
        if sys.byteorder != "little":
            self.add([data[at : at + TASK_BYTES] for at in range(0, len(data), EVENT_BYTES)])
            return
        longs = memoryview(data).cast("Q")
        owners, numbers = longs[0::8].tolist(), longs[1::8].tolist()
        owner = data[:PROCESS_BYTES] if min(owners) == max(owners) else None
        self._add(count, owner, min(numbers), max(numbers))

    def add(self, task_ids: list[bytes]) -> None:
        """Rows were made of these tasks, one of each."""
        if task_ids:
            numbers = [number_of(each) for each in task_ids]
            owners = {each[:PROCESS_BYTES] for each in task_ids}
            self._add(len(task_ids), owners.pop() if len(owners) == 1 else None, min(numbers), max(numbers))

    def _add(self, count: int, owner: bytes | None, low: int, high: int) -> None:
        low, high = min(low, _MOST), min(high, _MOST)
        if self._new and self._new[-1].takes() and self._new[-1].last == self._next - 1:
            self._new[-1].extend(count, owner, low, high)
        else:
            self._new.append(_Zone(self._next, self._next + count - 1, owner, low, high))
        self._next += count

    def save(self) -> None:
        """Write what was added, with the times of the rows."""
        for each in self._new:
            self._db.execute(
                "INSERT OR REPLACE INTO zones SELECT ?, ?, ?, ?, ?, min(submit_s), min(start_s), max(end_s) "
                "FROM attempts WHERE id BETWEEN ? AND ?",
                (each.first, each.last, each.owner, each.low, each.high, each.first, each.last),
            )
        del self._new[:-1]


# ---------------------------------------------------------------------- asking
def during(db: sqlite3.Connection, from_s: float, to_s: float) -> str:
    """The condition on `a.id` of attempts that touch a stretch of time."""
    return _condition(
        db.execute(
            "SELECT first, last FROM zones WHERE end_s >= ? AND start_s <= ? ORDER BY first", (from_s, to_s)
        )
    )


def holding(db: sqlite3.Connection, task_ids: Iterable[bytes]) -> str:
    """The condition on `a.id` of the attempts of some tasks."""
    numbers: dict[bytes, list[int]] = {}
    for task_id in task_ids:
        numbers.setdefault(task_id[:PROCESS_BYTES], []).append(min(number_of(task_id), _MOST))
    found: set[tuple[int, int]] = set()
    for owner, some in numbers.items():
        found.update(
            db.execute(
                "SELECT first, last FROM zones WHERE owner IS NULL OR (owner = ? AND low <= ? AND high >= ?)",
                (owner, max(some), min(some)),
            )
        )
    return _condition(sorted(found))


def bounds(db: sqlite3.Connection) -> tuple[float, float]:
    """When the first task was submitted, and when the last one ended; (0, 0) if there is none."""
    low, high = db.execute("SELECT min(submit_s), max(end_s) FROM zones").fetchone()
    return low or 0.0, high or 0.0


def _condition(found: Iterable[SqlRow]) -> str:
    ranges: list[list[int]] = []
    for first, last in found:
        if ranges and first <= ranges[-1][1] + 1:
            ranges[-1][1] = max(ranges[-1][1], last)
        else:
            ranges.append([first, last])
    if len(ranges) > _RANGES_MAX:  # a condition with this many parts costs more than the rows in between
        ranges = [[ranges[0][0], ranges[-1][1]]]
    parts = [f"a.id BETWEEN {first:d} AND {last:d}" for first, last in ranges]
    return f"({' OR '.join(parts)})" if parts else "0"
