"""Cancelling tasks and calls: queued ones here, running ones at their worker.

Runs under the owner's lock. A task that waits is failed at once; one that was sent is first looked for
in the worker's unread packets; one that runs is interrupted there (`force` ends the worker's process).

A recursive cancel is a `Round`: each worker tells the workers of its task's children, and answers when they have. So
what a program does after `cancel()` cannot overtake the cancel on its way down and let a child end well::

    cancel() ─ cancel ─► worker ─ cancel ─► worker of a child
             ◄─ cancel_told ─   ◄─ cancel_told ─
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from sundog import events
from sundog.exceptions import TaskCancelledError
from sundog.owner.basics import Basics
from sundog.owner.control import Control
from sundog.owner.getting import Getting
from sundog.owner.lanes import Lane, OwnLane
from sundog.owner.lineage import Recovery
from sundog.owner.peers import Peers
from sundog.owner.replies import Replies
from sundog.owner.rows import DONE, SENT, Task
from sundog.wire.control import KillWorker
from sundog.wire.peers import CancelOwned, CancelTask, CancelTold

if TYPE_CHECKING:
    from sundog.owner.interfaces import Calling, Dispatching

_LOOK_S = 0.02
# arbitrary: how long cancel() waits for a worker that does not answer; the worker may be stopped
_TOLD_S = 0.5
_HASTE_S = 5.0  # arbitrary: after such a wait, cancel() does not wait again for this long
_AWAITED_MAX = 10_000  # bounds the table, since workers that died never answer
_KEY = b"cancel"


class Round:
    """One recursive cancel: the process to answer when all workers have been told, and the number of missing
    answers.
    """

    __slots__ = ("left", "number", "process")

    def __init__(self, process: bytes, number: int) -> None:
        self.process = process  # empty if a thread of this process waits
        self.number = number
        self.left = 1


class Cancels:
    """Cancels tasks of one owner."""

    dispatch: Dispatching  # set by the owner, which builds it later
    actors: Calling

    def __init__(
        self,
        basics: Basics,
        control: Control,
        peers: Peers,
        getting: Getting,
        replies: Replies,
        lineage: Recovery,
    ) -> None:
        self.basics = basics
        self.control = control
        self.peers = peers
        self.getting = getting
        self.replies = replies
        self.lineage = lineage
        # Cancelled tasks of this process whose children were cancelled too, and which have not ended yet.
        self.childless: set[bytes] = set()
        self._round: Round | None = None  # the round of the current cancel
        self._numbers = 0
        self._awaited: dict[int, Round] = {}  # number of the message that needs an answer -> round
        self._hasty_until_s = 0.0

    # ------------------------------------------------------------------ rounds
    def begin(self, task: Task, *, force: bool, recursive: bool) -> Round:
        """Cancel a task that this process submitted, for a thread that then waits until its children have
        been told.

        Raises:
            ValueError: `force` on an actor call.
        """
        self._numbers += 1
        made = Round(b"", self._numbers)
        self._carry_out(made, lambda: self.cancel_task(task, force=force, recursive=recursive))
        return made

    def await_told(self, made: Round) -> None:
        """Wait, without the lock, until all workers concerned have been told; only briefly if a worker does
        not answer.
        """
        if made.left and time.monotonic() >= self._hasty_until_s:
            key = _KEY + made.number.to_bytes(8, "little")
            if not self.getting.block_until(lambda: not made.left, key, _TOLD_S):
                self._hasty_until_s = time.monotonic() + _HASTE_S

    def cancel_here(self, process: bytes, message: CancelTask, cancel: Callable[[bytes, bool], None]) -> None:
        """The owner of a task that this worker has cancels it."""
        _, task_id, recursive, number = message
        if number:
            self._carry_out(Round(process, number), lambda: cancel(task_id, recursive))
        else:
            cancel(task_id, recursive)

    def told(self, _process: bytes, message: CancelTold) -> None:
        """A worker has carried out a cancel of this process, for the task and for its children."""
        made = self._awaited.pop(message.number, None)
        if made is not None:
            self._settle(made)

    def _carry_out(self, made: Round, cancel: Callable[[], None]) -> None:
        before, self._round = self._round, made
        try:
            cancel()
        finally:
            self._round = before
            self._settle(made)

    def _settle(self, made: Round) -> None:
        made.left -= 1
        if made.left:
            return
        if made.process:
            self.peers.send(made.process, CancelTold(made.number))
        else:
            self.basics.objects.announce(_KEY + made.number.to_bytes(8, "little"))

    def _tell(self, task: Task, lane: Lane, recursive: bool) -> None:
        number = 0
        if recursive and self._round is not None and lane.worker:
            self._numbers += 1
            number = self._numbers
            self._round.left += 1
            self._awaited[number] = self._round
            if len(self._awaited) > _AWAITED_MAX:
                del self._awaited[next(iter(self._awaited))]
        self.actors.tell(lane, CancelTask(task.id, recursive, number))

    # ------------------------------------------------------------------ tasks

    def cancel_task(self, task: Task, *, force: bool, recursive: bool, quiet: bool = False) -> None:
        """Cancel a task that this process submitted; a finished task is left alone.

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
        lane = task.lane
        if task.state == SENT and lane is not None:
            lane.take_back()
        if task.state != SENT or lane is None:
            self.fail(task)
            if task.actor is not None:
                # the cancelled call may have kept other calls from being sent
                self.actors.send_calls(task.actor)
            else:
                self.dispatch.dispatch_all()  # the cancelled task may have been the last that needed a worker
            return
        if isinstance(lane, OwnLane):
            return  # the task runs inside its parent's process and ends with the parent (`worker/inline.py`)
        if not force:
            self._tell(task, lane, recursive)
        elif self._behind_another(task, lane):
            # The worker removes the task from its queue. If the task has begun by then, the worker is killed.
            self._tell(task, lane, recursive)
            self.basics.agenda.after(_LOOK_S, task, self._kill_once_it_runs, task, lane)
        else:
            self._kill(lane)

    def _behind_another(self, task: Task, lane: Lane) -> bool:
        """Whether the worker runs another task of this process first, by its flight recorder: then it must
        not be killed.
        """
        if len(lane.inflight) < 2:
            return False
        running, _ = events.sent_last(self.control.ring_path(lane.worker))
        return running != task.id and running in lane.inflight

    def _kill_once_it_runs(self, task: Task, lane: Lane) -> None:
        if task.state != SENT or task.lane is not lane:
            return
        if self._behind_another(task, lane):
            self.basics.agenda.after(_LOOK_S, task, self._kill_once_it_runs, task, lane)
        else:
            self._kill(lane)

    def _kill(self, lane: Lane) -> None:
        self.control.send(KillWorker(lane.worker, "its task was cancelled with force=True"))

    def fail(self, task: Task, when: str = "before it ran") -> None:
        """End a task that was cancelled and does not run (again)."""
        self.replies.fail_with(
            task,
            TaskCancelledError(
                f"Task {task.fn.name} ({task.id.hex()}) was cancelled {when}.", task_id=task.id.hex()
            ),
        )

    def cancel_children_of(self, parent: bytes) -> None:
        """Cancel what a task or call that runs here has submitted; and what its children in this process have."""
        with self.basics.lock:
            parents, found = {parent}, []
            for task in list(self.basics.table.values()):  # the table lists a child after its parent
                if task.parent in parents:
                    found.append(task)
                    if isinstance(task.lane, OwnLane):
                        parents.add(task.id)
            self._cancel_each(found)

    def _cancel_each(self, children: list[Task]) -> None:
        for task in children:
            # Cancel a task once. Children are cancelled with their parent and again at the parent's end, and
            # a second interrupt would disturb how the task handles the first.
            if not task.cancelled:
                self.cancel_task(task, force=False, recursive=True)

    def cancel_late(self, task_id: bytes) -> None:
        """A cancelled task has ended: cancel the tasks that it submitted between the cancel of its children
        and its interrupt.
        """
        if task_id in self.childless:
            self.childless.discard(task_id)
            self.cancel_children_of(task_id)

    def cancel_for(self, _process: bytes, message: CancelOwned) -> None:
        """Another process, which has a ref to a result of a task of this process, cancels the task."""
        task = self.basics.table.get(message.task_id)
        if task is None:
            self.lineage.cancelled(message.task_id)
        else:
            # Only this process knows whether the task is an actor's call. `force` is not possible for a call;
            # the other options are.
            self.cancel_task(task, force=message.force and task.actor is None, recursive=message.recursive)
