"""Rows of tasks that a question asks for: filtered, limited and counted in the index, so that a million cost no more
than what is shown.

::

    filters ──► SQL (exact, or more than was asked for) ──► the rows ──► task_states.rows_of ──► filtered once more
    what owners tell of unfinished tasks ────────────────────────────────►┘

Owns the translation of the state API's filters into SQL, and what an ended session says of tasks that were running.
Reads the index. Runs in the caller's process and thread.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from sundog.observe.index import Index
from sundog.observe.records import (
    SessionRows,
    add_errors,
    add_sites,
    add_traffic,
    base_rows,
    tasks_where,
)
from sundog.observe.schema import KINDS
from sundog.observe.sites import site_of
from sundog.observe.task_states import DRIVER_TASK_ID_PREFIX, rows_of
from sundog.plain import JsonMapping, JsonObject, SqlRow, plain

if TYPE_CHECKING:
    from sundog.observe.timeline import TaskRow

Row = JsonObject
Filter = tuple[str, str, object]
Matches = Callable[[JsonMapping, Sequence[Filter]], bool]

_CHUNK = 2000
_SITES_MAX = 1000
_VISIBLE = "NOT a.flags & 4"
_NEVER, _ALWAYS = "0", "1"
_DEATHS = frozenset({"WORKER_DIED", "OUT_OF_MEMORY", "ACTOR_DIED"})
_EXIT_DETAIL = (
    "SELECT json_extract(json, '$.row.exit_detail') FROM facts WHERE kind = 'worker' AND subject = ?"
)
_OWNER = "substr(a.task_id, 1, 8)"


@plain(frozen=True)
class SqlCondition:
    """A condition in SQL; `exact`: it is true of the rows that were asked for and of no other."""

    sql: str
    values: SqlRow = ()
    exact: bool = True


@plain(frozen=True)
class Scene:
    """What a question needs to know of its session beside the index."""

    node_id: str
    path: str
    is_live: bool


class TaskQuery:
    """Questions about the tasks of one session."""

    def __init__(self, index: Index, scene: Scene, matches: Matches) -> None:
        self.index = index
        self.scene = scene
        self._matches = matches
        self.base = base_rows(index)

    # ------------------------------------------------------------------ rows
    def rows(
        self, filters: Sequence[Filter], limit: int, told: Sequence[JsonMapping], *, detail: bool
    ) -> tuple[list[Row], int]:
        """Rows that pass all filters, in the order of their ids, at most `limit`; and how many there are in all."""
        where, values, exact = self._where(filters)
        unfinished = [row for row in self.unfinished(told) if self._matches(row, filters)]
        if exact:
            total = self.index.one(f"SELECT count(*) FROM attempts a WHERE {where}", *values)
            chosen = (
                f"SELECT a.id FROM attempts a WHERE {where} ORDER BY a.task_id, a.attempt LIMIT {int(limit)}"
            )
            found = self._states(
                tasks_where(self.index, self.base, f"WHERE a.id IN ({chosen})", values), detail
            )
        else:
            found = []
            source = tasks_where(
                self.index, self.base, f"WHERE {where} ORDER BY a.task_id, a.attempt", values
            )
            total = 0
            while chunk := list(islice(source, _CHUNK)):
                passed = [row for row in self._states(iter(chunk), detail) if self._matches(row, filters)]
                total += len(passed)
                found += passed[: max(0, limit - len(found))]
        both = sorted(found + unfinished, key=lambda row: (row["task_id"], row["attempt_number"]))
        return both[:limit], total + len(unfinished)

    def counts(self, told: Sequence[JsonMapping]) -> list[Row]:
        """How many attempts there are of each name, type and state: rows with a `count`."""
        found = self.index.rows(
            "SELECT n.text, c.kind, c.failed, p.repr_name, p.actor_name, n.function, sum(c.count) FROM counts c "
            "LEFT JOIN names n ON n.id = c.name LEFT JOIN processes p ON p.id = c.process "
            "GROUP BY c.name, c.kind, c.failed, p.repr_name, p.actor_name"
        )
        counted: Counter[tuple[str, str, str]] = Counter()
        for text, kind, failed, repr_name, actor_name, function, count in found:
            name = text or "?"
            if not function or function == name:
                if kind == 2 and repr_name:
                    name = f"{repr_name}.{name.rpartition('.')[2]}"
                elif kind == 3 and actor_name:
                    name = f"{actor_name}:{name}"
            counted[name, KINDS[kind], "FAILED" if failed else "FINISHED"] += count
        for row in self.unfinished(told):
            counted[row["name"], row["type"], row["state"]] += 1
        return [
            {"name": name, "type": type_, "state": state, "count": count}
            for (name, type_, state), count in counted.items()
        ]

    # ------------------------------------------------------------------ what has not ended
    def unfinished(self, told: Sequence[JsonMapping]) -> list[Row]:
        """Tasks without a record of their end: as their owners tell; of an ended session those that were running."""
        facts = list(told) if self.scene.is_live else self._left_running()
        orphans = self._orphans({each["task"] for each in told}) if self.scene.is_live else []
        keys = {
            (bytes.fromhex(each["task"]), each.get("attempt", 0)) for each in facts if not each.get("running")
        }
        ended = {(task.hex(), attempt) for task, attempt in self._there(keys)}
        alive = [
            each
            for each in facts
            if each.get("running") or (each["task"], each.get("attempt", 0)) not in ended
        ]
        base = self.base
        rows = SessionRows(begun=base.begun, blocked=base.blocked, processes=base.processes)
        rows.runs = self._runs({bytes.fromhex(each["task"])[:8] for each in alive})
        for each in alive[:_SITES_MAX]:
            site = site_of(self.index, bytes.fromhex(each["task"]), each.get("function", ""))
            if site:
                rows.sites[each["task"]] = site
        built = rows_of(rows, alive, self.scene.node_id, self.scene.path)
        if not self.scene.is_live:
            self._fail(built, alive, "It was running when its session ended.")
        if orphans:
            lost = rows_of(rows, orphans, self.scene.node_id, self.scene.path)
            self._fail(lost, orphans, "Its process ended, and so did the one that had submitted it.")
            built += lost
        return built

    def _fail(self, rows: Sequence[Row], facts: Sequence[JsonMapping], message: str) -> None:
        for row, each in zip(rows, facts):
            row.update(
                state="FAILED",
                error_type="WORKER_DIED",
                error_message=message + each["where"],
                start_time_ms=int(each["start_s"] * 1000),
                worker_id=each["worker"],
                worker_pid=each["pid"],
                node_id=self.scene.node_id,
            )

    def _orphans(self, told: set[str]) -> list[JsonObject]:
        """What ended processes of a running session were doing for owners that have ended, too: no process tells of
        it."""
        gone = {subject for (subject,) in self.index.rows("SELECT subject FROM facts WHERE kind = 'worker'")}
        if not gone:
            return []
        found = []
        for each in self._left_running():
            if each["worker"] in gone and each["owner"] in gone and each["task"] not in told:
                task = bytes.fromhex(each["task"])
                ended = "SELECT 1 FROM attempts a WHERE a.task_id = ? AND a.end_s >= ? AND "
                if not self.index.one(ended + self.index.holding(task), task, each["start_s"]):
                    found.append(each)
        return found

    def _left_running(self) -> list[JsonObject]:
        """What the processes of an ended session were doing at the end, as an owner would tell it."""
        found = []
        for task, start_s, process_id, pid, actor_id, line, name, function in self.index.rows(
            "SELECT p.begun, p.begun_s, p.process_id, p.pid, p.actor_id, p.line, n.text, n.function FROM processes p "
            "LEFT JOIN names n ON n.id = p.begun_name WHERE p.begun != x''"
        ):
            kind = "actor_creation" if task == actor_id else "actor_task" if actor_id else "task"
            name = name or "?"
            found.append(
                {
                    "task": task.hex(),
                    "owner": task[:8].hex(),
                    "attempt": 0,
                    "name": name,
                    "function": function or name,
                    "kind": kind,
                    "actor": actor_id.hex(),
                    "resources": {},
                    "pg": "",
                    "submit_s": start_s,
                    "state": "RUNNING",
                    "start_s": start_s,
                    "worker": process_id.hex(),
                    "pid": pid,
                    "where": f" Its code was last seen at {line}." if line else "",
                }
            )
        return found

    def _there(self, keys: Iterable[tuple[bytes, int]]) -> set[tuple[bytes, int]]:
        """Which of these have ended; of an ended session, regardless of the attempt."""
        wanted = list(keys)
        if not wanted:
            return set()
        db = self.index.db
        db.execute("CREATE TEMP TABLE IF NOT EXISTS asked(task_id BLOB, attempt INTEGER)")
        db.execute("DELETE FROM asked")
        db.executemany("INSERT INTO asked VALUES(?, ?)", wanted)
        same = "AND w.attempt = a.attempt" if self.scene.is_live else ""
        found = db.execute(
            f"SELECT w.task_id, w.attempt FROM attempts a JOIN asked w ON w.task_id = a.task_id {same} "
            f"WHERE {self.index.holding(*(task for task, _ in wanted))}"
        ).fetchall()
        return set(found)

    # ------------------------------------------------------------------ rows of the state API
    def _states(self, tasks: Iterator[TaskRow], detail: bool) -> list[Row]:
        chosen = list(tasks)
        keys = {(task.task_id.hex(), task.attempt) for task in chosen}
        rows = SessionRows(begun=self.base.begun, processes=self.base.processes, tasks=chosen)
        add_errors(self.index, rows)
        if detail:
            add_sites(self.index, rows)
            add_traffic(self.index, rows)
            rows.tasks = [*chosen, *self._earlier(chosen)]
        rows.tasks = [task for task in rows.tasks if task.start_s is not None]
        rows.runs = self._runs({task.owner_id for task in chosen})
        built = rows_of(rows, (), self.scene.node_id, self.scene.path, detail=detail)
        for row in built if detail else ():
            if row["error_type"] in _DEATHS and not row["error_message"] and row["worker_id"]:
                row["error_message"] = self.index.one(
                    _EXIT_DETAIL, row["worker_id"]
                )  # of an attempt before the last
        return [row for row in built if (row["task_id"], row["attempt_number"]) in keys]

    def _earlier(self, chosen: list[TaskRow]) -> list[TaskRow]:
        """The attempts before those that are retries: a retry begins when the one before it ended."""
        retried = [task.task_id for task in chosen if task.attempt][:_CHUNK]
        if not retried:
            return []
        marks = ", ".join("?" * len(retried))
        have = {(task.task_id, task.attempt) for task in chosen}
        found = tasks_where(
            self.index,
            self.base,
            f"WHERE a.task_id IN ({marks}) AND {self.index.holding(*retried)}",
            tuple(retried),
        )
        return [task for task in found if (task.task_id, task.attempt) not in have]

    def _runs(self, owners: set[bytes]) -> dict[bytes, list[tuple[float, float, str]]]:
        """When each task ran in the workers among some processes: whose children their submissions are."""
        known = self.base.processes
        workers = [each for each in owners if each in known and known[each].role == "worker"]
        runs: dict[bytes, list[tuple[float, float, str]]] = {}
        for at in range(0, len(workers), 500):
            some = workers[at : at + 500]
            marks = ", ".join("?" * len(some))
            for process_id, start, end, task in self.index.db.execute(
                "SELECT p.process_id, a.start_s, a.end_s, a.task_id FROM attempts a JOIN processes p ON "
                f"p.id = a.process WHERE p.process_id IN ({marks}) ORDER BY a.start_s",
                some,
            ):
                runs.setdefault(process_id, []).append((start, end, task.hex()))
        return runs

    # ------------------------------------------------------------------ filters
    def _where(self, filters: Sequence[Filter]) -> tuple[str, SqlRow, bool]:
        parts, exact = [_VISIBLE], True
        values: list[object] = []
        for key, predicate, wanted in filters:
            clause = self._clause(key.lower(), wanted)
            if predicate == "=":
                parts.append(f"({clause.sql})")
                values += clause.values
                exact = exact and clause.exact
            elif clause.exact:
                parts.append(f"NOT coalesce(({clause.sql}), 0)")
                values += clause.values
            else:
                exact = False
        return " AND ".join(parts), tuple(values), exact

    def _clause(self, key: str, wanted: object) -> SqlCondition:
        make = _CLAUSES.get(key)
        if make is None:
            return SqlCondition(_ALWAYS, exact=False)
        return make(self, wanted)

    def _task(self, wanted: object) -> SqlCondition:
        task = _bytes(wanted)
        return SqlCondition(f"a.task_id = ? AND {self.index.holding(task)}", (task,))

    def _name(self, wanted: object) -> SqlCondition:
        same = "a.name IN (SELECT id FROM names WHERE text = ? COLLATE NOCASE)"
        renamed = any(each.repr_name or each.actor_name for each in self.base.processes.values())
        if renamed:  # a call may be named after what its actor calls itself
            return SqlCondition(f"{same} OR a.kind != 1", (str(wanted),), exact=False)
        return SqlCondition(same, (str(wanted),))

    def _parent(self, wanted: object) -> SqlCondition:
        text = str(wanted).lower()
        if text.startswith(DRIVER_TASK_ID_PREFIX):
            jobs = "SELECT process_id FROM processes WHERE role = 'driver' AND job_id = ?"
            return SqlCondition(f"{_OWNER} IN ({jobs})", (_bytes(text.removeprefix(DRIVER_TASK_ID_PREFIX)),))
        task = _bytes(text)
        homes = (
            "SELECT p.process_id FROM attempts a JOIN processes p ON p.id = a.process WHERE a.task_id = ? "
            f"AND {self.index.holding(task)}"
        )
        living = "SELECT process_id FROM processes WHERE begun = ? OR actor_id = ?"
        return SqlCondition(f"{_OWNER} IN ({homes} UNION {living})", (task, task, task), exact=False)


def _bytes(text: object) -> bytes:
    try:
        return bytes.fromhex(str(text))
    except ValueError:
        return b"\0"


def _number(text: object) -> int:
    try:
        return int(text) if isinstance(text, (str, int, float)) else -1
    except ValueError:
        return -1


def _state(_query: TaskQuery, wanted: object) -> SqlCondition:
    return SqlCondition(
        {"FAILED": "a.flags & 1", "FINISHED": "NOT a.flags & 1"}.get(str(wanted).upper(), _NEVER)
    )


def _type(_query: TaskQuery, wanted: object) -> SqlCondition:
    kinds = [number for number, name in KINDS.items() if name == str(wanted).upper()]
    return SqlCondition(f"a.kind = {kinds[0]}" if kinds else _NEVER)


def _of_process(
    column: str, value: Callable[[object], object]
) -> Callable[[TaskQuery, object], SqlCondition]:
    sql = f"a.process IN (SELECT id FROM processes WHERE {column} = ?)"
    return lambda _query, wanted: SqlCondition(sql, (value(wanted),))


def _function(_query: TaskQuery, wanted: object) -> SqlCondition:
    own = "CASE WHEN function != '' THEN function ELSE text END"
    return SqlCondition(f"a.name IN (SELECT id FROM names WHERE {own} = ? COLLATE NOCASE)", (str(wanted),))


def _actor(_query: TaskQuery, wanted: object) -> SqlCondition:
    calls = "a.kind = 2 AND a.process IN (SELECT id FROM processes WHERE actor_id = ?)"
    unrun = "a.flags & 32 AND a.kind = 2"
    value = _bytes(wanted)
    return SqlCondition(
        f"({calls}) OR (a.kind = 3 AND a.task_id = ?) OR ({unrun})", (value, value), exact=False
    )


_CLAUSES: dict[str, Callable[[TaskQuery, object], SqlCondition]] = {
    "task_id": TaskQuery._task,
    "attempt_number": lambda _query, wanted: SqlCondition("a.attempt = ?", (_number(wanted),)),
    "state": _state,
    "type": _type,
    "name": TaskQuery._name,
    "func_or_class_name": _function,
    "parent_task_id": TaskQuery._parent,
    "worker_id": _of_process("process_id", _bytes),
    "worker_pid": _of_process("pid", _number),
    "node_id": _of_process("lower(hex(node_id))", lambda wanted: str(wanted).lower()),
    "job_id": lambda _query, wanted: SqlCondition(
        f"{_OWNER} IN (SELECT process_id FROM processes WHERE job_id = ?)", (_bytes(wanted),)
    ),
    "actor_id": _actor,
    "error_type": lambda _query, wanted: SqlCondition("a.flags & 1", exact=False),
    "language": lambda _query, wanted: SqlCondition(_ALWAYS if str(wanted).upper() == "PYTHON" else _NEVER),
}


def recorded_rows(index: Index, kind: str) -> list[Row]:
    """The last row of the state API that the node recorded of each actor, worker, job, …, the oldest first."""
    found = index.rows(
        "SELECT json FROM facts WHERE rowid IN (SELECT max(rowid) FROM facts WHERE kind = ? GROUP BY subject) "
        "ORDER BY rowid",
        kind,
    )
    return [json.loads(text)["row"] for (text,) in found]
