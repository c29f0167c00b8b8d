"""A session's flight recorders read into rows: what every query about the past starts from.

Works on a running session and on a finished one: the rings are files. Pure reading, in any process.
"""

from __future__ import annotations

import glob

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
    tasks.sort(key=lambda row: row.start_s)
    spans.sort(key=lambda row: row.start_s)
    return tasks, spans


def dropped_events(path: str) -> int:
    """How many events were overwritten before they were read."""
    total = 0
    for ring in glob.glob(f"{path}/rings/*.ring"):
        read = events.read_ring(ring)
        if read is not None:
            total += read[0].dropped
    return total
