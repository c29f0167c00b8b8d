"""What the page shows, asked of one session: its node while it runs, its records always.

Owns the questions, how long an answer is shared by all pages (`_FRESH_S`), and the paging of long lists. Everything
comes from the functions that commands use (`observe`, `util.state`); nothing here is on a task's way, and nothing is
asked while no page is open. Methods block: call them in a thread. Any thread may.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from sundog.dashboard.facts import FactTail
from sundog.dashboard.serving import ServePicture, ServeWatch
from sundog.dashboard.stream import TaskStream
from sundog.observe import index as records
from sundog.observe import metric_files, troubles
from sundog.observe.activity import Activity, Watcher, tally
from sundog.observe.live_totals import LiveTotals
from sundog.observe.memory import MemoryPicture
from sundog.observe.memory import collect as collect_memory
from sundog.observe.sessions import NoSuchSession, Opened, open_session
from sundog.observe.stacks import StackGroup, fold, heading
from sundog.observe.stacks import collect as collect_stacks
from sundog.observe.why import Story, explain
from sundog.observe.why_facts import Gatherer, Unknown
from sundog.plain import NamedTuple
from sundog.wire.pauses import Pause
from sundog.wire.requests import ListRows, PausedTasks, Status

if TYPE_CHECKING:
    from typing import NotRequired, TypedDict

    from sundog.wire.status import JobFigures

    class _Ended(TypedDict):
        """An attempt that has ended, as the index of the records has it."""

        task_id: str
        attempt: int
        name: str
        kind: int
        flags: int
        submit_s: float
        start_s: float
        end_s: float
        cpu_s: float
        peak_bytes: int
        pid: int

    class _ToldTask(TypedDict):
        """A task that has not ended, as its owner tells of it."""

        task: str
        attempt: int
        name: str
        state: str
        pid: NotRequired[int]
        submit_s: float


T = TypeVar("T")
Cells = Mapping[str, object]
"""A row of a table: its values by the keys of the columns."""

_FRESH_S = 0.6
_MANY = 10_000
UNFINISHED, ENDED, FAILED, ANY = "unfinished", "ended", "failed", "all"
_SORTS = {
    "name": "n.text",
    "duration": "a.end_s - a.start_s",
    "queued": "a.start_s - a.submit_s",
    "cpu": "a.cpu_s",
    "memory": "a.peak_bytes",
    "started": "a.id",
    "pid": "p.pid",
    "attempt": "a.attempt",
}


class TablePage(NamedTuple):
    """A part of a list, and how long all of it is."""

    rows: Sequence[Cells]
    total: int


class Wanted(NamedTuple):
    """Which part of a list: filter, order and page."""

    text: str = ""
    state: str = ANY
    sort: str = ""
    descending: bool = True
    first: int = 0
    most: int = 50


class PageSource:
    """One session, for all browsers that look at it.

    Args:
        opened: the session.
    """

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.path = opened.path
        self.name = opened.name
        self.facts = FactTail(opened.path)
        self.stream = TaskStream()
        self._serving = ServeWatch(opened.path)
        self._watcher: Watcher | None = None
        self._locks: dict[str, threading.Lock] = {}
        self._made: dict[str, tuple[float, object]] = {}
        self._lock = threading.Lock()

    @property
    def is_live(self) -> bool:
        """Whether its node runs, as far as is known."""
        return self.opened.is_live

    def _check_live(self) -> None:
        """A session that did not answer may have ended."""
        try:
            self.opened = open_session(self.path)
        except NoSuchSession:
            self.opened = Opened(self.name, self.path)

    def _shared(self, key: str, make: Callable[[], T], fresh_s: float = _FRESH_S) -> T:
        """An answer that all readers of the same moment share."""
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            made_s, value = self._made.get(key, (-1e9, None))
            if time.monotonic() - made_s < fresh_s:
                return cast(T, value)  # each key stands for one kind of answer
            made = make()
            self._made[key] = (time.monotonic(), made)
            return made

    def _asked(self, make: Callable[[], T], otherwise: T) -> T:
        if not self.opened.is_live:
            return otherwise
        try:
            return make()
        except (ConnectionError, OSError):
            self._check_live()
            return otherwise

    # ------------------------------------------------------------------ now
    def activity(self) -> Activity:
        """One look at functions, processes and the machine; of an ended session its totals."""
        return self._shared("activity", lambda: self._asked(self._look, None) or self._ended())

    def _look(self) -> Activity:
        if self._watcher is None:
            self._watcher = Watcher(self.opened.ask, self.path)
        return self._watcher.look()

    def _ended(self) -> Activity:
        totals = LiveTotals(self.path, whole=True).read()
        return Activity(time.time(), tally((), totals), [])

    def read_facts(self) -> FactTail:
        """Deaths, spills and samples of the machine so far."""

        def read() -> FactTail:
            self.facts.read()
            return self.facts

        return self._shared("facts", read)

    def read_stream(self) -> TaskStream:
        """The ended tasks so far."""

        def read() -> TaskStream:
            with records.opened(self.path) as index:
                self.stream.read(index)
            return self.stream

        return self._shared("stream", read)

    def user_metrics(self) -> list[metric_files.Series]:
        """The program's own metrics."""
        return self._shared("metrics", lambda: metric_files.summed(metric_files.read(self.path)))

    def serving(self) -> ServePicture | None:
        """Serve's applications, deployments and replicas; None where it never ran."""
        return self._shared("serving", lambda: self._serving.look(self.user_metrics(), self.is_live))

    # ------------------------------------------------------------------ troubles and reasons
    def troubles(self) -> list[troubles.Trouble]:
        """What went wrong, the most interesting first."""

        def find() -> list[troubles.Trouble]:
            with records.opened(self.path) as index:
                return troubles.find(Gatherer(self.opened, index))

        return self._shared("troubles", lambda: self._tried(find, []), 3.0)

    def why(self, what: str) -> Story | str:
        """The story of a task, actor, object, process or job; a sentence if there is none."""
        with records.opened(self.path) as index:
            try:
                return explain(Gatherer(self.opened, index).find(what))
            except Unknown as error:
                return str(error)
            except (ConnectionError, OSError):
                self._check_live()
                return explain(Gatherer(self.opened, index).find(what))

    def _tried(self, make: Callable[[], T], otherwise: T) -> T:
        try:
            return make()
        except (ConnectionError, OSError):
            self._check_live()
            return otherwise

    # ------------------------------------------------------------------ lists
    def tasks(self, wanted: Wanted) -> TablePage:
        """Tasks and calls: those that have not ended first, then the newest."""
        told = self._unfinished(wanted) if wanted.state in (ANY, UNFINISHED) else []
        first = told[wanted.first : wanted.first + wanted.most]
        if wanted.state == UNFINISHED:
            return TablePage(first, len(told))
        with records.opened(self.path) as index:
            where, values = _where(wanted)
            base = (
                "FROM attempts a LEFT JOIN names n ON n.id = a.name LEFT JOIN processes p ON p.id = a.process "
                f"WHERE {where}"
            )
            if values or wanted.state == FAILED:
                total = int(index.one(f"SELECT count(*) {base}", *values) or 0)
            else:
                total = int(index.one("SELECT count(*) FROM attempts") or 0)
            order = _SORTS.get(wanted.sort, "a.id")
            rows = index.dicts(
                "SELECT lower(hex(a.task_id)) AS task_id, a.attempt AS attempt, n.text AS name, a.kind AS kind, "
                "a.flags AS flags, a.submit_s AS submit_s, a.start_s AS start_s, a.end_s AS end_s, a.cpu_s AS cpu_s, "
                f"a.peak_bytes AS peak_bytes, p.pid AS pid {base} ORDER BY {order} "
                f"{'DESC' if wanted.descending else 'ASC'} LIMIT ? OFFSET ?",
                *values,
                wanted.most - len(first),
                max(0, wanted.first - len(told)),
            )
        ended = cast("list[_Ended]", rows)
        return TablePage([*first, *map(_ended_row, ended)], len(told) + total)

    def _unfinished(self, wanted: Wanted) -> list[Cells]:
        def ask() -> list[_ToldTask]:
            rows, _ = self.opened.ask(ListRows("tasks"))
            return cast("list[_ToldTask]", [row for row in rows if "count" not in row][:_MANY])

        none: list[_ToldTask] = []
        rows = self._shared("unfinished", lambda: self._asked(ask, none))
        text = wanted.text.lower()
        return [_told_row(row) for row in rows if text in f"{row['name']} {row['task']}".lower()]

    def listing(self, kind: str, wanted: Wanted) -> TablePage:
        """Rows of the state API: actors, workers, nodes, jobs, placement_groups, runtime_envs."""
        from sundog.util.state import questions
        from sundog.util.state.exception import RayStateApiException

        def find() -> list[dict[str, object]]:
            try:
                return questions.ask(kind, True, self.path, False)
            except (RayStateApiException, ConnectionError, OSError):
                self._check_live()
                return []

        rows = self._shared(f"list-{kind}", find)
        return page_of(rows, wanted)

    def memory(self) -> MemoryPicture | None:
        """Which process holds which object; None of an ended session."""

        def ask() -> MemoryPicture | None:
            info = self.opened.info
            return collect_memory(self.opened.ask, self.path, info.shm_root) if info is not None else None

        return self._shared("memory", lambda: self._asked(ask, None), 2.0)

    def stacks(self) -> list[tuple[str, StackGroup]]:
        """What every process is doing, equal stacks folded."""

        def ask() -> list[tuple[str, StackGroup]]:
            seen = collect_stacks(self.opened.ask, self.path)
            wall_s = time.time()
            return [(heading(group, wall_s), group) for group in fold(seen)]

        return self._shared("stacks", lambda: self._asked(ask, []))

    def tenants(self) -> list[JobFigures]:
        """What each job has and may have of CPUs, memory and object store; nothing of an ended session."""

        def ask() -> list[JobFigures]:
            return list(self.opened.ask(Status())["jobs"])

        return self._shared("tenants", lambda: self._asked(ask, []))

    def paused(self) -> list[Pause]:
        """Tasks that stand in a debugger."""
        none: list[Pause] = []
        return self._shared("paused", lambda: self._asked(lambda: self.opened.ask(PausedTasks()), none))


