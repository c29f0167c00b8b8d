"""Ended tasks as bars on lanes, at the grain that a screen can show.

::

    index (attempts, read on) ──► TaskStream: arrays per process ──► bars(window) ──► at most BARS_MAX bars

Owns what is kept in memory (the newest `KEPT` attempts, 29 bytes each) and the merging: tasks narrower than a few
pixels that lie side by side become one bar that says how many they are, so a million tasks are drawn as fast as a
thousand. Runs in the caller's process; one thread at a time.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator

from sundog import events
from sundog.observe.index import Index
from sundog.plain import NamedTuple, field, plain

KEPT = 1_000_000
BARS_MAX = 6000
_PORTION = 100_000
_GROUP = 64
_PIXELS = 600  # bars narrower than this part of the window are merged


class Bar(NamedTuple):
    """One or several attempts, side by side in one lane."""

    start_s: float
    end_s: float
    name: int  # the name of the longest one
    failed: bool  # any of them
    tasks: int  # how many
    id: int  # of the row of the first in the index


@plain()
class StreamLane:
    """The attempts of one process, in the order in which they ended."""

    process: int
    label: str
    starts: array[float] = field(default_factory=lambda: array("d"))
    ends: array[float] = field(default_factory=lambda: array("d"))
    names: array[int] = field(default_factory=lambda: array("I"))
    failed: bytearray = field(default_factory=bytearray)
    ids: array[int] = field(default_factory=lambda: array("q"))
    groups: list[Bar] = field(default_factory=list)  # of each `_GROUP` attempts

    def add(self, start_s: float, end_s: float, name: int, failed: bool, id_: int) -> None:
        """Add one more attempt, which ended last."""
        self.starts.append(start_s)
        self.ends.append(end_s)
        self.names.append(name)
        self.failed.append(failed)
        self.ids.append(id_)
        if len(self.ends) % _GROUP == 0:
            self.groups.extend(merge(map(self._bar, range(len(self.ends) - _GROUP, len(self.ends))), 1e12))

    def _bar(self, at: int) -> Bar:
        return Bar(self.starts[at], self.ends[at], self.names[at], bool(self.failed[at]), 1, self.ids[at])

    def between(self, start_s: float, end_s: float, longest_s: float, grain_s: float) -> Iterator[Bar]:
        """The attempts that overlap a window; groups as a whole where they are finer than the grain."""
        low = bisect_left(self.ends, start_s)
        # Sorted by their ends: bars that end after the window may have begun in it.
        high = min(len(self.ends), bisect_left(self.ends, end_s + longest_s) + 1)
        at = low
        while at < high:
            number, rest = divmod(at, _GROUP)
            if rest == 0 and at + _GROUP <= high and number < len(self.groups):
                group = self.groups[number]
                if group.end_s - group.start_s < grain_s and group.start_s <= end_s:
                    yield group
                    at += _GROUP
                    continue
            if self.starts[at] <= end_s:
                yield self._bar(at)
            at += 1

    def forget(self, count: int) -> int:
        """Drop the oldest, whole groups of them; how many that were."""
        count = max(1, count // _GROUP) * _GROUP
        for column in (self.starts, self.ends, self.names, self.failed, self.ids):
            del column[:count]
        del self.groups[: count // _GROUP]
        return count


class TaskStream:
    """The ended tasks of one session, read on from its index."""

    def __init__(self) -> None:
        self.lanes: dict[int, StreamLane] = {}
        self.names: dict[int, str] = {}
        self.colors: dict[str, int] = {}  # functions in the order in which they were first seen
        self.count = 0
        self.total = 0
        self.last_id = 0
        self.longest_s = 0.0
        self.first_s = self.last_s = 0.0
        self.per_second: dict[int, Counter[int]] = {}  # second: how many of each name ended

    def read(self, index: Index) -> int:
        """Take what is new; how many that were."""
        before = self.total
        while True:
            rows = index.rows(
                "SELECT id, process, start_s, end_s, name, flags FROM attempts WHERE id > ? ORDER BY id LIMIT ?",
                self.last_id,
                _PORTION,
            )
            for row in rows:
                self._take(index, *row)
            if len(rows) < _PORTION:
                break
        self._bound()
        return self.total - before

    def _take(
        self, index: Index, id_: int, process: int, start_s: float, end_s: float, name: int, flags: int
    ) -> None:
        self.last_id = id_
        lane = self.lanes.get(process)
        if lane is None:
            lane = self.lanes[process] = StreamLane(process, _label(index, process))
        if name not in self.names:
            self.names[name] = str(index.one("SELECT text FROM names WHERE id = ?", name) or "?")
            self.colors.setdefault(self.names[name], len(self.colors))
        if lane.ends and end_s < lane.ends[-1]:
            end_s = lane.ends[-1]  # reported late, by the owner of a lost task
        lane.add(min(start_s, end_s), end_s, name, bool(flags & events.FAILED), id_)
        self.count += 1
        self.total += 1
        self.longest_s = max(self.longest_s, end_s - start_s)
        self.first_s = min(self.first_s or start_s, start_s)
        self.last_s = max(self.last_s, end_s)
        self.per_second.setdefault(int(end_s), Counter())[name] += 1

    def _bound(self) -> None:
        while self.count > KEPT:
            lane = max(self.lanes.values(), key=lambda each: len(each.ends))
            if len(lane.ends) < _GROUP:
                return
            self.count -= lane.forget(len(lane.ends) // 4)
        while len(self.per_second) > 4000:
            del self.per_second[min(self.per_second)]

    def bars(self, start_s: float, end_s: float) -> dict[int, list[Bar]]:
        """What a window shows, by process: whole tasks where there is room for them, merged ones elsewhere."""
        grain = max(1e-9, (end_s - start_s) / _PIXELS)
        while True:
            found = {
                process: merge(lane.between(start_s, end_s, self.longest_s, grain), grain)
                for process, lane in self.lanes.items()
            }
            if sum(map(len, found.values())) <= BARS_MAX or grain > end_s - start_s:
                return {process: bars for process, bars in found.items() if bars}
            grain *= 2

    def rates(self, since_s: float) -> dict[str, dict[int, int]]:
        """How many tasks ended in each second, by function, from a moment on."""
        found: dict[str, dict[int, int]] = {}
        for second, counts in sorted(self.per_second.items()):
            if second >= since_s:
                for name, count in counts.items():
                    row = found.setdefault(self.names[name], {})
                    row[second] = row.get(second, 0) + count
        return found


def merge(tasks: Iterable[Bar], grain_s: float) -> list[Bar]:
    """Bars of one lane: those shorter than the grain join their neighbours.

    >>> rows = [Bar(0.0, 0.1, 1, False, 1, 1), Bar(0.1, 0.2, 1, True, 1, 2), Bar(5.0, 9.0, 2, False, 1, 3)]
    >>> [(bar.start_s, bar.end_s, bar.tasks, bar.failed) for bar in merge(rows, 1.0)]
    [(0.0, 0.2, 2, True), (5.0, 9.0, 1, False)]
    """
    found: list[Bar] = []
    busy: Counter[int] = Counter()
    begun = end = 0.0
    first = count = 0
    failed = False

    def close() -> None:
        if count:
            found.append(Bar(begun, end, busy.most_common(1)[0][0], failed, count, first))

    for task in tasks:
        if task.end_s - task.start_s >= grain_s:
            close()
            count = 0
            found.append(task)
            continue
        # A merged bar is no wider than a few pixels: where something failed, or another function ran, shows.
        if not count or task.start_s - end > grain_s or task.end_s - begun > grain_s:
            close()
            begun, end, first, count, failed = task.start_s, task.end_s, task.id, 0, False
            busy.clear()
        end = max(end, task.end_s)
        begun = min(begun, task.start_s)
        count += task.tasks
        failed = failed or task.failed
        busy[task.name] += int(1e9 * (task.end_s - task.start_s)) + 1
    close()
    return found


def _label(index: Index, process: int) -> str:
    rows = index.rows("SELECT pid, role, class_name, actor_name FROM processes WHERE id = ?", process)
    if not rows:
        return "?"
    pid, role, class_name, actor_name = rows[0]
    what = actor_name or class_name or role
    return f"{what} {pid}"
