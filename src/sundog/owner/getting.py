"""Waiting: `get`, `wait`, and whatever else must block until the reactor has news.

The thread that waits reads the sockets if nobody else does; otherwise it waits on a lock that the
reader releases. In a worker the `before_block`/`after_block` hooks give the CPU back meanwhile.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pickle import loads
from typing import TYPE_CHECKING

from sundog import event_facts, events
from sundog.exceptions import GetTimeoutError
from sundog.owner import context, interrupts, raised
from sundog.owner.basics import Basics
from sundog.owner.call_sites import of_user
from sundog.owner.description import explain_missing
from sundog.owner.long_waits import TARGETS_MAX, LongWait, LongWaits, Target
from sundog.owner.objects import CopyLost
from sundog.owner.peers import Peers
from sundog.owner.rows import whole
from sundog.serialize.pack import unpack

if TYPE_CHECKING:
    from sundog.owner.interfaces import Recovering

_perf = time.perf_counter
_time = time.time
_ANSWER_S = 0.1  # an owner that needs longer to answer is stopped or very busy
_LEND_AFTER_S = 1e-3  # most actor calls answer sooner than a CPU can be lent and taken back
_FEW = 16  # a wait for one of so many objects looks at each of them when something came
_PENDING_MAX = 100  # ids in the error of a timeout; a list of refs may have millions


class _AnyOf:
    """Contains whatever is asked for, once one of the objects is ready: for `Reactor.lead_one`."""

    __slots__ = ("_oids", "_ready")

    def __init__(self, oids: list[bytes], ready: Mapping[bytes, object]) -> None:
        self._oids = oids
        self._ready = ready.keys()

    def __contains__(self, _: object) -> bool:
        return not self._ready.isdisjoint(self._oids)


class Getting:
    """Blocking verbs of one owner."""

    lineage: Recovering  # set by the owner, which builds it later
    long_waits: LongWaits

    def __init__(self, basics: Basics, peers: Peers) -> None:
        self.basics = basics
        self.peers = peers
        self._name_get = basics.ring.name("get")
        self._name_wait = basics.ring.name("wait")

    # ------------------------------------------------------------------ get
    def get_one(self, oid: bytes, timeout_s: float | None) -> object:
        """The value of one object."""
        basics = self.basics
        value = basics.ready.get(oid)
        if value is None:
            if timeout_s is None:
                self._await_one(oid)
            else:
                self._await_all([oid], timeout_s)
            value = basics.ready.get(oid)
        if type(value) is bytes:
            try:
                return unpack(value, None)
            except Exception as error:
                raise raised.unreadable(oid, error) from error
        return self._load(oid, timeout_s)

    def _load(self, oid: bytes, timeout_s: float | None) -> object:
        """The value of a ready object; if its copy is lost, the value of the rebuilt copy."""
        deadline = None if timeout_s is None else _perf() + timeout_s
        while True:
            try:
                return self.basics.objects.load(oid)
            except CopyLost as lost:
                self.lineage.lost_here(lost)
            self._await_all([oid], None if deadline is None else max(0.0, deadline - _perf()))

    def _await_one(self, oid: bytes) -> None:
        """Block until one object is ready: the path of one task at a time, so the code is short."""
        basics = self.basics
        if basics.run_here is not None and basics.run_here([oid]):
            return
        started = _time()
        ring, first, task = basics.ring, oid[:16], b""
        if basics.closed is not None:
            basics.check_open()
        # this process has no unfinished task for the object: the object is borrowed, or ready by now
        if first not in basics.table:
            with basics.lock:
                basics.check_open()
                if first not in basics.table and oid not in basics.ready:
                    basics.objects.ask_for(oid)
        if basics.before_block is not None:
            task = context.current_id() or b""
        site = of_user(ring, self._name_get, 3)
        event_facts.block(ring, events.GET, first, site, task, started)
        led = True
        try:
            if basics.before_block is None:
                led = basics.reactor.lead_one(basics.ready, oid, None)
            elif self.peers.unanswered:
                led = False  # the object is borrowed: its owner's answer decides whether the CPU is lent
            else:
                try:
                    call = basics.table.get(first)
                    lend_after_s = _LEND_AFTER_S if call is not None and call.actor is not None else 0.0
                    led = basics.reactor.lead_one(basics.ready, oid, basics.before_block, lend_after_s)
                finally:
                    basics.after_block()  # type: ignore[misc]
        finally:
            if led:
                event_facts.unblock_one(ring, first, site, task, started, _time())
        if not led:
            # Another thread reads, or this thread has been blocked for long: then the CPU is lent now, and
            # taken back later.
            self._await_all([oid], None, started)

    def get_many(self, oids: list[bytes], timeout_s: float | None) -> list[object]:
        """The values of many objects; the first error in order is raised."""
        find, load = self.basics.ready.get, self._load
        out: list[object] = []
        # Check each object once if all are ready: with very many objects every check is a cache miss.
        for oid in oids:
            value = find(oid)
            if type(value) is bytes:
                out.append(loads(value))
            elif value is not None:
                out.append(load(oid, timeout_s))
            else:
                break
        else:
            return out
        self._await_all(oids, timeout_s)
        for oid in oids[len(out) :]:
            value = find(oid)
            out.append(loads(value) if type(value) is bytes else load(oid, timeout_s))
        return out

    def _await_all(self, oids: list[bytes], timeout_s: float | None, started: float = 0.0) -> None:
        """Block until all are ready; `started` is when the caller began to wait, if before this call.

        An error ends the wait early: Ray raises the first failed ref as soon as it is met in order.
        """
        basics = self.basics
        ready, table = basics.ready, basics.table
        if timeout_s is None and not started and basics.run_here is not None:
            basics.run_here(oids)
        started = started or _time()
        with basics.lock:
            basics.check_open()
            for oid in oids:
                if oid not in ready and oid[:16] not in table:
                    basics.objects.ask_for(oid)
        position = 0
        count = len(oids)
        failed: bytes | None = None

        def done() -> bool:
            nonlocal position, failed
            while position < count:
                value = ready.get(oids[position])
                if value is None:
                    return False
                if type(value) is not bytes and value[0]:
                    failed = oids[position]
                    return True
                position += 1
            return True

        def target() -> tuple[str, int, tuple[bytes, ...]] | None:
            # A get ends with the first object that failed, in the order of the list, so it waits for the
            # first missing one only.
            for oid in oids[position:]:
                value = ready.get(oid)
                if value is None:
                    return "get", 1, (oid,)
                if whole(value)[0]:
                    break
            return None

        def next_missing() -> bytes | None:
            return oids[position] if position < count else None

        with self._noted(events.GET, oids, of_user(basics.ring, self._name_get, 3), started):
            there = self._block(done, next_missing, timeout_s, target, started)
        if not there:
            basics.check_open()
            pending = [oid for oid in oids if oid not in ready]
            first = oids[min(position, count - 1)]
            raise GetTimeoutError(
                f"get() timed out after {timeout_s} s: {len(pending)} of {count} objects were not ready; the first is "
                f"{first.hex()}{explain_missing(basics, first)}. Why: sundog why {first.hex()}",
                object_ref_hex=first.hex(),
                timeout_s=timeout_s,
                pending=[oid.hex() for oid in pending[:_PENDING_MAX]],
            )
        if failed is not None:
            basics.objects.load(failed)  # raises: objects later in the list may not be ready

    def await_objects(self, oids: list[bytes]) -> None:
        """Block until all are ready; raises the first error among them."""
        self._await_all(oids, None)

    @contextlib.contextmanager
    def _noted(
        self, kind: int, oids: list[bytes], site: int, started: float, wanted: int = 0
    ) -> Iterator[None]:
        """Record that this thread waits, from the beginning of the wait to its end."""
        ring, task, first = self.basics.ring, context.current_id() or b"", oids[0][:16]
        event_facts.block(ring, kind, first, site, task, started)
        try:
            yield
        finally:
            now, count = _time(), len(oids)
            event_facts.unblock(ring, kind, first, site, task, started, now, oids[-1], count, wanted)

    def _block(
        self,
        done: Callable[[], bool],
        missing: Callable[[], bytes | None],
        timeout_s: float | None,
        target: Target | None = None,
        started: float = 0.0,
    ) -> bool:
        """Block until `done()`; `missing()` names an object that is not ready.

        If it lasts and `target` says what for, the node looks whether it can ever end.

        Raises:
            DeadlockError: it cannot.
        """
        basics = self.basics
        deadline = limit = None if timeout_s is None else _perf() + timeout_s
        paused_s = basics.pauses.total_s() if deadline is not None else 0.0
        patience_s = self.long_waits.patience_s
        if deadline is None and target is not None and patience_s is not None:
            waited_s = _time() - started if started else 0.0
            # the wall clock may have been set
            limit = _perf() + patience_s - min(max(waited_s, 0.0), patience_s)
        blocked = ended = False
        long: LongWait | None = None

        def on_block() -> None:
            nonlocal blocked
            blocked = True
            basics.before_block()  # type: ignore[misc]

        def over() -> bool:
            nonlocal ended
            ended = ended or done()  # some conditions report their end only once
            return ended or (long is not None and long.links is not None)

        try:
            if basics.before_block is not None and self.peers.unanswered:
                self._hear_owners(over, limit)
            while True:
                if interrupts.pending and interrupts.due():
                    if blocked:
                        blocked = False
                        basics.after_block()  # type: ignore[misc]
                    interrupts.heed()
                led = basics.reactor.lead(
                    over, limit, on_block if basics.before_block and not blocked else None
                )
                if led is None and not over():
                    if basics.before_block is not None and not blocked:
                        on_block()
                    self._follow(missing, over, limit, long)
                if over():
                    break
                if basics.closed is not None or (deadline is not None and _perf() >= deadline):
                    owed_s = basics.pauses.owed_s(paused_s) if basics.closed is None else 0.0
                    if not owed_s:
                        return over()
                    paused_s = basics.pauses.total_s()
                    deadline = limit = _perf() + owed_s
                if limit is not None and target is not None and _perf() >= limit:
                    limit, long = (
                        None,
                        self.long_waits.note(target, started or _time() - (patience_s or 0.0)),
                    )
            if long is not None and long.links is not None and not ended:
                raise long.error()
            return True
        finally:
            if long is not None:
                self.long_waits.forget(long)
            if blocked and basics.after_block is not None:
                basics.after_block()

    def _hear_owners(self, over: Callable[[], bool], limit: float | None) -> None:
        """Wait for a moment until the owners of borrowed objects have said whether they are ready.

        What is ready takes no more than this answer, and no other process has to be started for the CPU meanwhile.
        """
        unanswered = self.peers.unanswered
        until = _perf() + _ANSWER_S
        self.basics.reactor.lead(
            lambda: not unanswered or over(), until if limit is None else min(until, limit), None
        )
        unanswered.clear()  # do not wait a second time for an owner that has not answered

    def _follow(
        self,
        missing: Callable[[], bytes | None],
        done: Callable[[], bool],
        deadline: float | None,
        long: LongWait | None,
    ) -> None:
        """Wait until another thread, which reads, stores what `missing()` names (or stops reading)."""
        basics = self.basics
        gate = threading.Lock()
        gate.acquire()

        def open_gate(_: bytes) -> None:
            with contextlib.suppress(RuntimeError):
                gate.release()

        with basics.lock:
            if done() or basics.closed is not None:
                return
            # Chosen under the lock: an object that has just become ready is not announced again.
            oid = missing()
            if oid is None:
                return
            basics.waiters.setdefault(oid, []).append(open_gate)
            if long is not None:
                long.gate = open_gate
        left = -1.0 if deadline is None else max(0.0, deadline - _perf())
        try:
            basics.reactor.wait_in(gate.acquire, True, left)
        finally:
            with basics.lock:
                callbacks = basics.waiters.get(oid)
                if callbacks is not None and open_gate in callbacks:
                    callbacks.remove(open_gate)
                    if not callbacks:
                        del basics.waiters[oid]

    def block_until(
        self, done: Callable[[], bool], key: bytes, timeout_s: float | None, target: Target | None = None
    ) -> bool:
        """Block until `done()`, which `owner.objects.announce(key)` tells other threads about."""
        return self._block(done, lambda: key, timeout_s, target)

    # ------------------------------------------------------------------ wait
    def wait(self, oids: list[bytes], count: int, timeout_s: float | None) -> list[bytes]:
        """The ids that are ready (at most `count`, in the order given), after at most `timeout_s`."""
        basics = self.basics
        ready = basics.ready
        if timeout_s != 0:
            found = 0
            for oid in oids:
                if oid in ready:
                    found += 1
                    if found >= count:
                        break
            else:
                if count > 1 or timeout_s is not None or len(oids) > _FEW:
                    self._wait_for(oids, count, timeout_s, _time())
                else:
                    self._await_first(oids)
        else:
            with basics.lock:
                basics.check_open()
                for oid in oids:
                    if oid not in ready:
                        basics.objects.ask_for(oid)
                if not basics.reactor.leader:
                    basics.reactor.pump()
        out = []
        for oid in oids:
            if oid in ready:
                out.append(oid)
                if len(out) == count:
                    break
        if basics.unread.oids:
            basics.unread.oids.difference_update(out)
        return out

    def _await_first(self, oids: list[bytes]) -> None:
        """Block until one of a few objects is ready: the path of a program that takes results as they come.

        As `_await_one`: who waits for one answer spins for it, and the code is short.
        """
        basics = self.basics
        started = _time()
        ring, first, task, table = basics.ring, oids[0][:16], b"", basics.table
        basics.check_open()
        lend_after_s = _LEND_AFTER_S
        for oid in oids:
            call = table.get(oid[:16])
            if call is None or call.actor is None:
                lend_after_s = 0.0
            if call is None:
                with basics.lock:
                    if oid not in basics.ready:
                        basics.objects.ask_for(oid)
        if basics.before_block is not None:
            task = context.current_id() or b""
        site = of_user(ring, self._name_wait)
        event_facts.block(ring, events.WAIT, first, site, task, started)
        any_of = _AnyOf(oids, basics.ready)
        led = True
        try:
            if basics.before_block is None:
                led = basics.reactor.lead_one(any_of, first, None)
            elif self.peers.unanswered:
                led = False  # an object is borrowed: its owner's answer decides whether the CPU is lent
            else:
                try:
                    led = basics.reactor.lead_one(any_of, first, basics.before_block, lend_after_s)
                finally:
                    basics.after_block()  # type: ignore[misc]
        finally:
            if led:
                event_facts.unblock(
                    ring, events.WAIT, first, site, task, started, _time(), oids[-1], len(oids), 1
                )
        if not led:
            # Another thread reads, a signal's handler waits, or this thread has been blocked for long.
            self._wait_for(oids, 1, None, started)

    def _wait_for(self, oids: list[bytes], count: int, timeout_s: float | None, started: float) -> None:
        basics = self.basics
        need = [count]
        key = b"wait" + id(need).to_bytes(8, "little")

        def arrived(_: bytes) -> None:
            need[0] -= 1
            if need[0] <= 0:
                basics.objects.announce(key)

        registered = []
        with basics.lock:
            basics.check_open()
            for oid in oids:
                if oid not in basics.ready:
                    basics.objects.ask_for(oid)
                if oid in basics.ready:
                    need[0] -= 1
                else:
                    basics.waiters.setdefault(oid, []).append(arrived)
                    registered.append(oid)

        def target() -> tuple[str, int, tuple[bytes, ...]] | None:
            missing = [oid for oid in registered if oid not in basics.ready]
            return ("wait", need[0], tuple(missing)) if len(missing) <= TARGETS_MAX else None

        try:
            with self._noted(events.WAIT, oids, of_user(basics.ring, self._name_wait), started, count):
                self._block(lambda: need[0] <= 0, lambda: key, timeout_s, target, started)
            basics.check_open()
        finally:
            with basics.lock:
                for oid in registered:
                    callbacks = basics.waiters.get(oid)
                    if callbacks is not None and arrived in callbacks:
                        callbacks.remove(arrived)
                        if not callbacks:
                            del basics.waiters[oid]
