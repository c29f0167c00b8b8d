"""Objects: the values that this process has, the threads that wait for them, and the references to them.

Owns the table of values, the waiters, the reference counts, and the frees that follow from them. Refuses to know where
a value comes from: what has to be asked of the other parts of the owner is in `Around`. Runs in the driver and in every
worker, under the owner's lock, but for `put`, `load` and what appends to `ops`: any thread calls those.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from sundog import event_facts, exceptions
from sundog.events import PUT, RESULT, NoRing, Ring
from sundog.ids import PROCESS_BYTES, PUT_SUFFIX, TASK_BYTES, IdMaker, index_of, task_of
from sundog.owner import raised
from sundog.owner.call_sites import of_user
from sundog.owner.lanes import Lane
from sundog.owner.nested import Nested
from sundog.owner.reactor import Reactor
from sundog.owner.rows import Stored, Task, Value, slim, whole
from sundog.owner.unread import UnreadErrors
from sundog.refs import collectors
from sundog.serialize.pack import Buffers, Packed, pack, unpack
from sundog.state.references import References
from sundog.store.segments import Segments
from sundog.wire.lanes import ERROR, OK

__tracebackhide__ = True  # pytest folds the frames of this file

Callback = Callable[[bytes], None]
_FEW = 8  # up to this many refs in a value are counted one by one
_LATE = 64  # a small put leaves up to this many uncounted births and deaths of refs for later
_time = time.time


class CopyLost(Exception):
    """Internal: the segment of an object is gone. A reader waits for the rebuilt object; users never see this
    error.
    """

    def __init__(self, oid: bytes, segment: str) -> None:
        super().__init__(oid, segment)
        self.oid = oid
        self.segment = segment


class Around(Protocol):
    """What the objects ask of, and report to, the parts of the owner around them. All methods are called
    locked.
    """

    def send_word(self, process: bytes, word: tuple[object, ...]) -> None:
        """Send a message about references to another process."""

    def ask_owner(self, oid: bytes) -> None:
        """Ask the owner of a borrowed object for its value."""

    def forget_borrowed(self, oid: bytes) -> None:
        """A borrowed object has no hold left here."""

    def nobody_asks(self, oid: bytes) -> None:
        """An object of this process is free before it was ready."""

    def not_made(self, oid: bytes) -> None:
        """The free object is not the result of a task of this process: perhaps it stands for an actor's
        handles.
        """

    def lineage_freed(self, oid: bytes) -> None:
        """An object in a segment is free: its task need not be kept for it."""

    def comes(self, oid: bytes) -> bool:
        """Whether a missing object without a task in the table is on its way, or can be rebuilt."""

    def unknown(self, oid: bytes) -> BaseException:
        """The error for an object that its owner does not have."""

    def arguments_ready(self, task: Task) -> None:
        """All arguments of a task are here."""


class Objects:
    """The objects of one process."""

    around: Around  # set by the owner, which contains the objects

    def __init__(
        self,
        me: bytes,
        ids: IdMaker,
        lock: threading.RLock,
        ops: deque[bytes | tuple[bytes, ...]],
        segments: Segments,
        reactor: Reactor,
        ring: Ring | NoRing,
        unread: UnreadErrors,
        *,
        inline_max: int,
        uncounted_allowed: bool,
    ) -> None:
        self.me = me
        self.ids = ids
        self.lock = lock
        self.ops = ops  # births (tuples) and deaths (ids) of refs that are not counted yet
        self.segments = segments
        self.reactor = reactor
        self.ring = ring
        self.unread = unread
        self.inline_max = inline_max
        self.refs = References(me)
        self.ready: dict[bytes, Stored] = {}
        self.table: dict[bytes, Task] = {}  # unfinished tasks that this process submitted
        self.waiters: dict[bytes, list[Callback]] = {}
        self.dependents: dict[bytes, list[Task]] = {}
        self.freed_early: set[bytes] = set()
        self.nested = Nested(ops, lock, self.ready)
        self._uncounted_allowed = uncounted_allowed
        self._name_put = 0  # the ring's number for the name, set at the first event

    # ------------------------------------------------------------------ ref births and deaths (locked)
    def drain(self) -> None:
        """Count the births and deaths of refs so far, and carry out what follows."""
        self._drain_once()
        # A freed value may have contained refs, which died with it. Count their deaths now: no later call may come.
        while self.nested.shed:
            self.nested.shed = False
            self._drain_once()

    def _drain_once(self) -> None:
        ops, refs, owned, me, ready = self.ops, self.refs, self.refs.owned, self.me, self.ready
        borrowed = refs.borrowed
        take, forget = ops.popleft, ready.pop
        entry: object
        late: list[bytes] = []
        for _ in range(len(ops)):
            op: Any = take()
            if not owned and not borrowed and type(op) is bytes:
                # The common case: a small value that only its creator held, without counted refs.
                value = forget(op, None)
                if type(value) is not bytes:
                    self._free(op, value)
                continue
            if type(op) is tuple:
                for oid in op:
                    entry = owned.get(oid) or borrowed.get(oid)
                    if entry is not None:
                        entry.local += 1
                    else:
                        refs.hold(oid)
                continue
            entry = owned.get(op)
            if entry is None and op[:PROCESS_BYTES] == me:
                self.free(op)
                continue
            entry = entry or borrowed.get(op)
            if entry is not None and entry.local > 1:
                entry.local -= 1
            else:
                late.append(op)
        # The last ref to an object may die before the next one is born, as between two attempts of a task.
        # The object is held all the time: to drop and request it again would lose the value that a get waits
        # for.
        for op in late:
            refs.drop(op)
        self.carry_out()

    def carry_out(self) -> None:
        """Carry out the instructions of the reference table until there are no more; freeing may add some."""
        while True:
            out = self.refs.take()
            if not out:
                return
            for step in out:
                kind = step[0]
                if kind == "free":
                    self.free(step[1])  # type: ignore[arg-type]
                elif kind == "send":
                    self.around.send_word(step[1], step[2])  # type: ignore[arg-type]
                elif kind == "gone":
                    self._forget(step[1])  # type: ignore[arg-type]
                elif kind == "lost":
                    self.fail_object(step[1], self.around.unknown(step[1]))  # type: ignore[arg-type]

    def free(self, oid: bytes) -> None:
        """No process needs an object of this process: drop its value, or drop it when it comes."""
        self._free(oid, self.ready.pop(oid, None))

    def _free(self, oid: bytes, value: Stored | None) -> None:
        if value is None:
            task = self.table.get(task_of(oid))
            if task is not None:
                self.freed_early.add(oid)
                self.around.nobody_asks(oid)
                # the tasks that waited for the object have been cancelled or have failed
                self.dependents.pop(oid, None)
            else:
                self.around.not_made(oid)
            return
        if isinstance(value, bytes):
            return
        if self.unread.oids:
            self.unread.freed(oid, value)
        if value[3] is not None:
            self.nested.forget(oid)
        if value[2] is not None and oid[TASK_BYTES:] != PUT_SUFFIX:  # a value from put() has no lineage
            self.around.lineage_freed(oid)
        self.discard(value)

    def discard(self, value: Value) -> None:
        """Release what a value holds: the refs inside it and its segment."""
        if value[3]:
            for inner in value[3]:
                self.refs.drop(inner)
        location = value[2]
        if location is not None:
            self._free_segment(location[0], location[1], value[4])

    def _free_segment(self, name: str, size: int, maker: Lane | None) -> None:
        if maker is None:
            self.segments.recycle(name, size)
        elif maker.retired or maker.sock is None or f"-{maker.worker.hex()}-" not in name:
            self.segments.unlink(
                name
            )  # the worker that made the segment is gone; an actor's lane may lead to a later incarnation
        else:
            self.segments.forget(name)
            maker.freed.append((name, size))
            if not maker.inflight:
                maker.send_freed()  # no packet for this worker is due that could carry the message

    def _forget(self, oid: bytes) -> None:
        """A borrowed object has no hold left here."""
        stored = self.ready.pop(oid, None)
        self.around.forget_borrowed(oid)
        self.dependents.pop(oid, None)
        if stored is not None:
            value = whole(stored)
            if value[3]:
                self.nested.forget(oid)
                for inner in value[3]:
                    self.refs.drop(inner)
            if value[2] is not None:
                self.segments.forget(value[2][0])

    # ------------------------------------------------------------------ values arriving (locked)
    def store(self, oid: bytes, value: Value) -> None:
        """A value is ready: store it, wake the waiting threads, and release the tasks that depend on it."""
        if self.freed_early and oid in self.freed_early:
            self.freed_early.discard(oid)
            self.unread.freed(oid, value)
            self.discard(value)
            self.carry_out()
            return
        self.ready[oid] = slim(value)
        if self.reactor.dormant:
            self.reactor.rouse()
        self.announce(oid)

    def value(self, oid: bytes) -> Value | None:
        """The value of an object, if it is ready."""
        stored = self.ready.get(oid)
        return None if stored is None else whole(stored)

    def announce(self, oid: bytes) -> None:
        """Wake what waits for `oid`, which is ready."""
        if self.waiters:
            callbacks = self.waiters.pop(oid, None)
            if callbacks is not None:
                for callback in callbacks:
                    callback(oid)
        if self.dependents:
            waiting = self.dependents.pop(oid, None)
            if waiting is not None:
                for task in waiting:
                    task.missing -= 1
                    if task.missing == 0:
                        self.around.arguments_ready(task)

    def fail_object(self, oid: bytes, error: BaseException) -> None:
        """Make an object's value an error."""
        self.store(oid, self.error_value(error))

    def error_value(self, error: BaseException) -> Value:
        """The stored form of an error."""
        meta, _, _ = pack(error, 1 << 62)
        return (ERROR, meta, None, None, None)

    # ------------------------------------------------------------------ put
    def put(self, value: object) -> bytes:
        """Store a value; returns its object id (with the one implicit hold of its maker)."""
        try:
            meta, buffers, inner = pack(value, self.inline_max)
        except Exception as error:
            raise self.unpackable(value, error, "the value given to put()") from error
        oid = self.ids.put()
        if buffers is None and inner is None and len(self.ops) <= _LATE:
            self.ready[oid] = meta  # the common case
        else:
            self.put_packed(oid, meta, buffers, inner)
        return oid

    def put_packed(self, oid: bytes, meta: bytes, buffers: Buffers | None, inner: list[bytes] | None) -> None:
        """Store the output of `pack` as an object of this process."""
        ops = self.ops
        if inner or (buffers and ops) or len(ops) > _LATE:
            with self.lock:
                self.drain()
                for ref in inner or ():
                    self.refs.hold(ref)
        if not buffers:
            self.ready[oid] = meta if inner is None else (OK, meta, None, inner, None)
            return
        started = _time()
        try:
            location = self.segments.write(buffers)
        except BaseException:
            ops.extend(inner or ())  # no object exists that could hold them
            raise
        self.ready[oid] = (OK, meta, location, inner, None)
        name = self._name_put
        if not name:
            name = self._name_put = self.ring.name("put")
        if index_of(oid):  # the result of a task that ran inside its parent's process
            event_facts.made(self.ring, RESULT, oid[:16], index_of(oid), location, started, _time())
        else:
            event_facts.made(self.ring, PUT, oid[:16], of_user(self.ring, name), location, started, _time())
        if self.reactor.dormant:
            self.reactor.rouse()

    def pack_value(self, value: object, what: str) -> Packed:
        """Pickle a value.

        Raises:
            TypeError: it cannot be pickled; the message names the member.
        """
        try:
            return pack(value, self.inline_max)
        except Exception as error:
            raise self.unpackable(value, error, what) from error

    @staticmethod
    def unpackable(value: object, error: Exception, what: str) -> TypeError:
        """The error that names the member of a value that cannot be pickled."""
        from sundog.serialize.inspect import explain

        return TypeError(explain(value, error, what=what))

    # ------------------------------------------------------------------ reading a value
    def load(self, oid: bytes) -> object:
        """The value of a ready object; raises its error if it is one.

        Raises:
            CopyLost: its segment is gone (or another thread has found it so, and it is not ready any more).
        """
        found = self.value(oid)
        if found is None:
            raise CopyLost(oid, "")
        flag, meta, location, inner, _ = found
        views = None
        if location is not None:
            try:
                views = self.segments.view(location, oid)
            except exceptions.ObjectLostError:
                raise CopyLost(oid, location[0]) from None
        if inner is not None and len(inner) > _FEW and collectors.received is None:
            value = self.nested.load(oid, found, views)
        else:
            try:
                value = unpack(meta, views)
            except Exception as trouble:
                raise raised.unreadable(oid, trouble) from trouble
        if flag == ERROR:
            self.unread.oids.discard(oid)
            error = [raised.as_raised(value)]
            del value  # an error refers to its traceback, which would keep the refs of all those frames
            raise error.pop()
        return value

    # ------------------------------------------------------------------ asking others
    def ask_for(self, oid: bytes) -> None:
        """Locked: make sure that a missing object is on its way, or fails."""
        if oid[:PROCESS_BYTES] != self.me:
            self.around.ask_owner(oid)
            return
        if task_of(oid) in self.table or oid in self.freed_early:
            return
        if not self.around.comes(oid):
            self.fail_object(oid, self.around.unknown(oid))

    # ------------------------------------------------------------------ refs
    def pin_forever(self, oid: bytes) -> None:
        """A ref was pickled by hand: keep its object until shutdown.

        Raises:
            OufOfBandObjectRefSerializationException: the settings do not allow it.
        """
        self.check_uncounted(oid, "was pickled outside of a task's arguments, a result or put()")
        self.ops.append((oid,))

    def check_uncounted(self, oid: bytes, what: str) -> None:
        """A ref is pickled where the lifetime of the bytes is unknown.

        Raises:
            OufOfBandObjectRefSerializationException: the settings do not allow it.
        """
        if not self._uncounted_allowed:
            raise exceptions.OufOfBandObjectRefSerializationException(
                f"ObjectRef({oid.hex()}) {what}, where it cannot "
                "be counted, and allow_out_of_band_object_ref_serialization=0 forbids that. Pass the ref to a task or "
                "actor, or put() what contains it.",
                object_id=oid.hex(),
            )