def _where(wanted: Wanted) -> tuple[str, list[object]]:
    parts, values = ["NOT a.flags & 4"], list[object]()
    if wanted.state == FAILED:
        parts.append("a.flags & 1")
    for word in wanted.text.split():
        parts.append("(instr(lower(n.text), ?) OR lower(hex(a.task_id)) LIKE ? OR p.pid = ?)")
        values += [word.lower(), f"{word.lower()}%", int(word) if word.isdigit() else -1]
    return " AND ".join(parts), values


def _ended_row(row: _Ended) -> Cells:
    flags = row["flags"]
    return {
        "key": f"{row['task_id']}-{row['attempt']}",
        "task_id": row["task_id"],
        "name": row["name"],
        "state": "LOST" if flags & 16 else "FAILED" if flags & 1 else "FINISHED",
        "attempt": row["attempt"],
        "pid": row["pid"],
        "started": row["start_s"],
        "queued": max(0.0, row["start_s"] - row["submit_s"]) if row["submit_s"] else None,
        "duration": row["end_s"] - row["start_s"],
        "cpu": row["cpu_s"],
        "memory": row["peak_bytes"],
    }


def _told_row(row: _ToldTask) -> Cells:
    wall_s = time.time()
    return {
        "key": f"{row['task']}-{row['attempt']}",
        "task_id": row["task"],
        "name": row["name"],
        "state": row["state"],
        "attempt": row["attempt"],
        "pid": row.get("pid") or None,
        "started": None,
        "queued": max(0.0, wall_s - row["submit_s"]),
        "duration": None,
        "cpu": None,
        "memory": None,
    }


def page_of(rows: Sequence[Cells], wanted: Wanted) -> TablePage:
    """A part of rows that are all in memory: filtered by every word, in order, and cut.

    >>> page_of([{"a": 1}, {"a": 3}, {"a": 2}], Wanted(sort="a", most=2)).rows
    [{'a': 3}, {'a': 2}]
    """
    words = wanted.text.lower().split()
    found = [row for row in rows if all(word in _text(row) for word in words)] if words else list(rows)
    if wanted.sort:
        found.sort(key=lambda row: _order(row.get(wanted.sort)), reverse=wanted.descending)
    return TablePage(found[wanted.first : wanted.first + wanted.most], len(found))


def _text(row: Cells) -> str:
    return " ".join(str(value) for value in row.values() if value is not None).lower()


def _order(value: object) -> tuple[int, float, str]:
    if isinstance(value, int | float):
        return (1, float(value), "")
    return (2, 0.0, str(value)) if value is not None else (0, 0.0, "")
