"""Other processes: values of objects they own, and the reference counts between us.

Owns one outgoing channel per process talked to, opened on first use by sending one end of a socket
pair through the node, and the incoming ones that others opened. Runs under the owner's lock. Sending
never blocks: what the socket does not take waits in a queue until it does.

::

    AskValue(oid) ─► owner of oid ─► TellValue(oid, …)      a borrowed ref is read
    CopyGone(oid, segment) ─► owner of oid                  its copy is gone: answered by the next one
    FreeObjects(oids) ─► owner ─► ObjectsFreed(oids)        the program frees objects: told to all that may have values
    Borrow, Borrowed, Unborrow, Unhold                      the reference tables (state/references.py)
    CancelTask(task) ─► worker ─► CancelTold                to the worker that runs a task
    Consumed(task, items)                                   the same
    AskUnwanted(task) ─► owner ─► Unwanted(task, indexes)   results that need no place (owner/unwanted.py)

The rows are in `wire/peers.py`, the tables of their handlers in `owner/messages.py` and `worker/messages.py`.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from sundog.ids import PROCESS_BYTES, task_of
from sundog.net import packets
from sundog.net import sockets as socket
from sundog.net.packets import Connection
from sundog.owner import losses
from sundog.owner.basics import Basics
from sundog.owner.control import Control
from sundog.owner.rows import ALWAYS, ROOM_AGAIN_S, whole
from sundog.wire.cause import Cause
from sundog.wire.control import OpenPeer, PeerOpened
from sundog.wire.peers import (
    AskValue,
    Borrow,
    Borrowed,
    CopyGone,
    TellValue,
    ToPeer,
    Unborrow,
    Unhold,
    ValuePending,
)
from sundog.wire.row import Table

if TYPE_CHECKING:
    from sundog.owner.interfaces import Calling

_DEAD_MAX = 2_000
ReferenceWord = tuple[
    object, ...
]  # instructions of `state/references.py`: plain tuples with the fields of the rows of the same name


class Peer:
    """A channel of this process to another process."""

    __slots__ = ("backlog", "connection", "process")

    def __init__(self, process: bytes) -> None:
        self.process = process
        self.connection: Connection | None = None  # until there is a descriptor for it
        self.backlog: deque[ToPeer | tuple[object, ...]] = deque()


class Peers:
    """All channels between this process and others."""

    actors: Calling  # set by the owner, which builds it later

    def __init__(self, basics: Basics, control: Control) -> None:
        self.basics = basics
        self.control = control
        self._out: dict[bytes, Peer] = {}
        self._in: dict[int, tuple[bytes, Connection]] = {}
        self._wanted: set[bytes] = set()  # borrowed objects that this process has requested
        # Requested objects whose owner has not yet said whether they are ready.
        self.unanswered: set[bytes] = set()
        # own objects -> processes to tell when the object is ready
        self._asked: dict[bytes, list[bytes]] = {}
        self.dead: dict[bytes, Cause] = {}
        self.on_death: Callable[[bytes], None] = lambda process: None
        self.table = Table()  # message -> handler: owner/messages.py, plus the handlers of a worker

    # ------------------------------------------------------------------ sending
    def send(self, process: bytes, message: ToPeer | ReferenceWord) -> None:
        """Send a message to another process; a message to a dead process is dropped, as it should be."""
        if process in self.dead:
            return
        if process == self.basics.me:
            self.table.handle(message, process)
            return
        peer = self._out.get(process)
        if peer is None:
            peer = self._out[process] = Peer(process)
            self._open(peer)
        if peer.backlog or peer.connection is None:
            peer.backlog.append(message)
            return
        try:
            peer.connection.send(message, flags=socket.MSG_DONTWAIT)
        except BlockingIOError as error:
            peer.backlog.append(message)
            self._flush_later(peer, error)
        except OSError:
            pass  # the node announces the death of this process

    def _open(self, peer: Peer) -> None:
        """Open a channel and send what waits for it; without a free descriptor, later."""
        process = peer.process
        if self._out.get(process) is not peer:
            return  # the process is gone
        pair = packets.pair_if_free()
        if pair is None:
            self.actors.tell_shortage()
            self.basics.agenda.after(ROOM_AGAIN_S, ALWAYS, self._open, peer)
            return
        ours, theirs = pair
        self.control.send(OpenPeer(process), (theirs.fileno(),))
        theirs.close()
        connection = peer.connection = Connection(ours, self.control.shm_root)
        self.basics.reactor.add(ours.fileno(), lambda: self._read(process, connection))
        if peer.backlog:
            self._flush(peer)

    def send_all(self, message: ToPeer) -> None:
        """Send a message to every process with a channel: every process that was given a value is among them."""
        for process in {*self._out, *(process for process, _ in self._in.values())}:
            self.send(process, message)

    def _flush_later(self, peer: Peer, error: BlockingIOError) -> None:
        """Send when the socket takes more; or, for a message that is written to a file, when there may be
        room.
        """
        assert peer.connection is not None
        fd = peer.connection.fileno()
        if isinstance(error, packets.NoRoom):
            self.basics.reactor.watch_writable(fd, None)
            self.basics.agenda.after(ROOM_AGAIN_S, ALWAYS, self._flush, peer)
        else:
            self.basics.reactor.watch_writable(fd, lambda: self._flush(peer))

    def _flush(self, peer: Peer) -> None:
        connection = peer.connection
        if self._out.get(peer.process) is not peer or connection is None:
            return  # the process is gone
        while peer.backlog:
            try:
                connection.send(peer.backlog[0], flags=socket.MSG_DONTWAIT)
            except BlockingIOError as error:
                self._flush_later(peer, error)
                return
            except OSError:
                peer.backlog.clear()
                break
            peer.backlog.popleft()
        self.basics.reactor.watch_writable(connection.fileno(), None)

    # ------------------------------------------------------------------ receiving
    def opened(self, message: PeerOpened, fd: int) -> None:
        """Another process opened a channel to us."""
        process = message.process
        connection = Connection(socket.socket(fileno=fd), self.control.shm_root)
        self._in[fd] = (process, connection)
        self.basics.reactor.add(fd, lambda: self._read(process, connection))

    def _read(self, process: bytes, connection: Connection) -> None:
        for _ in range(64):
            try:
                received = connection.receive()
            except BlockingIOError:
                return
            except OSError:
                received = None
            if received is None:
                self._closed(process, connection)
                return
            self.table.handle(received[0], process)

    def _closed(self, process: bytes, connection: Connection) -> None:
        fd = connection.fileno()
        self.basics.reactor.remove(fd)
        connection.close()
        self._in.pop(fd, None)
        peer = self._out.get(process)
        if peer is not None and peer.connection is connection:
            del self._out[process]
            if self._wanted_of(process):
                # If it is not dead, it had no descriptor for our channel, and has not read what we asked.
                self.basics.agenda.after(ROOM_AGAIN_S, ALWAYS, self._ask_again, process)

    def _wanted_of(self, process: bytes) -> list[bytes]:
        return [oid for oid in self._wanted if oid[:PROCESS_BYTES] == process]

    def _ask_again(self, process: bytes) -> None:
        if self.basics.closed is None:
            for oid in self._wanted_of(process):
                self.send(process, AskValue(oid, False))

    def asked(self, process: bytes, message: AskValue) -> None:
        """Another process requests an object of this process."""
        self.asked_for(process, message.oid, tell_pending=message.tell_pending)

    def pending(self, _process: bytes, message: ValuePending) -> None:
        """The owner of a requested object says that the object is not ready."""
        self.unanswered.discard(message.oid)

    def counted(self, process: bytes, message: Borrow | Borrowed | Unborrow | Unhold) -> None:
        """A message of another process's reference table."""
        basics = self.basics
        if basics.ops:
            basics.objects.drain()
        # An object that was freed before its task ended has no hold that could be counted.
        known = message.oid in basics.ready if type(message) is Unborrow else self._has(message.oid)
        basics.refs.on_message(process, message, known)
        basics.objects.carry_out()

    def _has(self, oid: bytes) -> bool:
        basics = self.basics
        return (
            oid in basics.ready
            or task_of(oid) in basics.table
            or oid in basics.refs.owned
            or self.actors.is_scope(oid)
        )

    # ------------------------------------------------------------------ values
    def want(self, oid: bytes) -> None:
        """Ask the owner of a borrowed object for its value."""
        if oid in self._wanted:
            return
        process = oid[:PROCESS_BYTES]
        if process in self.dead:
            self.basics.objects.fail_object(oid, losses.owner_died(self.control, oid, self.dead[process]))
            return
        self._wanted.add(oid)
        lends = self.basics.before_block is not None
        if lends:  # the answer decides whether the waiting worker keeps its CPU
            self.unanswered.add(oid)
        self.send(process, AskValue(oid, lends))

    def report_lost(self, oid: bytes, segment: str) -> None:
        """Tell the owner of a borrowed object that this copy is gone; the owner answers with the next copy."""
        process = oid[:PROCESS_BYTES]
        if process in self.dead:
            self.basics.objects.fail_object(oid, losses.owner_died(self.control, oid, self.dead[process]))
            return
        self._wanted.add(oid)
        self.send(process, CopyGone(oid, segment))

    def value_told(self, process: bytes, message: TellValue) -> None:
        """The value of a borrowed object is here."""
        _, oid, flag, meta, location, inner = message
        if inner:
            self.basics.refs.accept(process, inner)
            self.basics.objects.carry_out()
        self._wanted.discard(oid)
        self.unanswered.discard(oid)
        value = (flag, meta, location, inner, None)
        if not self.basics.refs.is_known(oid):
            # The object is not held here, or its hold is not counted yet: count the births, then check again.
            self.basics.objects.drain()
        if self.basics.refs.is_known(oid):
            self.basics.objects.store(oid, value)
        elif inner:
            for ref in inner:
                self.basics.refs.drop(ref)
            self.basics.objects.carry_out()

    def asked_for(self, process: bytes, oid: bytes, *, tell_pending: bool = False) -> None:
        """Another process requests an object of this process: answer when it is ready, and say now if it is
        not.
        """
        basics = self.basics
        if oid not in basics.ready:
            basics.objects.ask_for(oid)
        if oid in basics.ready:
            self._tell(process, oid)
            return
        if tell_pending:
            self.send(process, ValuePending(oid))
        askers = self._asked.get(oid)
        if askers is None:
            self._asked[oid] = [process]
            basics.waiters.setdefault(oid, []).append(self._tell_all)
        else:
            askers.append(process)

    def _tell_all(self, oid: bytes) -> None:
        if self.basics.closed is not None:
            return  # the end of the session woke this thread, not a value
        for process in self._asked.pop(oid, ()):
            self._tell(process, oid)

    def nobody_asks(self, oid: bytes) -> None:
        """An object of this process is free before it was ready: its askers gave up, and it is not announced."""
        if self._asked.pop(oid, None) is None:
            return
        callbacks = self.basics.waiters.get(oid)
        if callbacks is not None and self._tell_all in callbacks:
            callbacks.remove(self._tell_all)
            if not callbacks:
                del self.basics.waiters[oid]

    def _tell(self, process: bytes, oid: bytes) -> None:
        flag, meta, location, inner, _ = whole(self.basics.ready[oid])
        self.basics.unread.oids.discard(oid)
        if inner:
            self.basics.refs.give(process, inner)
        self.send(process, TellValue(oid, flag, meta, location, inner))

    def forget(self, oid: bytes) -> None:
        """A borrowed object is not held here any more."""
        self._wanted.discard(oid)
        self.unanswered.discard(oid)

    # ------------------------------------------------------------------ deaths
    def process_died(self, process: bytes, cause: Cause) -> None:
        """A process is gone: read its last messages, then forget its holds and fail the objects that it
        owned.
        """
        self.on_death(process)
        peer = self._out.pop(process, None)
        if peer is not None and peer.connection is not None:
            self._read(process, peer.connection)
            self._drop(peer.connection)
        for known, connection in list(self._in.values()):
            if known == process:
                self._read(process, connection)
                self._drop(connection)
        self.dead[process] = cause
        if len(self.dead) > _DEAD_MAX:
            # If a process asks for this one again, the node announces its death again.
            del self.dead[next(iter(self.dead))]
        basics = self.basics
        basics.objects.drain()
        basics.refs.process_died(process)
        basics.objects.carry_out()
        for oid in self._wanted_of(process):
            self._wanted.discard(oid)
            self.unanswered.discard(oid)
            basics.objects.fail_object(oid, losses.owner_died(self.control, oid, cause))

    def _drop(self, connection: Connection) -> None:
        fd = connection.fileno()
        if fd >= 0:
            self.basics.reactor.remove(fd)
            self._in.pop(fd, None)
            connection.close()

    def sockets(self) -> list[socket.socket]:
        """Of all channels."""
        ways = [peer.connection for peer in self._out.values()] + [each for _, each in self._in.values()]
        return [connection.sock for connection in ways if connection is not None]

    def close(self) -> None:
        """Close all channels."""
        for peer in self._out.values():
            if peer.connection is not None:
                with contextlib.suppress(OSError):
                    peer.connection.close()
        for _, connection in self._in.values():
            with contextlib.suppress(OSError):
                connection.close()
        self._out.clear()
        self._in.clear()
