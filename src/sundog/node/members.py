"""The other nodes of a session, as the head sees them: joined, drained, lost.

::

    member ── join + the socket of its zygote ──► Members ──► Leases.add_node, a store, a zygote to fork from
    end of the member's socket ─────────────────► Members ──► its workers are dead, its actors restart elsewhere, its
                                                              leases and bundles are withdrawn, its files removed

Owns the rows of the nodes other than the head, the newest of the lost ones included. The end of the member's socket is
the loss of the node: the kernel ends its workers at that moment (`node/member.py`). Runs on the node's only thread.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from sundog.net import sockets as socket
from sundog.net.loop import Line
from sundog.net.packets import Connection
from sundog.node.rows import Process
from sundog.plain import plain
from sundog.store import folders, places
from sundog.wire import versions
from sundog.wire.cause import NODE, Cause
from sundog.wire.control import NodesChanged
from sundog.wire.members import Join, Leave

if TYPE_CHECKING:
    from sundog.node.interfaces import Acting, WithFacts, WithWorkers
    from sundog.node.stores import Stores
    from sundog.wire.dicts import SessionFacts

    class MembersNode(Acting, WithFacts, WithWorkers, Protocol):
        """What the keeper of other nodes asks of the node."""

        @property
        def stores(self) -> Stores:
            """The object stores, one for each node."""


_GONE_MAX = 1000


@plain()
class Member:
    """One node other than the head."""

    node_id: bytes
    tag: str
    pid: int
    name: str
    resources: dict[str, float]
    labels: dict[str, str]
    line: Line
    zygote: Line
    zygote_pid: int
    started_at: float
    ended_at: float = 0.0
    why_ended: str = ""
    drained: bool = False

    @property
    def is_alive(self) -> bool:
        return not self.ended_at


class Members:
    """All nodes but the head."""

    def __init__(self, node: MembersNode) -> None:
        self.node = node
        self._living: dict[bytes, Member] = {}
        self._gone: deque[Member] = deque(maxlen=_GONE_MAX)

    def __iter__(self) -> Iterator[Member]:
        """The living, then those that are gone."""
        yield from self._living.values()
        yield from self._gone

    def get(self, node_id: bytes) -> Member | None:
        """A node that is there."""
        return self._living.get(node_id)

    # ------------------------------------------------------------------ joining
    def join(self, process: Process, message: Join, zygote_fd: int) -> None:
        """A node joins."""
        node = self.node
        refused = versions.refusal(node.session["name"], versions.own(), message.versions, "")
        if refused is not None:
            node.log(f"a node (pid {message.pid}) cannot join: {refused}")
            process.line.send(Leave(refused))
            socket.socket(fileno=zygote_fd).close()
            return
        process.kind, process.pid = "member", message.pid
        tag = places.tag_of_node(message.node_id)
        shm_root = places.shared_root(node.session["shm_root"], tag)
        sock = socket.socket(fileno=zygote_fd)
        sock.send(shm_root.encode())
        zygote = Line(
            node.loop,
            Connection(sock, node.session["shm_root"]),
            node.workers.heard_zygote,
            lambda: None,  # the member's node ends with it and reports this on its own socket
        )
        self._living[message.node_id] = Member(
            message.node_id,
            tag,
            message.pid,
            message.name,
            dict(message.resources),
            dict(message.labels),
            process.line,
            zygote,
            message.zygote_pid,
            time.time(),
        )
        node.stores.joined(message.node_id, int(message.resources.get("object_store_memory", 0)))
        node.log(f"node {message.node_id.hex()} (pid {message.pid}) joined with {dict(message.resources)}")
        self._tell_all()
        node.do(node.leases.add_node(message.node_id, message.resources, message.labels, node.now()))
        node.chronicle.node_changed(message.node_id)
        node.wake_ticks()

    def _tell_all(self) -> None:
        """Every owner has to know that its objects may have copies elsewhere."""
        for process in self.node.processes.values():
            process.line.send(NodesChanged(len(self._living) + 1))

    def facts_for(self, node_id: bytes) -> SessionFacts:
        """What a worker on a node is told of its session."""
        session = self.node.session
        member = self._living.get(node_id)
        if member is None:
            return {**session, "several": True} if self._living else session
        return {
            **session,
            "node_id": node_id,
            "node_tag": member.tag,
            "head_id": self.node.node_id,
            "store_bytes": int(member.resources.get("object_store_memory", 0)),
        }

    # ------------------------------------------------------------------ leaving
    def drain(self, node_id: bytes, *, now: bool) -> bool:
        """Place nothing more on a node; whether no task runs there any more. Once `now`, it leaves.

        Raises:
            ValueError: there is no such node.
        """
        member = self._living.get(node_id)
        if member is None:
            raise ValueError(f"There is no node {node_id.hex()} that could leave. See: sundog list nodes")
        node = self.node
        member.drained = True
        node.do(node.leases.drain_node(node_id, node.now()))
        if now:
            member.line.send(Leave("it was drained"))
        return not node.leases.tasks_on(node_id)

    def lost(self, process: Process) -> None:
        """The process of a node is gone, and all that belongs to the node with it."""
        member = next((each for each in self._living.values() if each.line is process.line), None)
        if member is None or self.node.stopping:
            return
        node = self.node
        del self._living[member.node_id]
        member.ended_at = time.time()
        member.why_ended = "it was drained" if member.drained else "its process ended"
        self._gone.append(member)
        self.node.chronicle.node_changed(member.node_id)
        cause = Cause(
            kind=NODE,
            reason=f"its node {member.node_id.hex()} (pid {member.pid}) {'left' if member.drained else 'died'}",
            facts={"node_id": member.node_id.hex()},
        )
        node.log(f"node {member.node_id.hex()} (pid {member.pid}) is gone: {member.why_ended}")
        instructions = node.leases.remove_node(member.node_id, node.now())
        member.zygote.drain()  # read the exits of its workers that the zygote has reported
        member.zygote.close()
        for each in [p for p in node.processes.values() if p.node_id == member.node_id]:
            node.workers.lost(each, cause)
        node.stores.lost(member.node_id)
        folders.remove_shared(places.shared_root(node.session["shm_root"], member.tag))
        for folder in node.session["spill_folders"]:
            folders.remove_node_folder(folder, member.tag)
        node.do(instructions)
        self._tell_all()
        node.wake_ticks()

    def stop_all(self) -> None:
        """The session ends: so do its nodes."""
        for member in self._living.values():
            member.line.send(Leave("its session ended"))
