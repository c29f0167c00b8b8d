"""A session's flight recorders read into rows: what every query about the past starts from.

Works on a running session and on a finished one: the rings are files. Pure reading, in any process.
"""

from __future__ import annotations

import glob
import os
from typing import Any

from sundog import event_names, events
from sundog.observe.ledger import forgotten_events
from sundog.observe.timeline import SpanRow, TaskRow
from sundog.plain import field, plain, replaced

_TASKS = frozenset({events.TASK, events.CALL, events.CREATE})
_KINDS = {events.TASK: "task", events.CALL: "actor_task", events.CREATE: "actor_creation"}
_LEASE = "lease"  # stands where the fingerprint of a function's code would


@plain(frozen=True)
class SampleRow:
    """A look at a task that ran: the line of user code, and the memory of its process."""

    task_id: bytes
    at_s: float
    own_bytes: int
    line: str
    worker_id: bytes
    pid: int


@plain()
class ProcessRow:
    """What a ring tells of its process, dead or alive."""

    process_id: bytes
    pid: int
    role: str  # driver | worker
    job_id: bytes
    actor_id: bytes = b""
    actor_name: str = ""
    repr_name: str = ""  # what the actor calls itself, if its class says so
    concurrent: bool = False  # several calls run at a time
    lease: str = ""  # what it held last


@plain()
class SessionRows:
    """All that a session's rings hold."""

    tasks: list[TaskRow] = field(default_factory=list)
    spans: list[SpanRow] = field(default_factory=list)
    samples: list[SampleRow] = field(default_factory=list)
    begun: dict[bytes, tuple[bytes, int, float]] = field(default_factory=dict)  # task: (worker, pid, when)
    processes: dict[bytes, ProcessRow] = field(default_factory=dict)
    errors: list[dict[str, Any]] = field(
        default_factory=list
    )  # of attempts that a worker ran (owner/failures.py)
    failures: list[dict[str, Any]] = field(default_factory=list)  # tasks that failed at their owner
    sites: dict[str, str] = field(default_factory=dict)  # task: where it was submitted, if that was asked for
    dropped: int = 0


def read_session(path: str) -> SessionRows:
    """Everything in the rings of a session's folder, each kind in the order it began."""
    rows = SessionRows()
    lost: list[events.Event] = []
    for ring in glob.glob(f"{glob.escape(path)}/rings/*.ring"):
        read = events.read_ring(ring)
        if read is not None:
            # A process that died in its first task has a ring without events.
            process_id = bytes.fromhex(os.path.basename(ring).split(".")[0])
            _read_one(rows, lost, process_id, *read, _only_lease(ring))
            _read_notes(rows, rows.processes[process_id], ring)
    rows.dropped += forgotten_events(path)
    for event in lost:
        worker = bytes.fromhex(event.code)
        home = rows.processes.get(worker) or ProcessRow(worker, 0, "worker", b"")
        row = _task(event, home.actor_id, "actor_task" if home.actor_id else "task", home.lease)
        rows.tasks.append(replaced(row, worker_id=worker, pid=home.pid, code="", lost=True))
    rows.tasks.sort(key=lambda row: row.start_s or 0.0)
    rows.spans.sort(key=lambda row: row.start_s)
    rows.samples.sort(key=lambda row: row.at_s)
    return rows


def read_begun(path: str) -> SessionRows:
    """Only what each process of a session is, and which task it began last: cheap, however much is recorded."""
    rows = SessionRows()
    for ring in glob.glob(f"{glob.escape(path)}/rings/*.ring"):
        slots = events.read_slots(ring, most=1)
        if slots is not None:
            _read_one(rows, [], bytes.fromhex(os.path.basename(ring).split(".")[0]), slots.info, (), "")
    return rows


def _read_one(
    rows: SessionRows,
    lost: list[events.Event],
    process_id: bytes,
    info: events.RingInfo,
    found: Any,
    lease: str,
) -> None:
    actor_id = info.actor_id
    for event in found:
        if event.kind == events.CREATE:
            actor_id = event.task_id
        if event.kind in _TASKS:
            rows.tasks.append(_task(event, actor_id, _KINDS[event.kind], lease))
        elif event.kind == events.LEASE:
            lease = event.name
        elif event.kind == events.LOST:
            lost.append(event)
        elif event.kind == events.SAMPLE:
            rows.samples.append(
                SampleRow(event.task_id, event.start_s, event.own_bytes, event.name, process_id, event.pid)
            )
        else:
            rows.spans.append(_span(event))
    rows.dropped += info.dropped
    rows.processes[process_id] = ProcessRow(
        process_id, info.pid, info.role, info.job_id, actor_id, lease=lease
    )
    if info.role == "worker" and info.current.strip(b"\0"):
        rows.begun[info.current] = (process_id, info.pid, info.current_at)


def _read_notes(rows: SessionRows, process: ProcessRow, ring: str) -> None:
    for kind, facts in event_names.read_notes(ring):
        if kind == "error":
            rows.errors.append(facts)
        elif kind == "failed":
            rows.failures.append(facts)
        elif kind == "site":
            rows.sites[str(facts.get("task"))] = str(facts.get("site"))
        elif kind == "actor":
            process.actor_id = process.actor_id or bytes.fromhex(facts.get("actor", ""))
            process.repr_name, process.actor_name = facts.get("repr", ""), facts.get("name", "")
            process.concurrent = bool(facts.get("concurrent"))


def _only_lease(ring: str) -> str:
    """What a process's leases held, if all held the same: the record of the lease itself may be overwritten."""
    found = [text for text, code in event_names.read_names(ring).values() if code == _LEASE]
    return found[0] if len(found) == 1 else ""


def _task(event: events.Event, actor_id: bytes, kind: str, lease: str = "") -> TaskRow:
    return TaskRow(
        task_id=event.task_id,
        name=event.name,
        submit_s=event.submit_s,
        start_s=event.start_s,
        end_s=event.end_s,
        worker_id=event.process_id,
        pid=event.pid,
        owner_id=event.task_id[:8],
        ok=not event.failed,
        kind=kind,
        attempt=event.attempt,
        code=event.code,
        cpu_s=event.cpu_s,
        peak_bytes=event.own_bytes,
        actor_id=actor_id if kind != "task" else b"",
        function=event.function,
        hidden=event.hidden,
        lease=lease,
    )


def _span(event: events.Event) -> SpanRow:
    return SpanRow(
        kind=events.KIND_NAMES[event.kind],
        start_s=event.start_s,
        end_s=event.end_s,
        pid=event.pid,
        owner_id=event.process_id,
        detail=event.task_id.hex(),
        size_bytes=event.own_bytes,
    )


def session_rows(path: str) -> tuple[list[TaskRow], list[SpanRow]]:
    """Tasks and spans of a session's folder, each in the order they began."""
    rows = read_session(path)
    return rows.tasks, rows.spans


def dropped_events(path: str) -> int:
    """How many events were overwritten before they were read."""
    return read_session(path).dropped
