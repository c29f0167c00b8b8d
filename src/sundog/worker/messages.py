"""What a worker hears beyond what every owner does: the node's messages to it, and those of the owners of its tasks.

Owns the two tables; with those of `owner/messages.py`, and `engines/messages.py` once user code uses the API, they are
all that a worker handles. All handlers run under the owner's lock, in the reader thread or in whichever reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.wire import control, peers
from sundog.wire.row import Table, on
from sundog.worker.exits import may_exit

if TYPE_CHECKING:
    from sundog.owner.core import Owner
    from sundog.worker.actor_life import ActorLife
    from sundog.worker.breakpoints import Breakpoints
    from sundog.worker.executor import Executor


def from_node(owner: Owner, life: ActorLife, breakpoints: Breakpoints) -> Table:
    """Handlers for messages of the node to a worker. `life.serving` changes when the worker becomes an
    asyncio actor.
    """
    return Table(
        on(control.LaneOpened, lambda message, fd: life.serving.add_lane(message.owner, fd)),
        on(control.ConstructActor, life.construct),
        on(control.TerminateActor, life.terminate),
        on(control.StopServing, lambda message: life.stop(message.reason)),
        on(control.SetTriggers, breakpoints.set_triggers),
        on(control.SetCaptures, breakpoints.set_captures),
        on(control.MayAct, lambda _message: owner.control.send(control.ActOk(may_exit(owner)))),
        on(control.MayExit, lambda _message: owner.control.send(control.ExitOk(may_exit(owner)))),
    )


def from_peers(owner: Owner, life: ActorLife, executor: Executor) -> Table:
    """Handlers for messages of the owners of its tasks to a worker."""

    def cancel(process: bytes, message: peers.CancelTask) -> None:
        owner.cancels.cancel_here(process, message, life.serving.cancel)

    def expire(process: bytes, message: peers.Expire) -> None:
        executor.deadlines.expire(process, message, list(life.serving.lanes.values()))

    def consumed(_process: bytes, message: peers.Consumed) -> None:
        executor.gates.consumed(message.task_id, message.items)

    return Table(
        on(peers.CancelTask, cancel),
        on(peers.Expire, expire),
        on(peers.Consumed, consumed),
        on(peers.Unwanted, executor.results.unwanted.told),
    )
