"""Which thread reads the sockets: one that blocks in `get`, else a loop of asyncio that awaits, else a thread for it.

::

    ep      epoll over all of this process' sockets (node, lanes, peers)
    bg      epoll over ep: the background thread sleeps here; a blocked `get` mutes it with one modify()
    outer   epoll over ep: a blocked `get` sleeps here. The kernel wakes a thread that sleeps in ep itself on the
            sender's core, where it cannot run until the sender gives up that core (docs/decisions/0011)
    standby bg, or an epoll over ep in a loop of asyncio that waits for objects (`awaits`); the background thread
            looks every 50 ms whether that loop gets to read

The thread that waits reads by itself, so a reply costs no thread switch. One reader at a time: the
flag `leader` is set under the lock, since a second reader while the leader is in poll() is a lost
wake-up. Spinning for a moment before blocking saves the ≈25 µs that a halted core takes to wake.

Owns the epolls, the background thread and the leader flag; what a readable descriptor means is told
by the handlers that others register.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat
import sys
import threading
import time
from collections.abc import Callable
from threading import get_ident
from typing import Any, Protocol

from sundog.owner import interrupts
from sundog.owner.spins import LENT_S, Spins
from sundog.profilers import profiler
from sundog.system.descriptors import apart, is_still, mark_of

_IN = select.EPOLLIN
_perf = time.perf_counter
_DOZE_S = 0.5
_LED_TICKS = 5
_GATHER_S = 1e-3
_GLANCED_S = 2e-3
_NAP_S = 4e-3
_NAP_MAX_S = 10e-3
_WATCH_S = 50e-3
_REFUSALS_MAX = 500  # arbitrary: about five seconds
_LOOK_S = 1.0  # arbitrary: how often a process that waits looks whether its descriptors are still there


class Stander(Protocol):
    """An event loop of asyncio that reads while it waits for objects (`awaits`)."""

    epoll: select.epoll | None
    thread: int

    def is_needed(self) -> bool: ...

    def soon(self) -> None: ...


class Reactor:
    """The sockets of one process.

    Args:
        lock: the owner's lock; handlers run under it.
        after: called under the lock after each round of handlers (dispatch, frees).
        tick: called under the lock about every `tick_s` while `ticking` is true.
        spin_s: how long a leader spins before it blocks.
    """

    def __init__(
        self, lock: Any, after: Callable[[], None], tick: Callable[[], None], spin_s: float, tick_s: float
    ) -> None:
        self.lock = lock
        self.after = after
        self.tick = tick
        self.spins = Spins(spin_s)
        self.tick_s = tick_s
        self.ticking = False
        self.closed = False
        self.leader = False
        self.dormant = False  # the background thread sleeps until a socket wakes it
        self.patience_s: float | None = None  # `lead_one` gives up a get of one object after this time
        self.watchful: Callable[[], bool] = lambda: False
        self.awaited: Callable[[], bool] = lambda: True  # whether any thread waits for a reply
        self._glanced_s = 0.0
        self.handlers: dict[int, Callable[[], None]] = {}
        self.writers: dict[int, Callable[[], None]] = {}
        # the event loop of asyncio that stands by; None: the background thread
        self.stander: Stander | None = None
        self._stander_read_s = 0.0
        self._pumper: Stander | None = None
        self._gathering = False
        self._next_tick = 0.0
        self._looked_s = _perf()
        self.idle_look_s: float | None = None  # how often the background thread looks while there is nothing
        self.each_look: Callable[[], None] = lambda: None
        self.on_no_memory: Callable[[], None] = lambda: (
            None
        )  # called when no message can be read for some seconds
        # Whether the program has closed descriptors of sundog; if so, this ends the session first.
        self.is_robbed: Callable[[], bool] = lambda: False

    def open(self) -> None:
        """Make the descriptors and the thread: in the process that uses them, not before a fork."""
        self.ep = _make_epoll()
        self.bg = _make_epoll()
        self.outer = _make_epoll()
        self._epfd = self.ep.fileno()
        self.bg.register(self._epfd, _IN)
        # the epoll object of the standby: the loop or thread that reads while no thread leads
        self.standby = self.bg
        self.outer.register(self._epfd, _IN)
        self._wake_r, self._wake_w = map(apart, os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC))
        self.add(self._wake_r, self._drain_wake)
        # An eventfd for the background thread alone: a leader must not consume its wake-ups.
        self._nudge = apart(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))
        self._marks = {fd: mark_of(fd) for fd in self._own()}
        self.bg.register(self._nudge, _IN)
        self.thread = threading.Thread(target=self._run, daemon=True, name="sundog-reader")

    def start(self) -> None:
        """Start the background reader."""
        self.thread.start()

    def add(self, fd: int, handler: Callable[[], None]) -> None:
        """Call `handler` under the lock whenever `fd` is readable."""
        self.handlers[fd] = handler
        try:
            self.ep.register(fd, _IN)
        except OSError as error:
            if not self._is_lost(error):
                raise

    def remove(self, fd: int) -> None:
        """Stop watching `fd` (call before closing it)."""
        if self.handlers.pop(fd, None) is not None:
            self.writers.pop(fd, None)
            with contextlib.suppress(OSError, ValueError):
                self.ep.unregister(fd)

    def watch_writable(self, fd: int, handler: Callable[[], None] | None) -> None:
        """Also call `handler` when `fd` takes data again; None ends that."""
        if fd not in self.handlers:
            return
        if handler is None:
            self.writers.pop(fd, None)
        else:
            self.writers[fd] = handler
        try:
            self.ep.modify(fd, _IN if handler is None else _IN | select.EPOLLOUT)
        except OSError as error:
            if not self._is_lost(error):
                raise

    def pump(self) -> None:
        """Under the lock: handle whatever is readable now."""
        try:
            self._handle(self.ep.poll(0))
        except OSError as error:
            if not self._is_lost(error):
                raise

    def glance(self) -> None:
        """Under the lock: the same, by a thread that makes tasks and comes by again soon."""
        self._glanced_s = _perf()
        self.pump()

    def _handle(self, found: list[tuple[int, int]]) -> None:
        for fd, what in found:
            if what & select.EPOLLOUT:
                writer = self.writers.get(fd)
                if writer is not None:
                    writer()
                if not what & ~select.EPOLLOUT:
                    continue
            handler = self.handlers.get(fd)
            if handler is not None:
                handler()
        self.after()

    # ------------------------------------------------------------------ a loop of asyncio reads
    def stand_by(self, stander: Stander | None) -> None:
        """Under the lock: from now on this loop reads while no thread leads; None: the background thread does."""
        new = self.bg if stander is None or stander.epoll is None else stander.epoll
        if new is not self.standby:
            old, self.standby = self.standby, new
            if not self.leader:
                with contextlib.suppress(OSError, ValueError):  # the event loop is closed
                    old.modify(self._epfd, 0)
                new.modify(self._epfd, _IN)
            # The background thread may be in poll without a timeout: from now on it watches the event loop.
            self._poke()
        self.stander = stander
        self._stander_read_s = _perf()

    def pump_for(self, stander: Stander) -> None:
        """Under the lock, on the thread of a loop: the same as `pump`; the loop sets its own futures after that."""
        self._pumper = stander
        self._stander_read_s = self._glanced_s = _perf()
        try:
            self.pump()
            self._maybe_tick()
        finally:
            self._pumper = None

    def is_read_by(self, stander: Stander) -> bool:
        """Under the lock: whether this loop reads at this moment."""
        return self._pumper is stander

    def _watch(self) -> bool:
        """Under the lock, on the background thread: whether the loop that should read does not."""
        stander = self.stander
        if stander is None:
            return True
        if not stander.is_needed():
            self.stand_by(None)
            return True
        return _perf() - self._stander_read_s > _WATCH_S

    def wake(self) -> None:
        """Make the thread that reads look again (a timer changed, a result was stored by another thread)."""
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._wake_w, b"x")

    def wake_soon(self) -> None:
        """Make the thread that reads look again, within a millisecond: until then there may be more to look at."""
        if self.leader:
            self.wake()
        elif self.stander is not None and self.stander.thread == get_ident() and self.stander.is_needed():
            self.stander.soon()
        else:
            self._gathering = True
            with contextlib.suppress(OSError):  # closed in the meantime
                os.eventfd_write(self._nudge, 1)

    def start_ticking(self) -> None:
        """From now on `tick` is called; the background thread may sleep without a time limit yet."""
        if not self.ticking:
            self.ticking = True
            self._poke()

    def tick_every(self, tick_s: float) -> None:
        """Under the lock: call `tick` at this interval from now on."""
        if tick_s != self.tick_s:
            self.tick_s = tick_s
            self._next_tick = min(self._next_tick, _perf() + tick_s)

    def _drain_wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_r, 4096)

    # ------------------------------------------------------------------ descriptors that the program closes
    def _own(self) -> list[int]:
        return [self._epfd, self.bg.fileno(), self.outer.fileno(), self._wake_r, self._wake_w, self._nudge]

    def has_descriptors(self) -> bool:
        """Under the lock: whether every descriptor that is watched here, or watches, is still open, and its own."""
        if not all(is_still(fd, mark) for fd, mark in self._marks.items()):
            return False
        try:
            return all(_may_be_ours(os.fstat(fd).st_mode) for fd in self.handlers)
        except OSError:
            return False

    def _is_lost(self, error: OSError) -> bool:
        """Whether an error means that the program has closed descriptors of sundog's: then the session has ended."""
        return self.closed or (not isinstance(error, BlockingIOError) and self.is_robbed())

    def _look(self) -> None:
        """Now and then: of a socket that the program has closed the kernel says nothing any more."""
        if _perf() - self._looked_s > _LOOK_S:
            self._looked_s = _perf()
            self.is_robbed()
            self.each_look()

    # ------------------------------------------------------------------ the background reader
    def _run(self) -> None:
        refusals = 0
        while not self.closed:
            try:
                if not self._turn():
                    return
                refusals = 0
            except MemoryError:
                # The program has used up its memory, perhaps for a moment: what was not read is still in its socket.
                refusals += 1
                if refusals == _REFUSALS_MAX:
                    self.on_no_memory()
                time.sleep(_NAP_MAX_S)

    def _turn(self) -> bool:
        """Sleep until there is something, and read it; False if nothing can be read any more."""
        try:
            if self.stander is not None:
                found = self.bg.poll(_WATCH_S)
            else:
                found = self.bg.poll(self._next_look_s() if self.ticking else self._doze_s())
        except (OSError, ValueError):
            self.is_robbed()
            return False
        self.dormant = False
        # Only if the kernel says that it is readable: the number may lead to a file of the program's by now.
        if (self._nudge, _IN) in found:
            with contextlib.suppress(OSError):
                os.eventfd_read(self._nudge)
        self._look()
        is_asked = self._gathering
        if is_asked:
            # Reading now would take the interpreter lock from a thread that is submitting more tasks.
            self._gathering = False
            with contextlib.suppress(OSError, ValueError):
                self.bg.poll(_GATHER_S)
        # While another thread submits tasks and reads the replies in passing, this thread would only take
        # the interpreter lock and the owner's lock from it, once for each system call. But timers are
        # this thread's work.
        # longer each time: every check takes the interpreter lock from the submitting thread
        nap = _NAP_S
        while nap < _NAP_MAX_S:
            if _perf() - self._glanced_s > _GLANCED_S or self.awaited() or self.closed:
                break
            time.sleep(nap)
            nap *= 2
        with self.lock:
            if self.closed:
                return False
            if self.leader:
                return True
            if self.stander is not None and not self._watch() and not is_asked:
                return True
            try:
                self.pump()
                self._maybe_tick()
            except MemoryError:
                raise
            except Exception as error:
                # A defect of sundog must not end this thread: every waiting thread would wait for ever.
                try:
                    import traceback
                except (OSError, ImportError):  # no descriptor is free
                    print(f"a defect: {error!r}", file=sys.stderr)
                else:
                    traceback.print_exc()
        return True

    def _next_look_s(self) -> float:
        """When the background thread ticks: a leader does so by itself, and may have lent its core to a worker."""
        return self.tick_s * _LED_TICKS if self.leader else self.tick_s

    def _doze_s(self) -> float | None:
        """How long the background thread may sleep: for ever only while there is no ref that could die."""
        self.dormant = (
            True  # before the question: a thread that makes a ref after it sees this flag and wakes us
        )
        if self.watchful():
            self.dormant = False
            return _DOZE_S
        return _LOOK_S if self.awaited() else self.idle_look_s

    def rouse(self) -> None:
        """There are refs now whose deaths no other event reports: check at short intervals."""
        self.dormant = False
        self._poke()

    def _poke(self) -> None:
        """Wake the background thread."""
        try:
            os.eventfd_write(self._nudge, 1)
        except OSError as error:
            if not self._is_lost(error):
                raise

    def _maybe_tick(self) -> None:
        if self.ticking:
            now = _perf()
            if now >= self._next_tick:
                self._next_tick = now + self.tick_s
                self.tick()

    # ------------------------------------------------------------------ the leader
    def lead(
        self,
        done: Callable[[], bool],
        deadline: float | None,
        on_block: Callable[[], None] | None,
    ) -> bool | None:
        """Read until `done()`; None if another thread leads already, False at the deadline.

        `on_block` is called once, outside the lock, when spinning did not help.
        """
        mine = False
        try:
            with self.lock:
                if self.leader or self.closed:
                    return None
                self.leader = mine = True
                self.standby.modify(self._epfd, 0)
                self.after()
            return self._read_until(done, deadline, on_block)
        except OSError as error:
            if not self._is_lost(error):
                raise
            return done()
        finally:
            if mine:
                with self.lock:
                    self.leader = False
                    self._unmute()

    def lead_one(
        self, ready: Any, oid: bytes, on_block: Callable[[], None] | None, block_after_s: float = 0.0
    ) -> bool:
        """Read until `oid` is in `ready`; False if another thread leads, the session ends, or it takes long.

        The same as `lead`, written out: a task at a time goes through here, and a call less is a
        microsecond less. `on_block` is called once this thread has slept for `block_after_s`.
        """
        lock, poll = self.lock, self.ep.poll
        mine = False
        limit: float | None = None
        block_at = 0.0
        try:
            with lock:
                if self.leader or self.closed:
                    return False
                self.leader = mine = True
                self.standby.modify(self._epfd, 0)
                self.after()
            while oid not in ready:
                if self.closed:
                    return False
                found = poll(0)
                if not found:
                    end = _perf()
                    spin_s = self.spins.next_s() if profiler() is None else 0.0
                    if spin_s:
                        end += spin_s
                        found = self._spin(end)
                if not found:
                    if on_block is not None:
                        block_at = block_at or end + block_after_s
                        if end >= block_at:
                            block, on_block = on_block, None
                            block()
                            continue
                        if not self._sleep(block_at) and interrupts.due():
                            return False
                    else:
                        if limit is None and self.patience_s is not None:
                            limit = end + self.patience_s
                        if not self._sleep(limit):
                            return False
                with lock:
                    if found:
                        self._handle(found)
                    else:
                        self.pump()
                    self._maybe_tick()
            return True
        except OSError as error:
            return self._ended_by(error)
        finally:
            if mine:
                with lock:
                    self.leader = False
                    self._unmute()

    def _ended_by(self, error: OSError) -> bool:
        """False if the program has closed descriptors of sundog's; else the error is raised."""
        if not self._is_lost(error):
            raise error
        return False

    def _unmute(self) -> None:
        if self.closed:
            return
        try:
            self.standby.modify(self._epfd, _IN)
        except OSError as error:
            if not self._is_lost(error):
                raise

    def _spin(self, end: float) -> list[tuple[int, int]]:
        """Look at the sockets again and again until then, or until this core is used by another thread."""
        poll, yield_core = self.ep.poll, os.sched_yield
        now = _perf()
        is_mine = True
        found: list[tuple[int, int]] = []
        while not found and is_mine and now < end:
            yield_core()
            found = poll(0)
            since, now = now, _perf()
            is_mine = now - since < LENT_S
        self.spins.ended(is_mine and bool(found))
        return found

    def _read_until(
        self, done: Callable[[], bool], deadline: float | None, on_block: Callable[[], None] | None
    ) -> bool:
        poll = self.ep.poll
        lock = self.lock
        may_be_more = True
        while not done():
            if self.closed:
                return False
            # No spinning: a thread that waits for many objects leaves the cores to the workers.
            found = poll(0) if may_be_more else None
            may_be_more = True
            if not found:
                if on_block is not None:
                    block, on_block = on_block, None
                    block()
                    continue
                if not self._sleep(deadline):
                    with lock:
                        self.pump()
                    return done()
                may_be_more = False  # if there is, the next sleep ends at once
            with lock:
                if found:
                    self._handle(found)
                else:
                    self.pump()
                self._maybe_tick()
        return True

    def _sleep(self, deadline: float | None) -> bool:
        """Block in poll; False when the deadline has passed, or handlers of signals wait for the leader to stop."""
        timeout = self.tick_s if self.ticking else None
        if deadline is not None:
            left = deadline - _perf()
            if left <= 0:
                return False
            timeout = left if timeout is None or left < timeout else timeout
        self.wait_in(self.outer.poll, _LOOK_S if timeout is None else timeout)
        self._look()
        return not interrupts.due()

    def wait_in(self, block: Callable[..., object], *args: object) -> None:
        """Block in a call of C code, with no step of sundog half done; the main thread leaves the call for a
        signal's handler.
        """
        if get_ident() == interrupts.main:
            interrupts.wait_in(block, *args)
        else:
            block(*args)

    def close(self) -> None:
        """Under the lock: no handler runs after this."""
        self.closed = True
        if is_still(self._wake_w, self._marks[self._wake_w]):
            self.wake()
        if is_still(self._nudge, self._marks[self._nudge]):
            self._poke()
        with contextlib.suppress(OSError, ValueError):
            self.bg.modify(self._epfd, _IN)

    def release(self) -> None:
        """After the background thread ended: close the descriptors."""
        if self.thread.is_alive() and threading.current_thread() is not self.thread:
            self.thread.join(timeout=2.0)
        # `close` has woken the leader. The leader must have left poll() before the descriptors are closed.
        deadline = _perf() + 2.0
        while self.leader and _perf() < deadline:
            time.sleep(0.0005)
        for epoll in (self.ep, self.bg, self.outer):
            if is_still(epoll.fileno(), self._marks[epoll.fileno()]):
                epoll.close()
            else:
                _abandoned.append(epoll)
        ends = self._wake_r, self._wake_w, self._nudge
        self._wake_w = self._nudge = -1  # a late wake() must not write to a reused descriptor
        for fd in ends:
            if is_still(fd, self._marks[fd]):
                os.close(fd)


_abandoned: list[select.epoll] = []  # never deleted: that would close a file of the program's


def _may_be_ours(mode: int) -> bool:
    """Whether a watched descriptor, of which only the kind is known, may be: sockets, pipes and timers are."""
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISCHR(mode))


def _make_epoll() -> select.epoll:
    made = select.epoll()
    high = apart(os.dup(made.fileno()))
    made.close()
    return select.epoll.fromfd(high)
