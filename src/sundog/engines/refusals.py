"""What the node cannot do for this process: requests that fit nowhere, environments that cannot be set up.

Owns the words that users read, and which tasks fail. A request that a larger cluster could meet stays pending
with a warning; one that can never be met (a hard node affinity, a placement group that was removed, a broken
environment) fails its tasks. The node does the same for actors. Handlers run under the owner's lock, in
drivers and in workers.
"""

from __future__ import annotations

from collections.abc import Callable

from sundog import notices
from sundog.exceptions import RuntimeEnvSetupError, TaskPlacementGroupRemoved, TaskUnschedulableError
from sundog.owner.core import Owner
from sundog.owner.rows import Shape, Task
from sundog.state.lease_spec import GROUP_REMOVED
from sundog.wire.control import ActorInfeasible, EnvFailed, LeaseInfeasible


class Refusals:
    """Handles the node's refusals for one owner."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self._said: set[str] = set()
        owner.actors.on_shortage = lambda text: self.warn_once("descriptors", text)

    def task(self, message: LeaseInfeasible) -> None:
        """Tasks of a shape fit no node."""
        _, key, resources, reason = message
        shape = self.owner.dispatch.shapes_by_key.get(key)
        if shape is None:
            return  # the want was withdrawn while this message was on its way
        if reason == GROUP_REMOVED:
            self._fail_all(shape, lambda task: _group_removed(task))
        elif shape.spec.strategy[0] == "node":
            self._fail_all(shape, lambda task: _unschedulable(task, reason))
        else:
            name = shape.queue[0].fn.name if shape.queue else "a task"
            self._warn_of(name, resources, reason)

    def actor(self, message: ActorInfeasible) -> None:
        """An actor fits no node."""
        self._warn_of(message.class_name, message.resources, message.reason)

    def environment(self, message: EnvFailed) -> None:
        """A runtime environment cannot be set up."""
        _, env_key, text, facts = message
        for shape in self.owner.dispatch.shapes:
            if shape.spec.env_key == env_key:
                self._fail_all(shape, lambda task: _environment_failed(task, text, facts))

    def _fail_all(self, shape: Shape, error: Callable[[Task], Exception]) -> None:
        queue = shape.queue
        while queue:  # one at a time: another thread may add tasks
            task = queue.popleft()
            self.owner.replies.fail_with(task, error(task))
        # Withdraw the want, so that the node answers again for later tasks and for tasks of a dead worker.
        shape.wanted = 0
        self.owner.control.want(shape, 0)

    def _warn_of(self, name: str, resources: dict[str, float], reason: str) -> None:
        text = (
            f"{name} asks for {resources}, which no node of this session has ({reason}). It stays pending until "
            "such a node joins. See: sundog status"
        )
        self.owner.deliveries.bring(notices.warn, text)

    def warn_once(self, about: str, text: str) -> None:
        """Show a warning, if none has been about this: the node and this process may both notice a shortage."""
        if about not in self._said:
            self._said.add(about)
            if self.owner.deliveries.can_bring():
                self.owner.deliveries.bring(notices.warn, text)
            else:
                notices.warn(text)  # this warning is about the shortage of threads


def _group_removed(task: Task) -> Exception:
    return TaskPlacementGroupRemoved(
        f"Task {task.fn.name} ({task.id.hex()}) cannot run: its placement group was removed.",
        task_id=task.id.hex(),
    )


def _unschedulable(task: Task, reason: str) -> Exception:
    return TaskUnschedulableError(
        f"Task {task.fn.name} ({task.id.hex()}) can never be placed where its NodeAffinitySchedulingStrategy with "
        f"soft=False wants it: {reason}. See: sundog.nodes()",
        task_id=task.id.hex(),
    )


def _environment_failed(task: Task, text: str, facts: dict[str, object]) -> Exception:
    return RuntimeEnvSetupError(
        f"The runtime environment of {task.fn.name} ({task.id.hex()}) could not be set up: {text}",
        **{**facts, "task_id": task.id.hex()},
    )
