"""What Ray itself tells of tasks: for runs of which no record came, because their node is gone.

Owns the reading of Ray's task events. They have the outcome and the times of each attempt, not its processor seconds
or memory. Runs in the driver, at the end of a job, and only if something is missing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from sundog import events
from sundog.plain import NamedTuple
from sundog.ray_engine.task_ids import unique_of

if TYPE_CHECKING:
    from sundog.ray_engine import theirs

_KINDS = {0: events.TASK, 1: events.CREATE, 2: events.CALL}
_NS = 1e-9


class Told(NamedTuple):
    """One attempt at a task, as Ray tells it."""

    unique: bytes
    attempt: int
    kind: int
    name: str
    start_s: float
    end_s: float
    error: str  # empty if it finished
    message: str
    by_worker: bool  # whether its worker reported the start, by the clock of that node
    facts: dict[str, object]  # facts of the process that ran it


def ended_attempts(job: str) -> list[Told]:
    """The attempts of a job's tasks that began and ended."""
    state = import_module("ray._private.state").state
    found = []
    for row in state._get_all_task_events():
        if row.job_id.hex() == job and row.HasField("task_info"):
            told = read(row)
            if told is not None:
                found.append(told)
    return found


def read(row: theirs.RaysTaskEvent) -> Told | None:
    """One of Ray's rows; None if that attempt did not begin, or has not ended."""
    status = import_module("ray.core.generated.common_pb2").TaskStatus
    updates = row.state_updates
    times = dict(updates.state_ts_ns)
    # The worker reports when the task runs; the owner reports everything else, also that it was sent to a
    # worker.
    there = times.get(status.RUNNING)
    running, failed = there or times.get(status.SUBMITTED_TO_WORKER), times.get(status.FAILED)
    ended = failed or times.get(status.FINISHED)
    if running is None or ended is None:
        return None
    error = message = ""
    if failed is not None:
        info = updates.error_info
        names = import_module("ray.core.generated.common_pb2").ErrorType
        error, message = names.Name(info.error_type), info.error_message
    worker = updates.worker_id.hex()[:16]
    return Told(
        unique_of(row.task_id),
        row.attempt_number,
        _KINDS.get(row.task_info.type, events.TASK),
        row.task_info.name,
        running * _NS,
        max(ended, running) * _NS,
        error,
        message,
        there is not None,
        {
            "process": worker,
            "node": updates.node_id.hex(),
            "job": row.job_id.hex(),
            "pid": updates.worker_pid,
            "role": "worker",
        },
    )
