"""`timeout_s` and `queue_timeout_s`, as the owner of a task sees them.

Owns: when a task that does not start is given up, and when a worker whose task does not stop is killed. Refuses:
measuring how long a task runs; its worker does that (`worker/deadlines.py`), which needs no owner that is awake. ::

    .remote() ──queue_timeout_s──► begun? no: failed here, or `expire` to the worker, which alone knows
    R_STARTED ──timeout_s + grace──► still running? a task: its worker is killed; a call: it fails, its actor goes on

Runs under the owner's lock, in whichever thread reads. Both bounds are those of one attempt; a task without them never
comes here.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from sundog.exceptions import TaskQueueTimeoutError, TaskTimeoutError
from sundog.owner.basics import Basics
from sundog.owner.control import Control
from sundog.owner.fault_dumps import SIGNAL as STACK_SIGNAL
from sundog.owner.replies import Replies
from sundog.owner.rows import SENT, WAITING, Fn, Task
from sundog.state import backoff
from sundog.wire.control import KillWorker
from sundog.wire.lanes import EXTRA_TIMEOUT
from sundog.wire.peers import Expire

if TYPE_CHECKING:
    from sundog.options import MethodOptions, TaskOptions
    from sundog.owner.interfaces import Calling

_DUMP_S = 0.1
_LOOKS = 20  # checks whether a stack has been written; on a busy machine a worker may begin late
_ASK_AGAIN_S = 1.0
_PACKAGE_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def bind(fn: Fn, options: TaskOptions | MethodOptions, extra: dict[str, object] | None) -> dict[str, object]:
    """Give a function its bounds; returns what its tasks carry so that their worker knows."""
    fn.timeout_s, fn.queue_timeout_s = options.timeout_s, options.queue_timeout_s
    # takes the path of `Tasks.refs_of`, where the watch begins
    fn.one = fn.one and fn.queue_timeout_s is None
    retry = options.retry_exceptions
    fn.retry_timeout = retry if isinstance(retry, bool) else issubclass(TaskTimeoutError, retry)
    return {**(extra or {}), EXTRA_TIMEOUT: fn.timeout_s or 0.0}


class Timeouts:
    """The bounds of one owner's tasks."""

    actors: Calling  # set by the owner, which builds it later

    def __init__(self, basics: Basics, control: Control, replies: Replies) -> None:
        self.basics = basics
        self.control = control
        self.replies = replies
        self.grace_s = basics.config.timeout_grace_s

    # ------------------------------------------------------------------ before the start
    def watch(self, task: Task, delay_s: float = 0.0) -> None:
        """From now (and `delay_s`) on, an attempt has its queue_timeout_s to start."""
        bound_s = task.fn.queue_timeout_s
        if bound_s is not None:
            with self.basics.lock:
                self.basics.agenda.bound(delay_s + bound_s, task, self._not_begun, task, task.attempt)

    def _not_begun(self, task: Task, attempt: int) -> None:
        if task.attempt != attempt or task.began == attempt or task.cancelled:
            return
        lane = task.lane
        why = self._waits_for(task)
        if task.state == SENT and lane is not None:
            # Unread packets can be taken back. A task that the worker has read can be stopped by the worker
            # alone.
            lane.take_back()
        if task.state == SENT and lane is not None:
            self.actors.tell(lane, Expire(task.id, task.fn.name, task.fn.queue_timeout_s or 0.0, attempt))
            # The worker may have handed the task back: then it is in a queue here when the question arrives.
            self.basics.agenda.after(_ASK_AGAIN_S, task, self._not_begun, task, attempt)
            return
        self.replies.fail_with(
            task, queue_error(task.id, task.fn.name, attempt, task.fn.queue_timeout_s or 0.0, why)
        )

    def _waits_for(self, task: Task) -> str:
        """What a task that was not begun waits for."""
        if task.state == WAITING:
            missing = [oid.hex() for oid in task.deps or () if oid not in self.basics.ready]
            shown = ", ".join(missing[:3])
            return f"it waits for arguments that are not ready: {shown}. Why: sundog why {task.id.hex()}"
        link = task.actor
        if link is not None:
            if link.state != "ALIVE":
                return f"its actor has not started yet ({link.state}). Why: sundog why {task.id.hex()}"
            before = len(link.inflight) + sum(1 for other in link.queue if other.submit_s < task.submit_s)
            return f"{before} earlier calls of this process are before it in the queue of its actor."
        asked = ", ".join(f"{name}={amount:g}" for name, amount in task.fn.shape.spec.resources)  # type: ignore[union-attr]
        return f"no worker became free for it (it asks for {asked or 'nothing'}). See: sundog why {task.id.hex()}"

    # ------------------------------------------------------------------ while it runs
    def started(self, task: Task) -> None:
        """Its worker says that an attempt began."""
        task.began = task.attempt
        if task.fn.timeout_s is not None:
            self.basics.agenda.bound(
                task.fn.timeout_s + self.grace_s, task, self._did_not_stop, task, task.attempt
            )

    def _did_not_stop(self, task: Task, attempt: int) -> None:
        """The worker should have interrupted the task by now, and the task had its time to react."""
        lane = task.lane
        if task.attempt != attempt or task.state != SENT or lane is None:
            return
        if task.stack or not lane.pid:
            self._end(task, attempt)
            return
        # The worker does not answer: something keeps Python from running there. Its fault handler works
        # without Python.
        with contextlib.suppress(OSError):
            os.kill(lane.pid, STACK_SIGNAL)
        self.basics.agenda.after(_DUMP_S, task, self._end, task, attempt, -1, _LOOKS)

    def _end(self, task: Task, attempt: int, size: int = -1, looks: int = 0) -> None:
        """End an overdue task once its stack is written: the file has not grown since the look before."""
        lane = task.lane
        if task.attempt != attempt or task.state != SENT or lane is None:
            return
        path = self.control.stack_path(lane.worker)
        now = size_of(path)
        if looks and (now != size or not now):
            self.basics.agenda.after(_DUMP_S, task, self._end, task, attempt, now, looks - 1)
            return
        task.stack = task.stack or read_dump(path)
        if task.actor is None:
            task.overdue = True
            self.control.send(KillWorker(lane.worker, self._reason(task)))
            return
        # Killing the process would end the actor, its state and the calls of other processes: the user
        # decides that.
        lane.inflight.pop(task.id, None)
        outcome = f"It did not stop within {self.grace_s:g} s and still runs in its actor. sundog.kill(actor) ends it."
        self.replies.fail_with(task, self._error(task, outcome, goes_on=True))

    def _reason(self, task: Task) -> str:
        return (
            f"its task {task.fn.name} passed timeout_s={task.fn.timeout_s:g} and did not stop within "
            f"{self.grace_s:g} s"
        )

    def killed(self, task: Task) -> None:
        """The worker of an overdue task was killed: retry the task, or fail it."""
        task.overdue = False
        if task.fn.retry_timeout and task.retries != 0:
            self.replies.retry(task, backoff.TIMEOUT)
            return
        outcome = f"It did not stop within {self.grace_s:g} s, so its worker was killed."
        self.replies.fail_with(task, self._error(task, outcome))

    def _error(self, task: Task, outcome: str, *, goes_on: bool = False) -> TaskTimeoutError:
        lane = task.lane
        assert lane is not None  # this attempt was sent, so it has a lane
        return run_error(
            task.id,
            task.fn.name,
            task.attempt,
            task.fn.timeout_s or 0.0,
            outcome,
            stack=task.stack,
            worker=lane.worker,
            pid=lane.pid,
            output=self.control.log_path(lane.worker),
            goes_on=goes_on,
        )


