"""A session's records as typed rows: what timeline, state API, advice and `why` start from.

Owns the rows and how they come out of the index (`observe/index.py`): all of them, or those of a question. Works on a
running session and on an ended one. Pure reading, in any process.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator

from sundog import events
from sundog.observe import schema
from sundog.observe.index import Index, opened
from sundog.observe.sites import site_of
from sundog.observe.timeline import SpanRow, TaskRow
from sundog.plain import JsonObject, field, plain

_KINDS = {events.TASK: "task", events.CALL: "actor_task", events.CREATE: "actor_creation"}
_MANY = 500
_TASKS = (
    "SELECT a.task_id, n.text, a.submit_s, a.start_s, a.end_s, a.process, a.kind, a.attempt, a.flags, a.cpu_s, "
    "a.peak_bytes, l.text, n.function, n.code FROM attempts a LEFT JOIN names n ON n.id = a.name "
    "LEFT JOIN names l ON l.id = a.lease "
)


@plain(frozen=True)
class SampleRow:
    """A look at a task that ran: the line of user code, and the memory of its process."""

    task_id: bytes
    at_s: float
    own_bytes: int
    line: str
    worker_id: bytes
    pid: int


@plain(frozen=True)
class WaitRow:
    """A `get` or `wait` that has not ended."""

    verb: str  # get | wait
    since_s: float
    object_id: str  # of the object it waits for first: the id of its task, in hexadecimal
    site: str


@plain(frozen=True)
class Traffic:
    """What an attempt was given and gave back, and how long it waited in get and wait."""

    bytes_in: int | None
    bytes_out: int | None
    blocked_s: float


@plain()
class ProcessRow:
    """What is known of a process, dead or alive."""

    process_id: bytes
    pid: int
    role: str  # driver | worker
    job_id: bytes
    actor_id: bytes = b""
    actor_name: str = ""
    repr_name: str = ""  # what the actor calls itself, if its class says so
    concurrent: bool = False  # several calls run at a time
    lease: str = ""  # what it held last
    node_id: bytes = b""
    class_name: str = ""


@plain()
class SessionRows:
    """What a session has recorded, or the part of it that was asked for."""

    tasks: list[TaskRow] = field(default_factory=list)
    spans: list[SpanRow] = field(default_factory=list)
    samples: list[SampleRow] = field(default_factory=list)
    begun: dict[bytes, tuple[bytes, int, float]] = field(default_factory=dict)  # task: (worker, pid, when)
    blocked: dict[bytes, WaitRow] = field(default_factory=dict)  # task: the get or wait in which it is
    traffic: dict[tuple[bytes, int], Traffic] = field(default_factory=dict)  # (task, attempt)
    processes: dict[bytes, ProcessRow] = field(default_factory=dict)
    errors: list[JsonObject] = field(
        default_factory=list
    )  # of attempts that a worker ran (owner/failures.py)
    failures: list[JsonObject] = field(default_factory=list)  # tasks that failed at their owner
    sites: dict[str, str] = field(default_factory=dict)  # task: where it was submitted
    runs: dict[bytes, list[tuple[float, float, str]]] | None = (
        None  # what ran where when; None: all of `tasks`
    )
    dropped: int = 0


def read_session(path: str) -> SessionRows:
    """Everything that a session has recorded, each kind in the order it began."""
    with opened(path) as index, index.standing_still():
        rows = base_rows(index)
        rows.tasks = list(tasks_where(index, rows, "WHERE NOT a.flags & 32 ORDER BY a.start_s"))
        rows.spans = list(spans_where(index, rows, "ORDER BY s.start_s"))
        rows.samples = [
            SampleRow(task_id, at_s, own_bytes, line or "?", *_home(index, process))
            for task_id, at_s, own_bytes, line, process in index.rows(
                "SELECT s.task_id, s.at_s, s.own_bytes, n.text, s.process FROM samples s "
                "LEFT JOIN names n ON n.id = s.line ORDER BY s.at_s"
            )
        ]
        add_errors(index, rows, everything=True)
        add_sites(index, rows)
        return rows


def base_rows(index: Index) -> SessionRows:
    """The processes of a session, and which task each began last."""
    rows = SessionRows(dropped=index.missed())
    for each in index.dicts(
        "SELECT p.*, n.text AS lease_text, s.text AS site FROM processes p LEFT JOIN names n ON n.id = p.lease "
        "LEFT JOIN names s ON s.id = p.blocked_site"
    ):
        process_id = each["process_id"]
        rows.processes[process_id] = ProcessRow(
            process_id,
            each["pid"],
            each["role"],
            each["job_id"],
            each["actor_id"],
            each["actor_name"],
            each["repr_name"],
            bool(each["concurrent"]),
            each["lease_text"] or "",
            each["node_id"],
            each["class_name"],
        )
        if each["begun"]:
            rows.begun[each["begun"]] = (process_id, each["pid"], each["begun_s"])
        if each["blocked_s"] and each["blocked_task"]:
            verb = events.KIND_NAMES.get(each["blocked_kind"], "get")
            on = each["blocked_on"].hex()
            rows.blocked[each["blocked_task"]] = WaitRow(verb, each["blocked_s"], on, each["site"] or "")
    return rows


def read_begun(path: str) -> SessionRows:
    """Only what each process of a running session is, and which task it began last: no index is needed."""
    rows = SessionRows()
    for ring in glob.glob(f"{glob.escape(path)}/rings/*.ring"):
        slots = events.read_slots(ring, most=1)
        if slots is not None:
            process_id, info = bytes.fromhex(os.path.basename(ring).split(".")[0]), slots.info
            rows.processes[process_id] = ProcessRow(
                process_id, info.pid, info.role, info.job_id, info.actor_id
            )
            if info.role == "worker" and info.current.strip(b"\0"):
                rows.begun[info.current] = (process_id, info.pid, info.current_at)
    return rows


def _home(index: Index, process: int) -> tuple[bytes, int]:
    found = index.rows("SELECT process_id, pid FROM processes WHERE id = ?", process)
    return found[0] if found else (b"", 0)


# ---------------------------------------------------------------------- parts of it
def tasks_where(
    index: Index, rows: SessionRows, rest: str = "", values: tuple[object, ...] = ()
) -> Iterator[TaskRow]:
    """Attempts, as rows; `rest` is what follows in SQL, where `a` is the attempt and `n` its name."""
    homes = {
        number: rows.processes[id_]
        for number, id_ in index.db.execute("SELECT id, process_id FROM processes")
    }
    nobody = ProcessRow(b"", 0, "", b"")
    for (
        task_id,
        name,
        submit,
        start,
        end,
        process,
        kind,
        attempt,
        flags,
        cpu_s,
        peak,
        lease,
        function,
        code,
    ) in index.db.execute(_TASKS + rest, values):
        home = homes.get(process, nobody)
        unrun = flags & schema.UNRUN
        yield TaskRow(
            task_id=task_id,
            name=name or "?",
            submit_s=submit,
            start_s=None if unrun else start,
            end_s=end,
            worker_id=home.process_id,
            pid=home.pid,
            owner_id=task_id[:8],
            ok=not flags & events.FAILED,
            kind=_KINDS[kind],
            attempt=attempt,
            node_id=home.node_id,
            code=code or "",
            cpu_s=cpu_s,
            peak_bytes=peak,
            actor_id=b"" if kind == events.TASK else task_id if kind == events.CREATE else home.actor_id,
            lost=bool(flags & schema.LOST),
            function=function or "",
            hidden=bool(flags & events.HIDDEN),
            lease=lease or "",
        )


def spans_where(
    index: Index, rows: SessionRows, rest: str = "", values: tuple[object, ...] = ()
) -> Iterator[SpanRow]:
    """Gets, puts and waits, as rows; `rest` is what follows in SQL, where `s` is the span."""
    homes = {
        number: rows.processes[id_]
        for number, id_ in index.db.execute("SELECT id, process_id FROM processes")
    }
    for kind, start, end, process, object_, size, site in index.db.execute(
        "SELECT s.kind, s.start_s, s.end_s, s.process, s.object, s.size_bytes, n.text FROM spans s "
        "LEFT JOIN names n ON n.id = s.site " + rest,
        values,
    ):
        home = homes[process]
        name = events.KIND_NAMES[kind]
        where = site if site and site != name else ""
        yield SpanRow(name, start, end, home.pid, home.process_id, object_.hex(), home.node_id, size, where)


def add_errors(index: Index, rows: SessionRows, *, everything: bool = False) -> None:
    """The errors of the tasks that are there: of few tasks, those; of many, all."""
    few = {task.task_id for task in rows.tasks if not task.ok}
    if not everything and len(few) <= _MANY:
        origins = "SELECT json_extract(facts, '$.origin') FROM failures WHERE task_id = ?"
        few |= {bytes.fromhex(text) for task in list(few) for (text,) in index.rows(origins, task) if text}
    for table, column in (("errors", "task_id, attempt, type, message, in_order"), ("failures", "facts")):
        sql = f"SELECT {column} FROM {table}"
        if len(few) <= _MANY and not everything:
            marks = ", ".join("?" * len(few))
            found = index.rows(f"{sql} WHERE task_id IN ({marks})", *few)
        else:
            found = index.rows(sql)
        if table == "failures":
            rows.failures = [json.loads(text) for (text,) in found]
        else:
            rows.errors = [
                {
                    "task": task.hex(),
                    "attempt": attempt,
                    "type": type_,
                    "message": message,
                    "in_order": bool(order),
                }
                for task, attempt, type_, message, order in found
            ]


def add_sites(index: Index, rows: SessionRows) -> None:
    """Where each of the tasks that are there was submitted."""
    for task in rows.tasks:
        found = site_of(index, task.task_id, task.name)
        if found:
            rows.sites[task.task_id.hex()] = found


def add_traffic(index: Index, rows: SessionRows) -> None:
    """What each of the tasks that are there was given and gave back, as far as it is recorded."""
    for task in rows.tasks[:_MANY]:
        found = index.rows(
            "SELECT by_value + by_reference, inline_out FROM traffic WHERE task_id = ? AND attempt = ?",
            task.task_id,
            task.attempt,
        )
        bytes_in, inline = found[0] if found else (None, None)
        made = index.one(
            "SELECT sum(size_bytes) FROM made WHERE task_id = ? AND kind = ? AND attempt = ?",
            task.task_id,
            events.RESULT,
            task.attempt,
        )
        blocked_s = index.one(
            "SELECT sum(end_s - start_s) FROM waited WHERE task_id = ? AND start_s BETWEEN ? AND ?",
            task.task_id,
            task.start_s,
            task.end_s,
        )
        bytes_out = None if inline is None and made is None else (inline or 0) + (made or 0)
        rows.traffic[task.task_id, task.attempt] = Traffic(bytes_in, bytes_out, blocked_s or 0.0)
