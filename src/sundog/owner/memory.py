"""Memory as owners see it: tasks whose worker was ended for it, and what runs where when the node asks.

Owns the budgets of such tasks, and the words of `OutOfMemoryError`. A task ended while others run has
a budget of its own (`task_oom_retries`), for it was not its fault; one that was ended with nothing else to blame uses
up its `max_retries`; one that fills most of the memory by itself is not tried again. Runs under the owner's lock, in
whichever thread reads the sockets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog import notices
from sundog.exceptions import OutOfMemoryError
from sundog.owner.basics import Basics
from sundog.owner.control import Control
from sundog.owner.lanes import Lane
from sundog.owner.replies import Replies
from sundog.owner.rows import Task
from sundog.state import backoff
from sundog.wire.cause import Cause
from sundog.wire.control import Notice, RunningTold, TellRunning

if TYPE_CHECKING:
    from sundog.owner.interfaces import Dispatching

_LONGEST_ATTEMPT = 4


class MemoryLosses:
    """What memory took from one owner."""

    dispatch: Dispatching  # set by the owner, which builds it later

    def __init__(self, basics: Basics, control: Control, replies: Replies) -> None:
        self.basics = basics
        self.control = control
        self.replies = replies

    # ------------------------------------------------------------------ losing a task
    def lost(self, task: Task, lane: Lane, cause: Cause) -> None:
        """The worker of a task was ended because memory ran short: retry the task after a delay, or fail it."""
        if not self._may_retry(task, str(cause.facts.get("retry"))):
            self.replies.fail_with(task, error_of(task, lane, cause))
            return
        replies = self.replies
        replies.begin_attempt(task)
        task.memory_attempt += 1
        # Admission limits how many tasks start again at once, so the delay need not grow without bound.
        wait_s = backoff.delay_s(min(task.memory_attempt, _LONGEST_ATTEMPT), backoff.MEMORY, task.id)
        replies.requeue_later(task, wait_s)

    def _may_retry(self, task: Task, retry: str) -> bool:
        # the memory monitor's state machine: not loaded at every start
        from sundog.state.memory import COUNTED, FREE

        if task.retries == 0:
            return False
        if retry == FREE:
            most = self.basics.config.task_oom_retries
            return most < 0 or task.memory_attempt < most
        if retry == COUNTED and task.retries > 0:
            task.retries -= 1
        return retry == COUNTED

    # ------------------------------------------------------------------ from the node
    def running(self, message: TellRunning) -> None:
        """The node asks what runs on this owner's workers: it has to choose one to end."""
        rows = []
        for worker, lane in self.dispatch.lanes.items():
            # a worker runs its packets in order, so the oldest task is the running one
            task = next(iter(lane.inflight.values()), None)
            if task is not None:
                rows.append((worker, task.id, task.fn.name, task.retries))
        self.control.send(RunningTold(message.token, rows))

    def notice(self, message: Notice) -> None:
        """The node has something to say to the user."""
        self.basics.deliveries.bring(notices.warn, message.text)


def error_of(task: Task, lane: Lane, cause: Cause) -> OutOfMemoryError:
    """The error of a task that was ended because memory ran short and is not retried."""
    facts: dict[str, object] = dict(cause.facts)
    facts.update(
        task_id=task.id.hex(),
        worker_id=lane.worker.hex(),
        pid=lane.pid,
        function_name=task.fn.name,
        attempt=task.attempt + 1,
        exit_code=cause.exit_code,
        signal=cause.signal,
    )
    if "cap_bytes" in facts:
        advice = "Give the task a larger memory=, or make it use less memory."
    elif not task.retries and task.attempt == 0:
        advice = "The task has max_retries=0. With memory= fewer tasks run at once; with max_retries it is tried again."
    else:
        advice = "With memory= or a larger num_cpus= fewer tasks run at once."
    return OutOfMemoryError(
        f"{task.fn.name}() (task {task.id.hex()}, attempt {task.attempt + 1}) on worker {lane.worker.hex()} (pid "
        f"{lane.pid}) of node {facts.get('node_id')} did not finish: {cause.text()}\n{advice} "
        f"Why: sundog why {task.id.hex()}",
        **facts,
    )