def run_error(
    task_id: bytes,
    name: str,
    attempt: int,
    timeout_s: float,
    outcome: str,
    *,
    stack: str,
    worker: bytes,
    pid: int,
    output: str,
    goes_on: bool = False,
) -> TaskTimeoutError:
    """The error of a task that ran too long."""
    where = f" When the time was over, its code was here:\n{stack}\n" if stack else " "
    return TaskTimeoutError(
        f"{name}() (task {task_id.hex()}, attempt {attempt + 1}) ran longer than its timeout_s={timeout_s:g} in "
        f"worker {worker.hex()} (pid {pid}). {outcome}{where}Why: sundog why {task_id.hex()}. Its output: {output}",
        task_id=task_id.hex(),
        function_name=name,
        timeout_s=timeout_s,
        attempt=attempt + 1,
        stack=stack,
        worker_id=worker.hex(),
        pid=pid,
        goes_on=goes_on,
    )


def queue_error(
    task_id: bytes,
    name: str,
    attempt: int,
    queue_timeout_s: float,
    why: str,
    *,
    stack: str = "",
    worker: bytes = b"",
    pid: int | None = None,
) -> TaskQueueTimeoutError:
    """The error of a task that was not begun in time."""
    where = f" The work before it is at this line:\n{stack}" if stack else ""
    return TaskQueueTimeoutError(
        f"{name}() (task {task_id.hex()}, attempt {attempt + 1}) did not start within its "
        f"queue_timeout_s={queue_timeout_s:g}, and will never start: {why}{where}",
        task_id=task_id.hex(),
        function_name=name,
        queue_timeout_s=queue_timeout_s,
        attempt=attempt + 1,
        waited_for=why,
        stack=stack,
        worker_id=worker.hex() or None,
        pid=pid,
    )


def size_of(path: str) -> int:
    """How many bytes a file has; 0 if it is not there."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def read_dump(path: str) -> str:
    """The stack that a fault handler wrote last, outermost call first."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return ""
    starts = [number for number, line in enumerate(lines) if line.endswith("(most recent call first):")]
    frames = []
    for line in lines[starts[-1] + 1 :] if starts else ():
        if not line.startswith("  File"):
            break
        frames.append(line)
    ours = [_PACKAGE_DIR in line for line in frames]
    users = frames[: ours.index(True)] if True in ours else frames
    return "\n".join(reversed(users or frames))
