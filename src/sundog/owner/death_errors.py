"""The errors that follow from a death: of the worker that ran a task, of the process an actor lived in.

Owns their words and their facts, and the choice of class: memory is told as `OutOfMemoryError` whoever killed for
it, everything else as what it meant for the caller. Decides nothing about retries. Runs in every owner, under
its lock.
"""

from __future__ import annotations

import os
import pickle
import time

from sundog.exceptions import (
    ActorUnavailableError,
    NodeDiedError,
    OutOfMemoryError,
    RayError,
    RayTaskError,
    WorkerCrashedError,
)
from sundog.owner.rows import Task
from sundog.wire.cause import EXIT, KERNEL_OOM, MEMORY, NODE, SIGNAL, Cause

_STATUS_S = 0.5


def facts_of(cause: Cause) -> dict[str, object]:
    """What an error carries of a cause."""
    facts: dict[str, object] = dict(cause.facts)
    facts.update(exit_code=cause.exit_code, signal=cause.signal, cause=cause.text())
    if cause.last_line:
        facts["last_line"] = cause.last_line
    return facts


def is_memory(cause: object) -> bool:
    """Whether a process died because memory ran out."""
    return isinstance(cause, Cause) and cause.kind in (KERNEL_OOM, MEMORY)


def argument_error(task: Task, meta: bytes) -> RayTaskError | None:
    """The error of a task that an argument failed, when that is one of the system's: of the task, and of its class too.

    None for an error of another task's own, which passes as it is.
    """
    if b"RayTaskError" in meta:
        return None
    # an error of the runtime: an error of the user's code would be wrapped in a RayTaskError
    cause = pickle.loads(meta)
    text = f"An argument of {task.fn.name}() could not be computed:\n{type(cause).__name__}: {cause}"
    return RayTaskError(task.fn.name, text, cause, task_id=task.id.hex())


def task_error(task: Task, worker: bytes, pid: int, cause: Cause, output: str) -> RayError:
    """The error of a task whose worker died while the task ran, or may have run, and which is not retried."""
    message = (
        f"Worker {worker.hex()} (pid {pid}) died running {task.fn.name}() (task {task.id.hex()}, "
        f"attempt {task.attempt + 1}): {closed(cause.text())}Why: sundog why {task.id.hex()}. Its output: {output}"
    )
    kind = (
        OutOfMemoryError if is_memory(cause) else NodeDiedError if cause.kind == NODE else WorkerCrashedError
    )
    return kind(
        message,
        **facts_of(cause)
        | {
            "task_id": task.id.hex(),
            "worker_id": worker.hex(),
            "pid": pid,
            "function_name": task.fn.name,
            "attempt": task.attempt + 1,
        },
    )


def call_error(
    task: Task, actor: str, actor_id: bytes, pid: int, cause: object, told: str, *, begun: bool = True
) -> RayError:
    """The error of a call that an actor had not answered when it died, or that comes between two of its lives.

    Args:
        actor: the name of its class.
        told: the cause in words; a cause may be more than a `Cause`.
        begun: the actor may have begun it before it died.
    """
    if begun:
        message = (
            f"Actor {actor} ({actor_id.hex()}) died before it answered {task.fn.name}(), and is being restarted: "
            f"{closed(told)}The call may or may not have run. To retry such calls, give the actor "
            "max_task_retries."
        )
    else:
        message = (
            f"Actor {actor} ({actor_id.hex()}) died and is being restarted: {closed(told)}{task.fn.name}() had "
            "not begun, and will not run. With max_task_retries, calls wait until the actor is restarted."
        )
    facts = facts_of(cause) if isinstance(cause, Cause) else {}
    kind = OutOfMemoryError if is_memory(cause) else ActorUnavailableError
    return kind(
        message,
        **facts
        | {
            "actor_id": actor_id.hex(),
            "actor_name": actor,
            "task_id": task.id.hex(),
            "function_name": task.fn.name,
            "pid": pid or None,
        },
    )


def child_cause(pid: int) -> Cause | None:
    """Why a child of this process ended; the child is not reaped. None if the process is alive or not a
    child.
    """
    deadline = time.monotonic() + _STATUS_S
    while True:
        try:
            found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            # another process started the node, and the kernel reports an exit status to the parent only
            return None
        if found is not None:
            if found.si_code == os.CLD_EXITED:
                return Cause(exit_code=found.si_status, kind=EXIT)
            return Cause(signal=found.si_status, kind=SIGNAL)
        if time.monotonic() > deadline:
            return None
        time.sleep(0.001)  # the sockets of a process are closed a moment before its exit status is available


def closed(text: str) -> str:
    """A text that another sentence follows: on the same line, or below if it is a block of lines.

    >>> closed("it exited.")
    'it exited. '
    """
    text = text.rstrip("\n")
    return f"{text}\n" if "\n" in text else f"{text} "
