"""The owner: what a process knows of the refs it made and the refs it holds.

Owns the table of values, the waiters, the references and the parts around them::

    core      values, waiters, drains of ref births and deaths, frees          (this file)
    reactor   who reads the sockets                                            reactor.py
    tasks     functions, submitting                                            tasks.py
    arguments packed, awaited                                                  arguments.py
    dispatch  shapes of demand, leases, stealing                               dispatch.py, lanes.py
    replies   what workers answer; retries; deaths of workers                  replies.py
    actors    handles, calls, restarts                                         actors.py
    streams   generators                                                       streams.py
    agenda    what is done later: delayed attempts, deadlines                  agenda.py, timeouts.py
    lineage   lost results made again by running their tasks                   lineage.py
    frees     objects that the program frees itself                            frees.py
    nested    refs inside objects that are read again and again                nested.py
    peers     values and reference counts of other processes' objects          peers.py
    control   requests to the node and its messages                            control.py

One lock (`lock`, an RLock, so that a signal that comes can ask whether this thread holds it) guards all of it.
Nothing of the user's is pickled, unpickled or called under it. Runs in the driver and in every worker;
any thread may call the public verbs.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sundog import exceptions
from sundog.config import Config
from sundog.events import PUT, NoRing, Ring
from sundog.ids import PROCESS_BYTES, PUT_SUFFIX, TASK_BYTES, IdMaker, task_of
from sundog.net.packets import Connection
from sundog.owner import context, losses
from sundog.owner.call_sites import of_user
from sundog.owner.lanes import Lane
from sundog.owner.lineage import CopyLost
from sundog.owner.reactor import Reactor
from sundog.owner.records import Stored, Task, Value, slim, whole
from sundog.refs import ObjectRef, collectors
from sundog.serialize.pack import pack, unpack
from sundog.state.references import References
from sundog.store.segments import Segments
from sundog.wire.lanes import ERROR, OK

if TYPE_CHECKING:
    from sundog.owner.actors import ActorCalls
    from sundog.owner.agenda import Agenda
    from sundog.owner.arguments import Arguments
    from sundog.owner.cancels import Cancels
    from sundog.owner.control import Control
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

Callback = Callable[[bytes], None]
_FEW = 8  # refs in a value that are counted one by one
_LATE = 64  # births and deaths of refs that a small put leaves to others to count
_time = time.time


class Owner:
    """The owner of one process. Built by `sundog.owner.assemble`, which connects its parts."""

    tasks: Tasks
    dispatch: Dispatch
    arguments: Arguments
    actors: ActorCalls
    peers: Peers
    streams: Streams
    control: Control
    replies: Replies
    room: Room
    memory: MemoryLosses
    getting: Getting
    nested: Nested
    cancels: Cancels
    lineage: Recovery
    frees: Frees
    agenda: Agenda
    pauses: Pauses
    timeouts: Timeouts
    unread: UnreadErrors
    waits: Waits

    def __init__(
        self,
        me: bytes,
        node: Connection,
        segments: Segments,
        ops: deque[bytes | tuple[bytes, ...]],
        ring: Ring | NoRing,
        config: Config,
    ) -> None:
        self.me = me
        self.ids = IdMaker(me, int.from_bytes(context.facts.job_id, "little"))
        self.config = config
        self.node = node
        self.segments = segments
        self.ring = ring
        self.ops = ops
        self.lock = threading.RLock()
        self.refs = References(me)
        self.ready: dict[bytes, Stored] = {}
        self.table: dict[bytes, Task] = {}
        self.waiters: dict[bytes, list[Callback]] = {}
        self.dependents: dict[bytes, list[Task]] = {}
        self.freed_early: set[bytes] = set()
        self.dropped_generators: deque[bytes] = deque()
        self.shed = False  # a value was freed for which refs were kept (`nested`)
        self.closed: BaseException | None = None
        self.concurrent = False  # several calls run here at a time: tasks note which of them is their parent
        # A worker plugs these in: which calls it runs beside each other, with their starts (several at a time only);
        # what to do before and after it blocks in a get or wait.
        self.running_calls: Callable[[], dict[bytes, float]] = dict
        self.call_of: Callable[[Any], Any] = lambda _frame: None  # the call that a frame of the worker's runs
        self.before_block: Callable[[], None] | None = None
        self.after_block: Callable[[], None] | None = None
        self.reactor = Reactor(
            self.lock,
            self._after_round,
            self._tick,
            config.spin_us / 1e6,
            max(0.005, config.idle_lease_ms / 1e3),
        )
        self.inline_max = config.inline_max_bytes
        self._name_put = 0  # the ring's number for it, from the first event on
        self.reactor.watchful = lambda: bool(self.ready or self.refs.owned or self.refs.borrowed)
        self.reactor.awaited = lambda: bool(self.waiters or self.dependents)

    # ------------------------------------------------------------------ rounds of the reactor (locked)
    def _after_round(self) -> None:
        if self.ops:
            self.drain()
        while self.dropped_generators:
            self.streams.drop(self.dropped_generators.popleft())
        self.dispatch.dispatch_all()
        self.actors.dispatch_all()

    def _tick(self) -> None:
        self.dispatch.release_idle()

    # ------------------------------------------------------------------ ref births and deaths (locked)
    def drain(self) -> None:
        """Count the births and deaths of refs so far, and carry out what follows."""
        self._drain_once()
        # What was freed may have had refs of its own, which died with it: nobody may come to count those later.
        while self.shed:
            self.shed = False
            self._drain_once()

    def _drain_once(self) -> None:
        ops, refs, owned, me, ready = self.ops, self.refs, self.refs.owned, self.me, self.ready
        borrowed = refs.borrowed
        take, forget = ops.popleft, ready.pop
        entry: Any
        late: list[bytes] = []
        for _ in range(len(ops)):
            op: Any = take()
            if not owned and not borrowed and type(op) is bytes:
                # The common end: a small value that only its maker held, and nothing is counted.
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
        # An object whose last ref died here before the next was born (as between attempts of one task) is held
        # throughout: to forget and ask for it again in between would lose the value that a get waits for.
        for op in late:
            refs.drop(op)
        self.carry_out()

    def carry_out(self) -> None:
        """Do what the reference table says; freeing may add more, so until it has nothing to say."""
        while True:
            out = self.refs.take()
            if not out:
                return
            for step in out:
                kind = step[0]
                if kind == "free":
                    self.free(step[1])  # type: ignore[arg-type]
                elif kind == "send":
                    self.peers.send(step[1], step[2])  # type: ignore[arg-type]
                elif kind == "gone":
                    self._forget(step[1])  # type: ignore[arg-type]
                elif kind == "lost":
                    self.fail_object(step[1], losses.unknown(self, step[1]))  # type: ignore[arg-type]

    def free(self, oid: bytes) -> None:
        """Nobody needs an object of ours: drop its value, or remember to when it comes."""
        self._free(oid, self.ready.pop(oid, None))

    def _free(self, oid: bytes, value: Stored | None) -> None:
        if value is None:
            task = self.table.get(task_of(oid))
            if task is not None:
                self.freed_early.add(oid)
                self.peers.nobody_asks(oid)
                self.dependents.pop(oid, None)  # tasks that waited for it are done: cancelled, or failed
            else:
                self.actors.scope_ended(oid)
            return
        if isinstance(value, bytes):
            return
        if self.unread.oids:
            self.unread.freed(oid, value)
        if value[3] is not None:
            self.nested.forget(oid)
        if value[2] is not None and oid[TASK_BYTES:] != PUT_SUFFIX:  # what was put has no lineage
            self.lineage.freed(oid)
        self.discard(value)

    def discard(self, value: Value) -> None:
        """Release what a value holds: refs inside it and its segment."""
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
            )  # its maker is gone; an actor's link may lead to a later life of the actor
        else:
            self.segments.forget(name)
            maker.freed.append((name, size))
            if not maker.inflight:
                maker.send_freed()  # no packet is due there that could take it along

    def _forget(self, oid: bytes) -> None:
        """A borrowed object has no hold left here."""
        stored = self.ready.pop(oid, None)
        self.peers.forget(oid)
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
        """A value is there: keep it, wake who waits, release tasks that depend on it."""
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
        """Wake whoever waits for `oid`, which is ready."""
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
                        self.arguments.enqueue(task)

    def fail_object(self, oid: bytes, error: BaseException) -> None:
        """Make an object's value an error."""
        self.store(oid, self.error_value(error))

    def error_value(self, error: BaseException) -> Value:
        """The stored form of an error."""
        meta, _, _ = pack(error, 1 << 62)
        return (ERROR, meta, None, None, None)

    # ------------------------------------------------------------------ put
    def put(self, value: Any) -> bytes:
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

    def put_packed(self, oid: bytes, meta: bytes, buffers: Any, inner: Any) -> None:
        """Store what `pack` returned as an object of ours."""
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
            ops.extend(inner or ())  # there is no object to hold them
            raise
        self.ready[oid] = (OK, meta, location, inner, None)
        size = 0
        for _, length in location[2]:
            size += length
        name = self._name_put
        if not name:
            name = self._name_put = self.ring.name("put")
        self.ring.write(PUT, oid[:16], of_user(self.ring, name), started, started, _time(), 0, 0, 0.0, size)
        if self.reactor.dormant:
            self.reactor.rouse()

    def pack_value(self, value: Any, what: str) -> tuple[bytes, Any, Any]:
        """Pickle a value.

        Raises:
            TypeError: it cannot be pickled; the message names the member.
        """
        try:
            return pack(value, self.inline_max)
        except Exception as error:
            raise self.unpackable(value, error, what) from error

    @staticmethod
    def unpackable(value: Any, error: Exception, what: str) -> TypeError:
        """The error that names the member of a value because of which it could not be pickled."""
        from sundog.serialize.inspect import explain

        return TypeError(explain(value, error, what=what))

    # ------------------------------------------------------------------ reading a value
    def load(self, oid: bytes) -> Any:
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
                raise losses.unreadable(oid, trouble) from trouble
        if flag == ERROR:
            self.unread.oids.discard(oid)
            error = [self.as_raised(value)]
            del value  # an error that its own traceback leads to would keep the refs of all those frames
            raise error.pop()
        return value

    @staticmethod
    def as_raised(error: Any) -> BaseException:
        """The exception to raise for a stored error."""
        if isinstance(error, exceptions.RayTaskError):
            return error.as_instanceof_cause()
        if isinstance(error, exceptions.ObjectLostError):
            losses.tell_site(error)
        if isinstance(error, BaseException):
            return error
        return exceptions.RaySystemError(f"A failed task stored {error!r} instead of an error.")

    # ------------------------------------------------------------------ refs
    def new_ref(self, oid: bytes) -> ObjectRef[Any]:
        """A ref to an object of ours whose maker's hold it takes over."""
        return ObjectRef(oid, None)

    def pin_forever(self, oid: bytes) -> None:
        """A ref was pickled by hand: its object stays until shutdown.

        Raises:
            OufOfBandObjectRefSerializationException: the settings do not allow it.
        """
        self.check_uncounted(oid, "was pickled outside of a task's arguments, a result or put()")
        self.ops.append((oid,))

    def check_uncounted(self, oid: bytes, what: str) -> None:
        """A ref is pickled where nobody can tell when the bytes are gone.

        Raises:
            OufOfBandObjectRefSerializationException: the settings do not allow it.
        """
        if not self.config.allow_out_of_band_object_ref_serialization:
            raise exceptions.OufOfBandObjectRefSerializationException(
                f"ObjectRef({oid.hex()}) {what}, where it cannot "
                "be counted, and allow_out_of_band_object_ref_serialization=0 forbids that. Pass the ref to a task or "
                "actor, or put() what contains it.",
                object_id=oid.hex(),
            )

    def job_id(self) -> bytes:
        """The job that this process works for."""
        return context.facts.job_id

    def future_of(self, oid: bytes) -> Any:
        """A `concurrent.futures.Future` for an object."""
        from sundog.owner.futures import ObjectFuture

        future = ObjectFuture(self)
        # The future's reader needs the object until it has been read.
        self.ops.append((oid,))
        if self._ready_or_deliver(future, oid):
            self._resolve_future(future, oid)
        return future

    def _ready_or_deliver(self, future: Any, oid: bytes) -> bool:
        """Whether an object is ready; if not, the future gets it when it is."""

        def deliver(done_oid: bytes) -> None:
            self.when_ready_elsewhere(self._resolve_future, future, done_oid)

        with self.lock:
            self.check_open()
            if oid not in self.ready:
                self.ask_for(oid)
                if oid not in self.ready:
                    self.waiters.setdefault(oid, []).append(deliver)
                    return False
        return True

    def _resolve_future(self, future: Any, oid: bytes) -> None:
        try:
            while True:
                try:
                    if oid not in self.ready:
                        self.check_open()
                    value = self.load(oid)
                    break
                except CopyLost as lost:
                    self.lineage.lost_here(lost)
                    if not self._ready_or_deliver(future, oid):
                        return
        except BaseException as error:
            self.ops.append(oid)
            future.set_exception(error)
        else:
            self.ops.append(oid)
            future.set_result(value)
        future.announce()

    _deliveries: deque[tuple[Any, ...]] | None = None
    _delivery_event: threading.Semaphore | None = None
    _delivery_thread: threading.Thread | None = None

    def when_ready_elsewhere(self, call: Callable[..., None], *args: Any) -> None:
        """Run something that unpickles user values on a thread of its own, not under our lock."""
        self.can_deliver()  # if not, a later delivery or the shutdown brings this one
        assert self._deliveries is not None and self._delivery_event is not None
        self._deliveries.append((call, args))
        self._delivery_event.release()

    def can_deliver(self) -> bool:
        """Whether the thread for deliveries runs, or can be started now: the system may allow no more threads."""
        if self._deliveries is None:
            self._deliveries = deque()
            self._delivery_event = threading.Semaphore(0)
        if self._delivery_thread is None:
            thread = threading.Thread(target=self._deliver, daemon=True, name="sundog-futures")
            try:
                thread.start()
            except RuntimeError:
                return False
            self._delivery_thread = thread
        return True

    def _deliver(self) -> None:
        assert self._deliveries is not None and self._delivery_event is not None
        while True:
            self._delivery_event.acquire()
            if not self._deliveries:
                return  # closing
            call, args = self._deliveries.popleft()
            try:
                call(*args)
            except Exception:
                # A callback of a future, or a closed stderr: futures that come after it must be completed all the same.
                with contextlib.suppress(Exception):
                    import traceback

                    traceback.print_exc()
            del call, args  # else the last value delivered would be held until the next

    def stop_deliveries(self) -> None:
        """End the thread that completes futures, if there is one."""
        if self._delivery_event is not None:
            self._delivery_event.release()
            thread, self._delivery_thread = self._delivery_thread, None
            if thread is None:
                self._deliver()  # what no thread could bring, for there was none
            elif thread is not threading.current_thread():
                left = -1
                while thread.is_alive() and left != len(self._deliveries or ()):
                    left = len(self._deliveries or ())
                    thread.join(timeout=2.0)  # again as long as it gets on: workers' output is among it

    # ------------------------------------------------------------------ asking others
    def ask_for(self, oid: bytes) -> None:
        """Locked: make sure that a missing object is on its way, or fails."""
        if oid[:PROCESS_BYTES] != self.me:
            self.peers.want(oid)
            return
        if task_of(oid) in self.table or oid in self.freed_early:
            return
        if self.streams.expects(oid) or self.actors.is_scope(oid):
            return
        if self.lineage.can_recover(oid):
            self.lineage.recover(oid)
            return
        self.fail_object(oid, losses.unknown(self, oid))

    def check_open(self) -> None:
        """Raises what ended this session, if it has ended."""
        if self.closed is not None:
            raise self.closed

    def now(self) -> float:
        """Wall-clock seconds."""
        return time.time()
