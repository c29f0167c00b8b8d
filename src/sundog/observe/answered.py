"""Tasks that were answered and not recorded: their worker was ended in between.

::

    worker:  runs a task ── answers ──✗ is ended with its job, before it writes its record
    driver:  has the answer ── notes what it leaves unfinished ── notes that it leaves

A worker writes the record of a task after its answer, so that the caller need not wait for it. What a worker began last
stands in its ring or was noted by the node; a driver that leaves in good order notes every task that it leaves
unfinished. So a task of that driver which a worker had begun, and which is neither recorded nor noted, was answered.
Likewise where the worker was killed: an attempt that dies with its worker is recorded by the owner before the next
attempt is sent. So an attempt that its dead worker had begun, of which nothing is recorded though a later attempt is,
was answered: its result was lost afterwards, and made again.
Owns this conclusion and the row that stands for the record. Runs within one transaction of the index.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sundog import events
from sundog.engines.sessions import is_alive
from sundog.ids import PROCESS_BYTES
from sundog.observe import zones

if TYPE_CHECKING:
    from sundog.observe.recorded_process import RecordedProcess
    from sundog.plain import SqlRow


def rows(
    db: sqlite3.Connection, sources: Iterable[RecordedProcess], session_path: str, settled: set[bytes]
) -> list[SqlRow]:
    """A row of `attempts` for each such task, with the columns of `Intake`.

    Args:
        db: the index, with the zones of all rows.
        sources: the processes.
        session_path: the session's folder.
        settled: gets the processes of which nothing is left to find out.
    """
    left, dead = _last_of(db, "left"), _last_of(db, "worker")
    if not left and not dead:
        return []
    live = is_alive(session_path)
    found = []
    for source in sources:
        if not source.begun or source.role != "worker":
            continue
        dead_s = dead.get(source.process_id.hex())
        if dead_s is not None and (again := _made_again(db, source)) is not None:
            found.append(_row(db, source, min(dead_s, again)))
            source.begun = b""
            settled.add(source.process_id)
            continue
        left_s = left.get(source.begun[:PROCESS_BYTES].hex())
        if left_s is None:
            continue
        if live and os.path.exists(f"{session_path}/rings/{source.process_id.hex()}.ring"):
            continue  # the process may still write its record
        if not _is_known(db, source):
            found.append(_row(db, source, left_s))
        source.begun = b""
        settled.add(source.process_id)
    return found


def _last_of(db: sqlite3.Connection, kind: str) -> dict[str, float]:
    """When the last fact of this kind was recorded of each process."""
    told = db.execute("SELECT subject, max(at_s) FROM facts WHERE kind = ? GROUP BY subject", (kind,))
    return {subject: float(at_s) for subject, at_s in told}


def _made_again(db: sqlite3.Connection, source: RecordedProcess) -> float | None:
    """When the next attempt at the task that a process began last started; None if there is none, or the one that the
    process began is recorded.
    """
    attempts = db.execute(
        "SELECT attempt, start_s, process FROM attempts a WHERE task_id = ? AND "
        + zones.holding(db, [source.begun]),
        (source.begun,),
    ).fetchall()
    later = [(attempt, start_s) for attempt, start_s, _ in attempts if start_s > source.begun_s]
    if not later:
        return None
    following, start_s = min(later)
    is_recorded = any(
        process in (source.id, None) or attempt == following - 1 for attempt, _, process in attempts
    )
    return None if is_recorded or not following else float(start_s)


def _is_known(db: sqlite3.Connection, source: RecordedProcess) -> bool:
    """Whether there is a record of it, or a note that its owner left it unfinished."""
    recorded = db.execute(
        "SELECT 1 FROM attempts a WHERE task_id = ? AND (process = ? OR process IS NULL OR end_s >= ?) AND "
        + zones.holding(db, [source.begun]),
        (source.begun, source.id, source.begun_s),
    )
    noted = db.execute("SELECT 1 FROM failures WHERE task_id = ?", (source.begun,))
    return recorded.fetchone() is not None or noted.fetchone() is not None


def _row(db: sqlite3.Connection, source: RecordedProcess, left_s: float) -> SqlRow:
    task, start_s = source.begun, source.begun_s
    near = zones.holding(db, [task])
    before = f"SELECT count(*) FROM attempts a WHERE task_id = ? AND start_s < ? AND {near}"
    [(attempt,)] = db.execute(before, (task, start_s))
    failed = db.execute("SELECT 1 FROM errors WHERE task_id = ? AND attempt = ?", (task, attempt)).fetchone()
    kind = events.CREATE if task == source.actor_id else events.CALL if source.actor_id else events.TASK
    end_s = max(start_s, left_s)
    flags = events.FAILED if failed else 0
    return (
        task, attempt, kind, source.begun_name or None, source.id, start_s, start_s, end_s, flags, 0.0,
        source.own_bytes, source.lease,
    )  # fmt: skip
