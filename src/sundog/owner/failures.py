"""Failures, told apart and noted beside the records: the error's type in Ray's words, and its text.

Owns the names of error types as the state API shows them, and what is noted of a failure: by the worker that ran the
attempt (`note_error`), or by the owner of a task that ended without any worker's record of it (`note_failed`): its
argument failed, it was cancelled in the queue, its actor is dead, its process died. Runs in every owner and worker,
once per failure; never on the path of a task that ends well.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sundog import exceptions as errors
from sundog.owner.rows import DONE, WAITING
from sundog.wire.lanes import EXTRA_HIDDEN

if TYPE_CHECKING:
    from sundog.events import NoRing, Ring
    from sundog.owner.basics import Basics
    from sundog.owner.rows import Task

# The first class that matches the error decides.
_TYPES: tuple[tuple[type[BaseException], str], ...] = (
    # also for a cancelled coroutine, whose error is an instance of both classes
    (errors.RayTaskError, "TASK_EXECUTION_EXCEPTION"),
    (errors.TaskCancelledError, "TASK_CANCELLED"),
    (errors.OutOfMemoryError, "OUT_OF_MEMORY"),
    (errors.WorkerCrashedError, "WORKER_DIED"),
    (errors.ActorUnavailableError, "ACTOR_UNAVAILABLE"),
    (errors.ActorDiedError, "ACTOR_DIED"),
    (errors.RayActorError, "ACTOR_DIED"),
    (errors.NodeDiedError, "NODE_DIED"),
    (errors.LocalRayletDiedError, "LOCAL_RAYLET_DIED"),
    (errors.ObjectFreedError, "OBJECT_FREED"),
    (errors.OwnerDiedError, "OWNER_DIED"),
    (errors.ObjectReconstructionFailedError, "OBJECT_UNRECONSTRUCTABLE"),
    (errors.ObjectFetchTimedOutError, "OBJECT_FETCH_TIMED_OUT"),
    (errors.ObjectLostError, "OBJECT_LOST"),
    (errors.OutOfDiskError, "OUT_OF_DISK_ERROR"),
    (errors.TaskUnschedulableError, "TASK_UNSCHEDULABLE_ERROR"),
    (errors.ActorUnschedulableError, "ACTOR_UNSCHEDULABLE_ERROR"),
    (errors.TaskPlacementGroupRemoved, "TASK_PLACEMENT_GROUP_REMOVED"),
    (errors.ActorPlacementGroupRemoved, "ACTOR_PLACEMENT_GROUP_REMOVED"),
    (errors.RuntimeEnvSetupError, "RUNTIME_ENV_SETUP_FAILED"),
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def error_type(error: object) -> str:
    """The type of an error as the state API names it."""
    for kind, name in _TYPES:
        if isinstance(error, kind):
            return name
    return "TASK_EXECUTION_EXCEPTION"


def note_error(
    ring: Ring | NoRing, task_id: bytes, attempt: int, error: BaseException, *, in_order: bool = False
) -> None:
    """Note why an attempt failed; its record is written by the process that ran it.

    Args:
        in_order: it was ended on purpose, by a cancel or `sys.exit(0)`.
    """
    facts: dict[str, object] = {"type": error_type(error), "message": _text(error)}
    if in_order:
        facts["in_order"] = True
    ring.note("error", task=task_id.hex(), attempt=attempt, **facts)


def note_failed(basics: Basics, task: Task, error: object, now: float, origin: bytes = b"") -> None:
    """Note a task that failed here, with all that a worker would have written of it.

    Args:
        error: why; None if it is the error of an argument, which is not read here.
        origin: the task whose error that is.
    """
    from sundog.owner.description import task_facts

    if task.extra is not None and EXTRA_HIDDEN in task.extra:
        return
    basics.ring.note(
        "failed",
        **task_facts(basics, task),
        end_s=now,
        waited=task.state == WAITING,
        error=error_type(error),
        message=_text(error) if error is not None else "",
        origin=origin.hex(),
    )


def note_unfinished(basics: Basics) -> None:
    """Record the unfinished tasks of a process that leaves the session normally: they will never run."""
    now = basics.wall_s()
    for task in list(basics.table.values()):
        if task.state != DONE:
            left = errors.WorkerCrashedError(
                f"Job {basics.job_id().hex()} ended before {task.fn.name}() did."
            )
            note_failed(basics, task, left, now)
    basics.ring.note("left", at_s=now)  # calls without an event here were answered (observe/answered.py)


def _text(error: object) -> str:
    try:
        if isinstance(error, errors.RayTaskError):
            text = error.remote_text()
        elif isinstance(error, errors.RayError) and type(error).__str__ is errors.RayError.__str__:
            text = error.message  # the text without the next command: its reader has run that command
        else:
            text = str(error)
        return _COLOURS.sub("", text)
    except Exception:  # the error is the user's, and its own `__str__` may fail
        return type(error).__name__
