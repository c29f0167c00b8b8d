"""What had begun and not ended when the records were read: tasks, gets and waits.

Owns these rows and the last moment that a session recorded, up to which they are known to last. Reads the index. Runs
in the caller's process.
"""

from __future__ import annotations

from sundog.events import KIND_NAMES
from sundog.observe import zones
from sundog.observe.index import Index
from sundog.observe.records import SessionRows
from sundog.observe.timeline import SpanRow, TaskRow

KILLED = "its program ended without leaving the session: it was killed, or it crashed."


def last_moment(index: Index) -> float:
    """The last moment of which anything is recorded; of a running session, at most a second ago."""
    sampled = index.one("SELECT max(at_s) FROM machine") or 0.0
    return max(zones.bounds(index.db)[1], float(sampled))


def running(index: Index, rows: SessionRows) -> list[TaskRow]:
    """Tasks that had begun and not ended, the last one of each process."""
    found = index.rows(
        "SELECT p.begun, p.begun_s, p.id, p.process_id, n.text FROM processes p "
        "LEFT JOIN names n ON n.id = p.begun_name WHERE p.begun != x''"
    )
    out = []
    for task, start, number, process_id, name in found:
        # A row of another process from before is of an earlier attempt.
        ended = "SELECT 1 FROM attempts a WHERE a.task_id = ? AND (a.process = ? OR a.end_s >= ?) AND "
        if index.one(ended + index.holding(task), task, number, start):
            continue
        home = rows.processes[process_id]
        kind = "actor_creation" if task == home.actor_id else "actor_task" if home.actor_id else "task"
        shown = name or (f"{home.class_name}, a call" if home.class_name else "?")
        row = TaskRow(
            task, shown, start, start, None, process_id, home.pid, task[:8], None, kind, node_id=home.node_id
        )
        out.append(row)
    return out


def killed_drivers(index: Index) -> set[str]:
    """Drivers that are gone and did not say so: by a signal, a crash or `os._exit`."""
    gone = index.rows(
        "SELECT f.subject FROM facts f JOIN processes p ON lower(hex(p.process_id)) = f.subject "
        "WHERE f.kind = 'worker' AND p.role = 'driver' "
        "AND NOT EXISTS (SELECT 1 FROM facts l WHERE l.kind = 'left' AND l.subject = f.subject)"
    )
    return {subject for (subject,) in gone}


def killed_jobs(index: Index) -> set[str]:
    """The jobs of such drivers."""
    killed = killed_drivers(index)
    return {
        job_id.hex()
        for process_id, job_id in index.rows("SELECT process_id, job_id FROM processes WHERE role = 'driver'")
        if process_id.hex() in killed
    }


def waiting(index: Index, rows: SessionRows) -> list[SpanRow]:
    """Gets and waits that had not ended, up to the last moment that is known."""
    last = last_moment(index)
    out = []
    for process_id, kind, since, object_, site in index.rows(
        "SELECT p.process_id, p.blocked_kind, p.blocked_s, p.blocked_on, n.text FROM processes p "
        "LEFT JOIN names n ON n.id = p.blocked_site WHERE p.blocked_s > 0"
    ):
        home, verb = rows.processes[process_id], KIND_NAMES.get(kind, "get")
        end = max(last, since)
        out.append(
            SpanRow(verb, since, end, home.pid, process_id, object_.hex(), home.node_id, 0, site or "")
        )
    return out
