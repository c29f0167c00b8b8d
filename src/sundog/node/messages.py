"""The node's tables: which part handles which message of a driver, worker or command, and which of a zygote.

Owns the tables alone. Every handler runs on the node's only thread, with the process that sent the message, the row,
and the descriptor that came along, if its row has one. Rows: `wire/control.py`; requests: `node/requests.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.wire import control, members, zygote
from sundog.wire.row import Table, on

if TYPE_CHECKING:
    from sundog.node.program import Node


def table(node: Node) -> Table:
    """All that the node hears from drivers, workers, members and commands."""
    actors, store, requests = node.keeper, node.stores, node.requests
    made = Table(
        # processes join and leave
        on(control.Hello, node.hello),
        on(control.Bye, node.bye),
        on(control.Env, node.environment),
        on(members.Join, node.members.join),
        on(control.Leaving, node.leaving),
        on(control.Stale, node.stale),
        on(control.Imported, node.imported),
        on(control.StartFailed, node.failed_starts.told),
        on(control.SetupFailed, node.setup_failed),
        on(control.ExitOk, node.workers.exit_answer),
        on(control.ActOk, actors.act_answer),
        # leases and lanes
        on(control.WantLeases, node.want),
        on(control.Release, node.release),
        on(control.RunningTold, node.memory.runs),
        on(control.OpenLane, node.open_lane),
        on(control.OpenPeer, node.open_peer),
        on(control.KillWorker, node.kill_worker),
        on(control.Blocked, node.blocked),
        on(control.Unblocked, node.unblocked),
        on(control.Stalled, node.deadlocks.stalled),
        on(control.WaitsTold, node.deadlocks.told),
        on(control.Paused, node.pauses.paused),
        on(control.Resumed, node.pauses.resumed),
        # actors and placement groups
        on(control.ActorRegister, actors.register_unnamed),
        on(control.ActorStart, actors.start),
        on(control.ActorFail, actors.fail),
        on(control.OpenActorLane, actors.open_lane),
        on(control.ActorReady, actors.ready),
        on(control.ActorFailed, actors.failed),
        on(control.ActorScope, actors.scope_ended),
        on(control.ActorKill, actors.kill),
        on(control.ActorExit, actors.exited),
        on(control.PgRemove, requests.groups.remove),
        # the store
        on(control.StoreAsk, store.ask),
        on(control.StoreRestore, store.restore),
        on(control.StoreFreed, store.freed),
        on(control.StoreTrimmed, store.trimmed),
        # questions
        on(control.Described, requests.described),
        on(control.Looked, requests.looked),
        on(control.Rpc, requests.handle),
    )
    made.bereft = node.descriptors.bereft
    return made


def from_zygote(node: Node) -> Table:
    """All that a zygote, the node's own or a member's, tells the node."""
    return Table(
        on(zygote.Forked, node.workers.forked),
        on(zygote.ForkFailed, node.workers.fork_failed),
        on(zygote.Exited, node.workers.exited_told),
        on(zygote.Learned, node.learning.answered),
    )
