"""A session's flight recorders read into rows: what every query about the past starts from.

Works on a running session and on a finished one: the rings are files. Pure reading, in any process.
"""

from __future__ import annotations

import glob
from typing import Any

from sundog import events
from sundog.observe.timeline import SpanRow, TaskRow


def session_rows(path: str) -> tuple[list[TaskRow], list[SpanRow]]:
    """Tasks and spans of a session's folder, each in the order they began."""
    tasks: list[TaskRow] = []
    spans: list[SpanRow] = []
    for ring in glob.glob(f"{path}/rings/*.ring"):
        read = events.read_ring(ring)
        if read is None:
            continue
        for event in read[1]:
            kind = events.KIND_NAMES[event.kind]
            if event.kind in (events.TASK, events.CALL, events.CREATE):
                tasks.append(
                    TaskRow(
                        task_id=event.task_id,
                        name=event.name,
                        submit_s=event.submit_s,
                        start_s=event.start_s,
                        end_s=event.end_s,
                        worker_id=event.process_id,
                        pid=event.pid,
                        owner_id=event.task_id[:8],
                        ok=not event.failed,
                        kind={"call": "actor_task", "create": "actor_creation"}.get(kind, kind),
                        attempt=event.attempt,
                        code=event.code,
                    )
                )
            else:
                spans.append(
                    SpanRow(
                        kind=kind,
                        start_s=event.start_s,
                        end_s=event.end_s,
                        pid=event.pid,
                        owner_id=event.process_id,
                        detail=event.task_id.hex(),
                    )
                )
    tasks.sort(key=lambda row: row.start_s or 0.0)
    spans.sort(key=lambda row: row.start_s)
    return tasks, spans


def finished_tasks(path: str, node_id: str, unfinished: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the state API for the tasks that have ended; unfinished ones that run get their worker."""
    tasks, _ = session_rows(path)
    open_ids = {row["task_id"] for row in unfinished}
    rows = []
    for row in tasks:
        if row.task_id.hex() in open_ids:
            continue
        rows.append(
            {
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
                "actor_id": None,
                "error_type": None if row.ok else "TASK_EXECUTION_EXCEPTION",
                "creation_time_ms": int(row.submit_s * 1000),
                "start_time_ms": int((row.start_s or 0) * 1000),
                "end_time_ms": int((row.end_s or 0) * 1000),
            }
        )
    return rows


_TYPES = {"task": "NORMAL_TASK", "actor_task": "ACTOR_TASK", "actor_creation": "ACTOR_CREATION_TASK"}


def dropped_events(path: str) -> int:
    """How many events were overwritten before they were read."""
    total = 0
    for ring in glob.glob(f"{path}/rings/*.ring"):
        read = events.read_ring(ring)
        if read is not None:
            total += read[0].dropped
    return total
