"""What a task waited for before it ran: its arguments, a worker, its turn at that worker.

::

    submitted ──arguments──► ready ──a worker──► leased ──its owner──► sent ──its turn──► started

Owns the order of these moments and what each wait is called. Only moments that cost something were recorded
(`owner/dispatch.py`, `owner/tasks.py`), so a moment that is missing is the one before it. Reads the index.
"""

from __future__ import annotations

from sundog.ids import number_of
from sundog.observe.index import Index
from sundog.observe.timeline import TaskRow
from sundog.plain import plain

ARGUMENTS, WORKER, OWNER, TURN, ACTOR = "its arguments", "a worker", "its owner", "its turn", "its actor"
_LEAST_S = 1e-6
_PACKETS = 16  # of one owner, to several workers, that may be about the same numbers


@plain(frozen=True)
class Phase:
    """A stretch of time before a run, and what the task waited for in it."""

    waits_for: str
    start_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end_s - self.start_s


def phases_of(index: Index, row: TaskRow) -> list[Phase]:
    """The waits of one attempt, in order; those that took no time are left out."""
    ready = index.one("SELECT max(ready_s) FROM ready WHERE task_id = ?", row.task_id)
    number = number_of(row.task_id)
    sent = index.one(
        "SELECT max(sent_s) FROM (SELECT first, sent_s FROM packets WHERE owner = ? AND last >= ? ORDER BY last "
        f"LIMIT {_PACKETS}) WHERE first <= ? AND sent_s <= ?",
        row.owner_id,
        number,
        number,
        (row.start_s or 0.0) + 1e-3,
    )
    leased = index.one(
        "SELECT max(granted_s) FROM leased WHERE owner = ? AND worker = ? AND granted_s <= ?",
        row.owner_id,
        row.worker_id,
        (row.start_s or 0.0) + 1e-3,
    )
    return waits(row, ready, leased, sent)


def waits(row: TaskRow, ready_s: float | None, leased_s: float | None, sent_s: float | None) -> list[Phase]:
    """The waits between the moments that are known. Pure."""
    if row.start_s is None:
        return []
    moments = [
        (ARGUMENTS, ready_s),
        (ACTOR if row.kind == "actor_task" else WORKER, leased_s),
        (OWNER, sent_s),
    ]
    found, at = [], row.submit_s
    for what, moment in moments:
        if moment is not None and moment > at:
            end = min(moment, row.start_s)
            found.append(Phase(what, at, end))
            at = end
    if row.start_s > at:
        found.append(Phase(TURN, at, row.start_s))
    return [each for each in found if each.seconds > _LEAST_S]
