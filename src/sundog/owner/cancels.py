"""Cancelling tasks and calls: queued ones here, running ones at their worker.

Runs under the owner's lock. A task that waits is failed at once; one that was sent is first looked for
in the worker's unread packets; one that runs is interrupted there (`force` ends the worker's process).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.exceptions import TaskCancelledError
from sundog.owner.actors import ActorLink
from sundog.owner.records import DONE, SENT, Lane, Task

if TYPE_CHECKING:
    from sundog.owner.core import Owner


class Cancels:
    """Cancels tasks of one owner."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner

    def cancel_task(self, task: Task, *, force: bool, recursive: bool, quiet: bool = False) -> None:
        """Cancel one of our tasks; one that is done is left alone.

        Raises:
            ValueError: `force` on an actor call.
        """
        if task.state == DONE:
            return
        if task.actor is not None and force:
            raise ValueError(
                "force=True is not possible for an actor's call: ending the process would end the actor. "
                "Use sundog.kill(actor), or cancel without force."
            )
        task.cancelled = True
        task.retries = 0
        if task.state != SENT:
            self._fail(task)
            return
        lane = task.lane
        if isinstance(lane, Lane):
            self.owner.tasks.take_back(lane)
            if task.state != SENT:
                self._fail(task)
                self.owner.tasks.dispatch_all()
                return
        if force:
            self.owner.control.send(("kill_worker", lane.worker, "its task was cancelled with force=True"))
        elif isinstance(lane, Lane) or isinstance(lane, ActorLink):
            if not lane.worker:
                self._fail(task)
            else:
                self.owner.peers.send(lane.worker, ("cancel", task.id, recursive))

    def _fail(self, task: Task) -> None:
        self.owner.replies.fail_with(
            task,
            TaskCancelledError(
                f"Task {task.fn.name} ({task.id.hex()}) was cancelled before it ran.", task_id=task.id.hex()
            ),
        )

    def cancel_children(self, of_task: bytes | None) -> None:
        """Cancel every unfinished task of this owner (a worker whose own task was cancelled recursively)."""
        with self.owner.lock:
            for task in list(self.owner.table.values()):
                if task.actor is None:
                    self.cancel_task(task, force=False, recursive=True)
