"""Puts an owner together: its parts, its sockets, its place in the session."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from sundog import refs
from sundog.config import Config
from sundog.events import NoRing, Ring
from sundog.net.packets import Connection
from sundog.owner import context, messages
from sundog.owner.core import Owner
from sundog.store.segments import Segments

if TYPE_CHECKING:
    from sundog.wire.dicts import Session


def assemble(me: bytes, node: Connection, session: Session, config: Config, role: str) -> Owner:
    """An owner for this process, reading its sockets, with refs reporting to it."""
    ops: deque[bytes | tuple[bytes, ...]] = deque()
    segments = Segments(
        session["shm_root"], session["spill_folders"][0], me, ops, session.get("node_tag", "")
    )
    segments.several = bool(session.get("several")) or segments.several
    ring: Ring | NoRing = NoRing()
    if config.record_enabled:
        ring = Ring(
            f"{session['path']}/rings/{me.hex()}.ring", config.record_ring_events, role, context.facts.job_id
        )
    owner = Owner(me, node, segments, ops, ring, config, session)
    owner.control.table = messages.from_node(owner, role)
    owner.peers.table = messages.from_peers(owner)
    owner.reactor.add(node.fileno(), owner.control.read)
    refs.plug(owner)
    return owner


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
    if owner.awaits is not None:
        owner.awaits.close()
    owner.reactor.release()
    owner.agenda.close()
    for lane in (*owner.dispatch.lanes.values(), *owner.actors.links.values()):
        lane.close()
    owner.peers.close()
    owner.node.close()
    owner.segments.close()
    owner.deliveries.stop()
    owner.ring.close()
