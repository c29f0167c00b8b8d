"""What parts of an owner ask of parts that are built after them.

The parts need each other: replies go to lineage, and lineage sends tasks again, whose replies come. A part imports only
parts that are built before it (`core.py` has the order); of a part that is built after it, it knows the interface that
stands here. The owner connects them once all are there. Owns no code: types alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from sundog.exceptions import RayError
from sundog.owner.lanes import ActorLane, Lane, LeasedLane
from sundog.owner.objects import CopyLost
from sundog.owner.rows import Shape, Task, Value
from sundog.state.lease_spec import LeaseSpec
from sundog.wire.cause import Cause
from sundog.wire.peers import ToPeer

if TYPE_CHECKING:
    from sundog.wire.dicts import LeaseSetup
    from sundog.wire.lanes import WireValue


class Blocking(Protocol):
    """Waits for what is not there yet (`getting.Getting`)."""

    def block_until(self, done: Callable[[], bool], key: bytes, timeout_s: float | None) -> bool:
        """Block until `done()`, which an announcement of `key` tells other threads about."""


class Dispatching(Protocol):
    """Sends tasks to leased workers (`dispatch.Dispatch`)."""

    lanes: dict[bytes, LeasedLane]
    leases: dict[int, LeasedLane]

    def dispatch_all(self) -> None:
        """Send queued tasks of every shape, and settle how many leases each needs."""

    def look_at(self, shape: Shape | None) -> Shape:
        """A shape is about to have work: register it again if it was forgotten."""

    def shape_for(self, spec: LeaseSpec, setup: LeaseSetup) -> Shape:
        """The shape of this demand, made on first use."""

    def requeue(self, lane: LeasedLane | None, tasks: list[Task], late: bool = True) -> None:
        """Put tasks that were not begun back to the head of their queues, in order."""

    def release(self, lane: LeasedLane) -> None:
        """Give a lease back; the lane stays for the next time."""


class Calling(Protocol):
    """Sends calls to actors (`actors.ActorCalls`)."""

    links: dict[bytes, ActorLane]
    unopened: deque[ActorLane]

    def dispatch_all(self) -> None:
        """Send what waits for actors."""

    def tell_shortage(self) -> None:
        """Say that no descriptor is free for a lane or a channel, which waits until one is."""

    def is_scope(self, oid: bytes) -> bool:
        """Whether an object id stands for the counted handles of an actor that this process created."""

    def ready_to_send(self, task: Task) -> None:
        """The arguments of a queued call are here."""

    def send_calls(self, link: ActorLane) -> None:
        """Send queued calls in order, as many as the socket takes."""

    def settle(self, link: ActorLane) -> None:
        """A call ended without a reply."""

    def tell(self, lane: Lane, message: ToPeer) -> None:
        """Send a message to the worker behind a lane, now or as soon as its process is known."""

    def worker_known(self, link: Lane, worker: bytes, pid: int) -> None:
        """The process in which an actor lives is known."""

    def died_error(self, link: ActorLane, task: Task | None = None) -> RayError:
        """The error for calls to an actor that is dead and will not restart."""


class Recovering(Protocol):
    """Makes lost results again (`lineage.Recovery`)."""

    def lost_here(self, lost: CopyLost) -> None:
        """A thread of this process found a copy gone. Not locked."""

    def argument_lost(self, task: Task, oid: bytes, segment: str) -> None:
        """A worker could not open an argument: the task waits for the argument again."""

    def arrived(self, task: Task, first: int, values: list[WireValue], lane: Lane) -> None:
        """All results of a task that ran again."""

    def item(self, task: Task, index: int, value: WireValue, lane: Lane) -> None:
        """One item of a generator that runs again."""

    def ended(self, task: Task) -> None:
        """A generator that ran again has returned."""

    def failed(self, task: Task, value: Value) -> None:
        """A task that ran again failed."""

    def finished(self, task: Task) -> None:
        """A task with results in segments is done."""

    def replaced(self, task: Task, oid: bytes, value: Value) -> bool:
        """An item that an earlier attempt made has come again: whether the new copy takes its place."""

    def resume(self, task: Task) -> None:
        """A task is done: rebuild results that were lost in the meantime."""

    def was_stale_cancel(self, task: Task) -> bool:
        """Whether a cancel ended another attempt than the one it was meant for."""


class Cancelling(Protocol):
    """Cancels tasks (`cancels.Cancels`)."""

    def cancel_task(self, task: Task, *, force: bool, recursive: bool, quiet: bool = False) -> None:
        """Cancel a task that this process submitted; a finished task is left alone."""

    def fail(self, task: Task, when: str = "before it ran") -> None:
        """End a task that was cancelled and does not run (again)."""


class Bounding(Protocol):
    """Watches the bounds of tasks (`timeouts.Timeouts`)."""

    def watch(self, task: Task, delay_s: float = 0.0) -> None:
        """From now (and `delay_s`) on, an attempt has its queue_timeout_s to start."""

    def started(self, task: Task) -> None:
        """Its worker says that an attempt began."""

    def killed(self, task: Task) -> None:
        """The worker of an overdue task is dead: try again, or fail."""


class MemoryJudging(Protocol):
    """Decides on tasks that memory took (`memory.MemoryLosses`)."""

    def lost(self, task: Task, lane: Lane, cause: Cause) -> None:
        """The worker of a task was ended for memory."""


class Draining(Protocol):
    """Takes the replies that lie in the socket of a lane (`replies.Replies`)."""

    def drain_lane(self, lane: Lane) -> None:
        """Read the replies that a worker managed to send."""


class Awaiting(Protocol):
    """Waits for the arguments of tasks (`arguments.Arguments`)."""

    def await_all(self, task: Task) -> None:
        """Queue the task once the values of its top-level refs are here."""
