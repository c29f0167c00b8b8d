"""What every owner hears: the table of the node's messages, and that of other processes' messages.

Owns the two tables, which a driver (`engines/messages.py`) and a worker (`worker/messages.py`) complete with what
they alone hear. All handlers run under the owner's lock, in whichever thread reads. Rows: `wire/control.py`,
`wire/peers.py`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sundog import notices, refs
from sundog.owner.description import describe_objects, describe_tasks
from sundog.owner.profiles import ProcessProfiles
from sundog.wire import control, peers
from sundog.wire.row import Table, on

if TYPE_CHECKING:
    from sundog.owner.core import Owner


def from_node(owner: Owner, role: str) -> Table:
    """Handlers for messages of the node to any owner; `role` is "driver" or "worker"."""
    room, waits = owner.room, owner.long_waits
    profiles = ProcessProfiles(owner, role)
    return Table(
        on(control.Answer, owner.control.answered),
        on(control.NodesChanged, lambda message: _nodes_changed(owner, message)),
        on(control.Died, lambda message: _died(owner, message)),
        on(control.Describe, lambda message: _describe(owner, message, role)),
        on(control.Look, lambda message: _look(owner, message)),
        # leases and actors
        on(control.LeaseGranted, owner.dispatch.granted),
        on(control.ReturnLease, owner.dispatch.reclaim),
        on(control.TellRunning, owner.memory.running),
        on(control.PeerOpened, owner.peers.opened),
        on(control.ActorChanged, owner.actors.published),
        on(control.TellWaits, waits.tell),
        on(control.Deadlock, waits.deadlock),
        # the store
        on(control.StoreGrant, room.granted),
        on(control.StoreRestored, room.restored),
        on(control.StoreCollect, room.collect),
        on(control.StoreTrim, room.trim),
        on(control.StoreUnsent, lambda message: owner.replies.remove_unknown(set(message.names))),
        # messages to the user
        on(control.Notice, owner.memory.notice),
        on(control.PauseCounts, owner.pauses.told),
        on(control.StartProfile, profiles.start),
        on(control.StopProfile, profiles.stop),
        on(
            control.PauseNotice,
            lambda message: owner.deliveries.bring(notices.note, message.text),
        ),
        on(control.StoreNotice, room.notice),
    )


def from_peers(owner: Owner) -> Table:
    """Handlers for messages of other processes to any owner."""
    channels = owner.peers
    return Table(
        on(peers.AskValue, channels.asked),
        on(peers.ValuePending, channels.pending),
        on(peers.TellValue, channels.value_told),
        on(peers.CopyGone, owner.lineage.lost_elsewhere),
        on(peers.FreeObjects, owner.frees.asked_to_free),
        on(peers.ObjectsFreed, owner.frees.heard_freed),
        on(peers.Borrow, channels.counted),
        on(peers.Borrowed, channels.counted),
        on(peers.Unborrow, channels.counted),
        on(peers.Unhold, channels.counted),
        on(peers.CancelOwned, owner.cancels.cancel_for),
        on(peers.CancelTold, owner.cancels.told),
        on(peers.AskUnwanted, owner.unwanted.asked),
    )


def _nodes_changed(owner: Owner, message: control.NodesChanged) -> None:
    """Copies stay where they are when nodes go, so once there were several the owner always looks for them."""
    owner.segments.several = owner.segments.several or message.nodes > 1


def _died(owner: Owner, message: control.Died) -> None:
    owner.replies.worker_died(message.process, message.cause)
    owner.peers.process_died(message.process, message.cause)
    owner.replies.remove_unsent(message.process)


def _describe(owner: Owner, message: control.Describe, role: str) -> None:
    if message.what == "objects":
        owner.deliveries.bring(_describe_objects, owner, message.number, role)
    else:
        owner.control.send(control.Described(message.number, describe_tasks(owner)))


def _look(owner: Owner, message: control.Look) -> None:
    from sundog.owner import looks  # most processes are never asked

    looks.answer(owner, message)


def _describe_objects(owner: Owner, number: int, role: str) -> None:
    """Not under the lock: looking for the sites of refs may end objects of the user's."""
    sites = refs.creation_sites()
    with owner.lock:
        rows = describe_objects(owner, owner.actors.scopes, os.getpid(), role, sites)
        owner.control.send(control.Described(number, rows))
