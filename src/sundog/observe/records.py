"""A session's flight recorders read into rows: what every query about the past starts from.

Works on a running session and on a finished one: the rings are files. Pure reading, in any process.
"""

from __future__ import annotations

import glob
import os
from typing import Any

from sundog import events
from sundog.observe.timeline import SpanRow, TaskRow
from sundog.plain import field, plain, replaced

_TASKS = frozenset({events.TASK, events.CALL, events.CREATE})
_KINDS = {events.TASK: "task", events.CALL: "actor_task", events.CREATE: "actor_creation"}
_TYPES = {"task": "NORMAL_TASK", "actor_task": "ACTOR_TASK", "actor_creation": "ACTOR_CREATION_TASK"}


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
class SessionRows:
    """All that a session's rings hold."""

    tasks: list[TaskRow] = field(default_factory=list)
    spans: list[SpanRow] = field(default_factory=list)
    samples: list[SampleRow] = field(default_factory=list)
    begun: dict[bytes, tuple[bytes, int, float]] = field(default_factory=dict)  # task: (worker, pid, when)
    dropped: int = 0


def read_session(path: str) -> SessionRows:
    """Everything in the rings of a session's folder, each kind in the order it began."""
    rows = SessionRows()
    lost: list[events.Event] = []
    homes: dict[str, tuple[int, bytes]] = {}  # of a process: its pid and its actor
    for ring in glob.glob(f"{glob.escape(path)}/rings/*.ring"):
        read = events.read_ring(ring)
        if read is not None:
            # A process that died in its first task has a ring without events.
            process_id = bytes.fromhex(os.path.basename(ring).split(".")[0])
            _read_one(rows, lost, homes, process_id, *read)
    for event in lost:
        pid, actor_id = homes.get(event.code, (0, b""))
        row = _task(event, actor_id, "actor_task" if actor_id else "task")
        worker = bytes.fromhex(event.code)
        rows.tasks.append(replaced(row, worker_id=worker, pid=pid, code="", lost=True))
    rows.tasks.sort(key=lambda row: row.start_s or 0.0)
    rows.spans.sort(key=lambda row: row.start_s)
    rows.samples.sort(key=lambda row: row.at_s)
    return rows


def _read_one(
    rows: SessionRows,
    lost: list[events.Event],
    homes: dict[str, tuple[int, bytes]],
    process_id: bytes,
    info: events.RingInfo,
    found: Any,
) -> None:
    actor_id = b""
    for event in found:
        if event.kind == events.CREATE:
            actor_id = event.task_id
        if event.kind in _TASKS:
            rows.tasks.append(_task(event, actor_id, _KINDS[event.kind]))
        elif event.kind == events.LOST:
            lost.append(event)
        elif event.kind == events.SAMPLE:
            rows.samples.append(
                SampleRow(event.task_id, event.start_s, event.own_bytes, event.name, process_id, event.pid)
            )
        else:
            rows.spans.append(_span(event))
    rows.dropped += info.dropped
    homes[process_id.hex()] = (info.pid, actor_id)
    if info.role == "worker" and info.current.strip(b"\0"):
        rows.begun[info.current] = (process_id, info.pid, info.current_at)


def _task(event: events.Event, actor_id: bytes, kind: str) -> TaskRow:
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


def finished_tasks(path: str, node_id: str, unfinished: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the state API for the attempts that have ended; unfinished ones that run get their worker."""
    found = read_session(path)
    ended = {(row.task_id.hex(), row.attempt) for row in found.tasks}
    for row in unfinished:
        began = found.begun.get(bytes.fromhex(row["task_id"]))
        if began is not None and (row["task_id"], row["attempt_number"]) not in ended:
            worker_id, pid, at_s = began
            row.update(
                state="RUNNING",
                worker_id=worker_id.hex(),
                worker_pid=pid,
                node_id=node_id,
                start_time_ms=int(at_s * 1000),
            )
    open_attempts = {(row["task_id"], row["attempt_number"]) for row in unfinished}
    return [
        _state_row(row, node_id)
        for row in found.tasks
        if (row.task_id.hex(), row.attempt) not in open_attempts
    ]


def _state_row(row: TaskRow, node_id: str) -> dict[str, Any]:
    error = None if row.ok else "WORKER_DIED" if row.lost else "TASK_EXECUTION_EXCEPTION"
    return {
        "task_id": row.task_id.hex(),
        "attempt_number": row.attempt,
        "name": row.name,
        "func_or_class_name": row.name,
        "state": row.status,
        "type": _TYPES[row.kind],
        "worker_id": row.worker_id.hex(),
        "worker_pid": row.pid,
        "node_id": node_id,
        "job_id": "",
        "parent_task_id": None,
        "actor_id": row.actor_id.hex() or None,
        "error_type": error,
        "creation_time_ms": int(row.submit_s * 1000),
        "start_time_ms": int((row.start_s or 0) * 1000),
        "end_time_ms": int((row.end_s or 0) * 1000),
        "cpu_s": None if row.lost else row.cpu_s,
        "peak_memory": row.peak_bytes or None,
    }


def dropped_events(path: str) -> int:
    """How many events were overwritten before they were read."""
    return read_session(path).dropped
