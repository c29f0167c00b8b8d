"""Puts an owner together: its parts, its sockets, its place in the session."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from sundog import refs
from sundog.config import Config
from sundog.events import NoRing, Ring
from sundog.net.packets import Connection
from sundog.net.spare import spare
from sundog.owner import context, messages, robbed
from sundog.owner.core import Owner
from sundog.store.segments import Segments

if TYPE_CHECKING:
    from sundog.wire.dicts import SessionFacts


def assemble(session: SessionFacts, config: Config, role: str) -> Owner:
    """An owner for a process of a session. It has neither files nor sockets nor threads, so a fork may copy it."""
    ops: deque[bytes | tuple[bytes, ...]] = deque()
    segments = Segments(
        session["shm_root"], session["spill_folders"][0], b"", ops, session.get("node_tag", "")
    )
    segments.several = bool(session.get("several")) or segments.several
    ring = Ring("", config.record_ring_events, role) if config.record_enabled else NoRing()
    owner = Owner(segments, ops, ring, config, session)
    owner.control.table = messages.from_node(owner, role)
    owner.peers.table = messages.from_peers(owner)
    owner.control.table.bereft = lambda _message: owner.actors.tell_shortage()
    return owner


def begin(owner: Owner, me: bytes, node: Connection) -> None:
    """Make it the owner of this process: reading its sockets, with refs reporting to it."""
    if isinstance(owner.ring, Ring):
        owner.ring.open(owner.control.ring_path(me), context.facts.job_id)
    node.stand_apart()
    owner.begin(me, node)
    spare.hold()
    refs.plug(owner)


def dismantle(owner: Owner, reason: BaseException) -> None:
    """End an owner: wake every thread that waits, with `reason`, close every socket, stop the reader."""
    with owner.lock:
        owner.closed = reason
        waiters = dict(owner.waiters)
        owner.waiters.clear()
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
    with owner.lock:
        if not owner.reactor.has_descriptors():
            robbed.abandon(owner)
    if owner.awaits is not None:
        owner.awaits.close()
    owner.reactor.release()
    owner.agenda.close()
    for lane in (*owner.dispatch.lanes.values(), *owner.actors.links.values()):
        lane.close()
    owner.peers.close()
    owner.node.close()
    spare.release()
    owner.segments.close()
    owner.deliveries.stop()
    owner.ring.close()
