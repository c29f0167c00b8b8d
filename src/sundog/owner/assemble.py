"""Puts an owner together: its parts, its sockets, its place in the session."""

from __future__ import annotations

from collections import deque
from typing import Any

from sundog import refs
from sundog.config import Config
from sundog.events import NoRing, Ring
from sundog.net.packets import Connection
from sundog.owner import context, messages
from sundog.owner.actors import ActorCalls
from sundog.owner.agenda import Agenda
from sundog.owner.arguments import Arguments
from sundog.owner.cancels import Cancels
from sundog.owner.control import Control
from sundog.owner.core import Owner
from sundog.owner.dispatch import Dispatch
from sundog.owner.frees import Frees
from sundog.owner.getting import Getting
from sundog.owner.lineage import Recovery
from sundog.owner.memory import MemoryLosses
from sundog.owner.nested import Nested
from sundog.owner.pauses import Pauses
from sundog.owner.peers import Peers
from sundog.owner.replies import Replies
from sundog.owner.room import Room
from sundog.owner.streams import Streams
from sundog.owner.tasks import Tasks
from sundog.owner.timeouts import Timeouts
from sundog.owner.unread import UnreadErrors
from sundog.owner.waits import Waits
from sundog.store.segments import Segments


def assemble(me: bytes, node: Connection, session: dict[str, Any], config: Config, role: str) -> Owner:
    """An owner for this process, reading its sockets, with refs reporting to it."""
    ops: deque[bytes | tuple[bytes, ...]] = deque()
    segments = Segments(session["shm_root"], session["spill_folders"][0], me, ops)
    ring: Ring | NoRing = NoRing()
    if config.record_enabled:
        ring = Ring(
            f"{session['path']}/rings/{me.hex()}.ring", config.record_ring_events, role, context.facts.job_id
        )
    owner = Owner(me, node, segments, ops, ring, config)
    owner.control = Control(owner, session)
    owner.room = Room(owner, session["store_bytes"])
    owner.replies = Replies(owner)
    owner.memory = MemoryLosses(owner)
    owner.getting = Getting(owner)
    owner.nested = Nested(owner)
    owner.peers = Peers(owner)
    owner.streams = Streams(owner)
    owner.cancels = Cancels(owner)
    owner.lineage = Recovery(owner)
    owner.frees = Frees(owner)
    owner.pauses = Pauses()
    owner.agenda = Agenda(owner)
    owner.timeouts = Timeouts(owner)
    owner.unread = UnreadErrors(owner)
    owner.arguments = Arguments(owner)
    owner.dispatch = Dispatch(owner)
    owner.tasks = Tasks(owner, owner.dispatch, owner.arguments)
    owner.actors = ActorCalls(owner)
    owner.waits = Waits(owner)
    owner.reactor.patience_s = owner.waits.patience_s
    owner.control.table = messages.from_node(owner, role)
    owner.peers.table = messages.from_peers(owner)
    owner.reactor.add(node.fileno(), owner.control.read)
    refs.plug(owner)
    return owner


def dismantle(owner: Owner, reason: BaseException) -> None:
    """End an owner: wake whoever waits with `reason`, close every socket, stop the reader."""
    with owner.lock:
        owner.closed = reason
        waiters, owner.waiters = owner.waiters, {}
        for oid, callbacks in waiters.items():
            for callback in callbacks:
                callback(oid)
        for stream in owner.streams.streams.values():
            wakers, stream.wakers = stream.wakers, []
            for waker in wakers:
                waker()
        owner.reactor.close()
    refs.plug(None)


def release(owner: Owner) -> None:
    """After `dismantle`: give back descriptors, mappings and threads."""
    owner.reactor.release()
    owner.agenda.close()
    for lane in (*owner.dispatch.lanes.values(), *owner.actors.links.values()):
        lane.close()
    owner.peers.close()
    owner.node.close()
    owner.segments.close()
    owner.stop_deliveries()
    owner.ring.close()
