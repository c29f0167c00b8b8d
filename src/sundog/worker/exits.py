"""Ways out of a task that are no error of its own: a cancel, and `sys.exit()` in a user's code.

Owns the exit code that Python would give, and the error of a task that left so: to its caller it is the death of the
worker, within `max_retries`, as it is in Ray. Owns also the answer to whether a worker may end now. Refuses to end
anything: the worker's main thread does, after its last replies. Runs in workers, in the thread that ran the task;
`may_exit` under the owner's lock.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sundog.exceptions import RayTaskError, WorkerCrashedError

if TYPE_CHECKING:
    from sundog.owner.core import Owner


class CallCancelled(BaseException):
    """A cancelled call that was not interrupted has returned: its caller was promised an error."""


class Terminated(SystemExit):
    """`SIGTERM` arrived while the user's code ran."""


def exit_code(error: SystemExit) -> int:
    """The code that Python would end with: text counts as failure, and one byte is left of a number."""
    code = error.code
    if code is None:
        return 0
    return (code & 0xFF or (1 if code else 0)) if isinstance(code, int) else 1


def told(error: SystemExit, where: str) -> str:
    """The reason of a worker's end after `sys.exit()`; the node shows it as the worker's exit detail."""
    return f"sys.exit({error.code!r}) was called in {where} (exit code {exit_code(error)})"


def is_in_order(error: BaseException) -> bool:
    """Whether a call that ended its actor counts as finished: `sys.exit(0)`, as in Ray."""
    return isinstance(error, SystemExit) and not isinstance(error, Terminated) and not exit_code(error)


def error_of(error: SystemExit, name: str, task_id: bytes) -> WorkerCrashedError:
    """What the caller of a task gets that called `sys.exit()`."""
    received = isinstance(error, Terminated)
    called = "SIGTERM arrived" if received else f"sys.exit({error.code!r}) was called in it"
    told = RayTaskError.from_exception(
        error, function_name=name, pid=os.getpid(), task_id=task_id.hex(), skip_frames_of=()
    )
    return WorkerCrashedError(
        f"Task {name} ({task_id.hex()}) ended its worker (pid {os.getpid()}): {called}. To end only the task, return "
        f"or raise another exception.\n\n{told.traceback_str}",
        exit_code=exit_code(error),
        function_name=name,
        task_id=task_id.hex(),
        pid=os.getpid(),
        cause=called,
    )


def may_exit(owner: Owner) -> bool:
    """Whether no process needs this one: it owns nothing that others hold, and waits for nothing."""
    owner.objects.drain()
    return not owner.refs.has_dependants() and not owner.table and not owner.actors.scopes
