"""Puts an owner together: its parts, its sockets, its place in the session."""

from __future__ import annotations

import os
from collections import deque
from typing import Any

from sundog import notices, refs
from sundog.config import Config
from sundog.events import NoRing, Ring
from sundog.net.packets import Connection
from sundog.owner import context
from sundog.owner.actors import ActorCalls
from sundog.owner.agenda import Agenda
from sundog.owner.cancels import Cancels
from sundog.owner.control import Control
from sundog.owner.core import Owner
from sundog.owner.description import describe_objects, describe_tasks
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
    Room(owner, session["store_bytes"])
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
    owner.tasks = Tasks(owner)
    owner.actors = ActorCalls(owner)
    owner.waits = Waits(owner)
    owner.reactor.patience_s = owner.waits.patience_s
    handlers = owner.control.handlers
    handlers["grant"] = owner.tasks.granted
    handlers["reclaim"] = owner.tasks.reclaim
    handlers["running"] = owner.memory.running
    handlers["notice"] = owner.memory.notice
    handlers["pauses"] = owner.pauses.told
    handlers["pause_notice"] = lambda text: owner.when_ready_elsewhere(notices.note, text)
    handlers["actor"] = owner.actors.published
    handlers["peer"] = owner.peers.opened
    handlers["died"] = lambda process, cause: _died(owner, process, cause)
    handlers["look"] = lambda token, question, arguments: _look(owner, token, question, arguments)
    handlers["describe"] = lambda number, kind: _describe(owner, number, kind, role)
    owner.peers.handlers["cancel_owned"] = lambda _process, message: owner.cancels.cancel_for(
        message[1], force=message[2], recursive=message[3]
    )
    owner.peers.handlers["cancel_told"] = lambda _process, message: owner.cancels.told(message[1])
    owner.peers.handlers["lost"] = lambda process, message: owner.lineage.lost_elsewhere(
        process, *message[1:]
    )
    owner.reactor.add(node.fileno(), owner.control.read)
    refs.plug(owner)
    return owner


def _died(owner: Owner, process: bytes, cause: Any) -> None:
    owner.replies.worker_died(process, cause)
    owner.peers.process_died(process, cause)
    owner.replies.remove_unsent(process)


def _describe(owner: Owner, number: int, kind: str, role: str) -> None:
    if kind == "objects":
        owner.when_ready_elsewhere(_describe_objects, owner, number, role)
    else:
        owner.control.send(("described", number, describe_tasks(owner)))


def _look(owner: Owner, token: int, question: str, arguments: tuple[Any, ...]) -> None:
    from sundog.owner import looks  # most processes are never looked at

    looks.answer(owner, token, question, arguments)


def _describe_objects(owner: Owner, number: int, role: str) -> None:
    """Not under the lock: looking for the sites of refs may end objects of the user's."""
    sites = refs.creation_sites()
    with owner.lock:
        rows = describe_objects(owner, os.getpid(), role, sites)
        owner.control.send(("described", number, rows))


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
    for lane in owner.tasks.lanes.values():
        lane.sock.close()
        if lane.peer is not None:
            lane.peer.close()
    for link in owner.actors.links.values():
        if link.sock is not None:
            link.sock.close()
        if link.peer is not None:
            link.peer.close()
    owner.peers.close()
    owner.node.close()
    owner.segments.close()
    owner.stop_deliveries()
    owner.ring.close()
