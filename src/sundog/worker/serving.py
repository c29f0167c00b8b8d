"""The worker's main thread: reads lanes and runs what they bring, one task at a time.

::

    lanes ─epoll─► todo ─► Executor.run ─► replies, flushed at the end of a batch, after 100 ms, or at 64 KiB

Before the running task blocks in a `get`, its finished replies are flushed, the tasks of the batch that
were not begun go back to their owner, and the node gets the CPU back. Calls of an actor are flushed after
8 ms: the caller may wait for one of them before it makes the next. A guard thread flushes replies that would
otherwise wait behind a task that turns out to be long, and hands back the tasks behind it.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import TYPE_CHECKING

from sundog.exceptions import TaskCancelledError
from sundog.net import packets
from sundog.net import sockets as socket
from sundog.owner import context, interrupts
from sundog.owner.core import Owner
from sundog.owner.long_waits import Places
from sundog.owner.spins import LENT_S, Spins
from sundog.serialize.pack import pack
from sundog.wire import lanes as wire
from sundog.wire.control import Blocked, Imported, Stale, Unblocked
from sundog.worker import exits, stacks, stdio
from sundog.worker.answers import AnswerLane
from sundog.worker.executor import Executor
from sundog.worker.flush_guard import FlushGuard
from sundog.worker.imports import Imports
from sundog.worker.modules import ModuleWatch
from sundog.worker.sampler import Call, thread_stack

if TYPE_CHECKING:
    from sundog.wire.dicts import LeaseSetup

_perf = time.perf_counter
_loads = pickle.loads
_time = time.time
_FLUSH_S = 0.1  # longer than the longest packet should take
_FLUSH_CALLS_S = 8e-3
_LONG_S = 5e-2  # a task that takes so long holds up no other task of its packet
_EARLY_MAX = 10_000
_AGAIN_S = 0.002
_NOTHING: wire.Packet = (None, (), (), None)  # stands for a packet that was lost with its owner


class _NoWayBack:
    """Stands for a lane's socket in a forked child: the first reply ends the process."""

    def send(self, data: bytes) -> int:
        stdio.flush_all()
        os._exit(0)


class Serving:
    """Reads lanes in the main thread of a worker."""

    def __init__(self, owner: Owner, executor: Executor) -> None:
        self.owner = owner
        owner.notes_parents = True
        self.executor = executor
        self.shm_root = owner.control.shm_root
        self.spins = Spins(owner.config.spin_us / 1e6)
        self.lanes: dict[int, AnswerLane] = {}
        self.todo: deque[tuple[AnswerLane, wire.Item]] = deque()
        self.buffer = packets.receive_buffer()
        self.main_thread = threading.get_ident()
        self.current: bytes | None = None
        self.blocked = self.paused = False
        self.stopping: str | None = None
        self.watch = ModuleWatch()
        learns = owner.config.learn_imports
        self.imports = Imports((lambda found: owner.control.send(Imported(found))) if learns else None)
        self._lease = 0  # the last lease that this process was prepared for
        self.retired = False  # runs no more tasks, but stays while other processes need objects that it owns
        self._warned_paths: set[str] = set()
        # for a serving that has more to check than incoming messages; negative: none
        self.look_again_s = -1.0
        self.construct: Callable[[], object] | None = None  # by ConstructActor, for the main thread
        self.guard = FlushGuard(self._relieve)
        executor.item_waits = self.guard.watch_item
        executor.on_exit, executor.on_late_exit = self.exit_soon, self.exit_now
        executor.deadlines.end_call = self.end_call
        executor.deadlines.busy_with = self.busy_with

    def open(self) -> None:
        """Make the descriptors: in the process that serves, not before a fork."""
        self.watch.begin()
        if context.facts.runtime_env:
            self.imports.tell = None  # modules of another environment are no example for other workers
        self.epoll = select.epoll()
        # The thread sleeps in this one. In the inner epoll the kernel would wake the thread on the sender's
        # core, where it has to wait until the sender gives up the core (docs/decisions/0011).
        self.outer = select.epoll()
        self.outer.register(self.epoll.fileno(), select.EPOLLIN)
        self.wake_r, self.wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.epoll.register(self.wake_r, select.EPOLLIN)

    # ------------------------------------------------------------------ lanes (called by the reader thread)
    def add_lane(self, owner_id: bytes, fd: int) -> None:
        """An owner opened a lane to us."""
        lane = AnswerLane(owner_id, socket.socket(fileno=fd))
        if self.executor.actor_id is not None:
            lane.reply((self.owner.me, wire.R_WORKER, os.getpid(), 0.0), 32, self.shm_root)
        self.lanes[fd] = lane
        self.epoll.register(fd, select.EPOLLIN)

    def wake(self) -> None:
        """Make the main thread look at `stopping` and `construct`."""
        with contextlib.suppress(OSError):
            os.write(self.wake_w, b"x")

    def drop_lane(self, fd: int) -> None:
        """A lane's owner is gone."""
        lane = self.lanes.pop(fd, None)
        if lane is not None:
            with contextlib.suppress(OSError):
                self.epoll.unregister(fd)
            lane.sock.close()
            self.executor.gates.owner_died(lane.owner_id)

    def disown(self) -> None:
        """In a child that user code forked: it sends no replies, and ends when its task returns."""
        self.todo.clear()
        for lane in self.lanes.values():
            lane.out, lane.out_bytes = [], 0
            lane.sock = _NoWayBack()  # type: ignore[assignment]

    # ------------------------------------------------------------------ the loop
    def run(self) -> str:
        """Serve until told to stop; returns why."""
        lane: AnswerLane | None = None
        while True:
            if self.stopping is not None:
                return self.stopping
            if self.construct is not None:
                construct, self.construct = self.construct, None
                construct()
                if self.stopping is not None:
                    return self.stopping
                lane = None
            size = self._spin(lane) if lane is not None and len(self.lanes) == 1 else -1
            if size < 0:
                if self.owner.ops:
                    # Count the refs that died with the last task: while this thread sleeps, no other thread
                    # would.
                    with self.owner.lock:
                        self.owner.objects.drain()
                if self.paused:
                    # an editor let the task continue, and no code of sundog ran at that moment
                    self.after_pause()
                self.imports.look()
                self.outer.poll(self.look_again_s)
                ready = self.epoll.poll(0)
                if self.look_again_s >= 0:
                    self._look_again()
                self.executor.meter.settle()
                if self.executor.sampler.dormant:
                    self.executor.sampler.wake()
                for fd, _ in ready:
                    if fd == self.wake_r:
                        with contextlib.suppress(BlockingIOError):
                            os.read(self.wake_r, 4096)
                        continue
                    found = self.lanes.get(fd)
                    if found is not None and self.construct is None and self.stopping is None:
                        lane = found
                        self._take(found, -1)
                continue
            self._take(lane, size)  # type: ignore[arg-type]
            if size == 0:
                lane = None  # its owner is gone: the one remaining lane is another one

    def _spin(self, lane: AnswerLane) -> int:
        """Look at one lane for a moment, or until this core is used by another thread: see `Reactor._spin`."""
        receive, buffer, yield_core = lane.sock.recv_into, self.buffer, os.sched_yield
        spin_s = self.spins.next_s()
        if not spin_s and not self.epoll.poll(0):  # a look at an empty socket takes five times as long
            return -1
        now, size, is_mine = _perf(), -1, True
        end = now + spin_s
        while size < 0:
            try:
                size = receive(buffer, 0, socket.MSG_DONTWAIT)
            except BlockingIOError:
                if now >= end or not is_mine or self.stopping is not None or self.construct is not None:
                    break
                yield_core()
                since, now = now, _perf()
                is_mine = now - since < LENT_S
            except OSError:
                size = 0
        if spin_s:
            self.spins.ended(is_mine and size >= 0)
        return size

    def _take(self, lane: AnswerLane, size: int) -> None:
        """Read one packet (unless it is in the buffer already) and run it."""
        if size < 0:
            try:
                size = lane.sock.recv_into(self.buffer, 0, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                size = 0
        if size == 0:
            self.drop_lane(lane.sock.fileno())
            return
        packet = _loads(self.buffer[:size])
        if len(packet) == 2:
            packet = packets.read_big(packet[1], _NOTHING)
        executor = self.executor
        if len(packet[1]) != 1 or self.todo or executor.concurrent or self.retired:
            self.accept(lane, packet)
            self._run_todo()
            return
        # One task at a time: as little code as possible between its arrival and its reply.
        items = packet[1]
        if packet[0] or packet[2] or packet[3]:
            self.accept(lane, (packet[0], (), packet[2], packet[3]))
            if self.retired:
                self.todo.append((lane, items[0]))
                self._run_todo()
                return
        self.current = items[0][0]
        try:
            if not executor.cancelled_early or not self._overtaken(lane, items[0][0]):
                executor.run(lane, items[0], True)
        finally:
            self.current = None
        lane.flush(self.shm_root)
        if executor.exit_after is not None:
            self._run_todo()

    def accept(self, lane: AnswerLane, packet: wire.Packet) -> None:
        """Take a packet's functions and settings, and queue its tasks."""
        fns, items, freed, setup = packet
        if fns:
            self.executor.learn(lane, fns)
        for name, size in freed:
            self.owner.segments.recycle(name, size)
        if setup is not None and setup["lease"] != self._lease:
            self._lease = setup["lease"]
            self.apply_setup(setup)
        if self.executor.cancelled_early:
            items = self._without_cancelled(lane, items)
        todo = self.todo
        for item in items:
            todo.append((lane, item))

    def _without_cancelled(self, lane: AnswerLane, items: Sequence[wire.Item]) -> list[wire.Item]:
        wanted = []
        for item in items:
            if item[0] in self.executor.cancelled_early:
                del self.executor.cancelled_early[item[0]]
                self._reply_cancelled(lane, item[0])
            else:
                wanted.append(item)
        return wanted

    def _overtaken(self, lane: AnswerLane, task_id: bytes) -> bool:
        """Whether the cancel of a task arrived before the task became `current`; then the cancel is answered."""
        if self.executor.cancelled_early.pop(task_id, self) is self:
            return False
        self._reply_cancelled(lane, task_id)
        return True

    def cancel_early(self, task_id: bytes) -> None:
        """A cancel overtook its task, which may be unread in a socket (or is done: then this is moot)."""
        early = self.executor.cancelled_early
        early[task_id] = None
        while len(early) > _EARLY_MAX:
            del early[next(iter(early))]

    def apply_setup(self, setup: LeaseSetup) -> None:
        """Prepare the process for a lease (GPU ids, thread counts, placement group)."""
        from sundog.worker.setup import apply_lease, note_lease

        apply_lease(setup)
        note_lease(self.executor.ring, setup)
        changed = self.watch.changed() if not self.retired and self.executor.actor_id is None else None
        if changed:
            self._found_stale(changed)

    def _found_stale(self, paths: list[str]) -> None:
        """Modules that this process has imported were edited: serve nothing more, or say so."""
        names = ", ".join(paths)
        if self.owner.config.reload_changed_modules:
            self.retired = True
            self.owner.control.send(Stale(names))
        elif not self._warned_paths.issuperset(paths):
            self._warned_paths.update(paths)
            print(
                f"WARNING: {names} changed on disk after this worker (pid {os.getpid()}) had imported it: tasks here "
                "still run the old code, new workers run the new code. Without reload_changed_modules=False, sundog "
                "replaces such workers.",
                file=sys.stderr,
                flush=True,
            )

    def _decline(self) -> None:
        """The worker is retired: hand back the tasks that came, and their leases."""
        self.hand_back()
        for lane in list(self.lanes.values()):  # a copy, here and below: the reading thread may add a lane
            lane.reply((b"", wire.R_EXIT, None, 0.0), 16, self.shm_root)
        self._flush_all()

    def _run_todo(self) -> None:
        if self.retired:
            self._decline()
            return
        executor = self.executor
        todo, run, early = self.todo, executor.run, executor.cancelled_early
        end = _time()
        flush_s = _FLUSH_S if executor.actor_id is None else _FLUSH_CALLS_S
        flush_at = end + flush_s
        lane = None
        many = len(todo) > 1
        if many:
            self.guard.begin_batch()
        while todo:
            try:
                next_lane, item = todo.popleft()
            except IndexError:
                break  # another thread has taken the last task out: a cancel, or the guard
            if lane is not None and next_lane is not lane:
                lane.flush(self.shm_root)
            lane = next_lane
            self.current = item[0]
            try:
                if not early or not self._overtaken(lane, item[0]):
                    end = run(lane, item)
            finally:
                self.current = None
            if executor.exit_after is not None:
                self._leave()
                return
            if end > flush_at and todo:
                lane.flush(self.shm_root)
                flush_at = end + flush_s
                self.guard.renew()
        if lane is not None:
            lane.flush(self.shm_root)
        if many:
            self.guard.end_batch()
        if executor.exit_after is not None:
            self._leave()

    def _leave(self) -> None:
        """End after the last task; or, after max_calls, when no other process needs what this process owns."""
        self.hand_back()
        self._flush_all()
        executor = self.executor
        if executor.worn_out and executor.actor_id is None:
            with self.owner.lock:
                needed = not exits.may_exit(self.owner)
            if needed:
                executor.exit_after, self.retired = None, True  # the node asks again, as it asks idle workers
                return
        self.stopping = executor.exit_after

    def _look_again(self) -> None:
        """The time of `look_again_s` has passed, or something came."""

    def _relieve(self) -> None:
        """On the guard's thread: send the replies, and hand back what waits behind a task that takes long."""
        runs = self.current is not None and self.executor.actor_id is None
        if runs and _time() - self.current_start() > _LONG_S:
            waiting: list[tuple[AnswerLane, wire.Item]] = []
            with contextlib.suppress(IndexError):
                while True:
                    waiting.append(self.todo.pop())
            self._return_tasks(reversed(waiting))
        self._flush_all()

    def _flush_all(self) -> None:
        for lane in list(self.lanes.values()):
            lane.flush(self.shm_root)

    # ------------------------------------------------------------------ blocking inside a task
    def before_block(self) -> None:
        """The running task is about to block in get or wait."""
        if threading.get_ident() != self.main_thread or self.current is None:
            self._flush_all()
            return
        if self.executor.actor_id is None:
            self.hand_back()
            for lane in list(self.lanes.values()):
                lane.reply((b"", wire.R_BLOCKED, True, 0.0), 16, self.shm_root)
        self._flush_all()
        self.blocked = True
        self.owner.control.send(Blocked())

    def after_block(self) -> None:
        """The running task goes on."""
        if threading.get_ident() != self.main_thread or not self.blocked:
            return
        self.blocked = False
        self.owner.control.send(Unblocked())
        if self.executor.actor_id is None:
            for lane in list(self.lanes.values()):
                lane.reply((b"", wire.R_BLOCKED, False, 0.0), 16, self.shm_root)
        self._flush_all()

    def before_pause(self) -> None:
        """The running task is paused in a debugger: it keeps its CPU, and the tasks behind it go to other
        workers.
        """
        self._flush_all()
        if self.executor.actor_id is None and threading.get_ident() == self.main_thread and not self.paused:
            self.paused = True
            self.hand_back()
            self._tell_blocked(True)

    def after_pause(self) -> None:
        """The paused task continues."""
        if self.paused and threading.get_ident() == self.main_thread:
            self.paused = False
            self._tell_blocked(False)

    def _tell_blocked(self, blocked: bool) -> None:
        for lane in list(self.lanes.values()):
            lane.reply((b"", wire.R_BLOCKED, blocked, 0.0), 16, self.shm_root)
        self._flush_all()

    def hand_back(self) -> None:
        """Return tasks that were not begun, read or unread, to their owners."""
        for fd, lane in list(self.lanes.items()):
            while True:
                try:
                    size = lane.sock.recv_into(self.buffer, 0, socket.MSG_DONTWAIT)
                except OSError:
                    break
                if not size:
                    self.drop_lane(fd)
                    break
                self.accept(lane, packets.decode(self.buffer[:size]) or _NOTHING)
        waiting = list(self.todo)
        self.todo.clear()
        self._return_tasks(waiting)

    def _return_tasks(self, waiting: Iterable[tuple[AnswerLane, wire.Item]]) -> None:
        back: dict[int, tuple[AnswerLane, list[bytes]]] = {}
        for lane, item in waiting:
            back.setdefault(id(lane), (lane, []))[1].append(item[0])
        for lane, ids in back.values():
            lane.reply((b"", wire.R_BACK, ids, 0.0), 24 * len(ids), self.shm_root)

    # ------------------------------------------------------------------ cancelling (reader thread)
    def cancel(self, task_id: bytes, recursive: bool) -> None:
        """Cancel a task that is queued or running here."""
        for entry in list(self.todo):
            if entry[1][0] == task_id:
                with contextlib.suppress(ValueError):
                    self.todo.remove(entry)
                    self._reply_cancelled(entry[0], task_id)
                    return
        if self.current == task_id:
            self._cancel_current(task_id, recursive)
            return
        self.cancel_early(task_id)
        # The main thread may have begun the task: whichever thread removes the entry acts on it.
        if self.current == task_id and self.executor.cancelled_early.pop(task_id, self) is None:
            self._cancel_current(task_id, recursive)

    def _cancel_current(self, task_id: bytes, recursive: bool) -> None:
        """Interrupt a task. A call of an actor is not interrupted: it can ask `is_canceled()`."""
        if self.executor.actor_id is None:
            self._interrupt_current(task_id, recursive)
            return
        self.executor.attention = True  # set before the next line, since the call may ask and return at once
        self.executor.cancelled = {task_id}
        self.owner.cancels.childless = {task_id} if recursive else set()
        self._open_gate(task_id)
        if recursive:
            self.owner.cancels.cancel_children_of(task_id)

    def _open_gate(self, task_id: bytes) -> None:
        """Wake a generator that waits for its consumer."""
        self.executor.gates.wake(task_id)

    def _interrupt_current(self, task_id: bytes, recursive: bool) -> None:
        self.executor.interrupting = task_id
        # One task runs at a time: the other entries are tasks that ended before their interrupt came.
        self.executor.cancelled = {task_id}
        self.owner.cancels.childless = {task_id} if recursive else set()
        self._open_gate(task_id)
        signal.pthread_kill(self.main_thread, signal.SIGINT)
        if recursive:
            self.owner.cancels.cancel_children_of(task_id)

    def end_call(self, task_id: bytes) -> bool:
        """The time limit of a running task has passed: end the task and its children; False if that is not
        possible.
        """
        if self.current == task_id:
            self._interrupt_current(task_id, True)
        return True

    def busy_with(self) -> str:
        """Where the task or call is that runs here; empty if none does."""
        return stacks.of_thread(self.main_thread, only_users=True)

    def current_start(self) -> float:
        """When the running task began."""
        return self.executor.ring.started_at()

    def oldest_call(self) -> Call | None:
        """What has been running longest, for the sampler; None when nothing runs."""
        current = self.current
        return None if current is None else (current, self.current_start(), thread_stack(self.main_thread))

    def _reply_cancelled(self, lane: AnswerLane, task_id: bytes) -> None:
        error = TaskCancelledError(
            f"Task {task_id.hex()} was cancelled before it ran.", task_id=task_id.hex()
        )
        meta, _, _ = pack(error, 1 << 62)
        # Not retryable, and not an error of the task: the owner knows the task's name and words the error.
        payload: object = (None, (wire.ERROR, meta, None, None), [])
        lane.reply((task_id, wire.R_ERROR, payload, 0.0), len(meta), self.shm_root)
        lane.flush(self.shm_root)

    def interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        """SIGINT in the main thread: raise in the task that is to be cancelled, if it still runs."""
        if self.executor.on_signal is not None:
            self.executor.on_signal(_frame)
        if self.current is None or self.current != self.executor.interrupting:
            return
        if context.current() is None:
            # The user's code has not begun or has ended (replies in transmission would be lost).
            interrupts.send_later(_AGAIN_S, signal.pthread_kill, self.main_thread, signal.SIGINT)
            return
        raise KeyboardInterrupt

    # ------------------------------------------------------------------ questions (reader thread)
    def places(self, _main_runs: bytes) -> Places:
        """Where calls run here, for the deadlock search: one at a time, and all others behind it."""
        from sundog.state.wait_facts import MAIN, RunSlot

        current = self.current
        return (RunSlot(MAIN, 1, (current,) if current is not None else ()),), (), True

    def running_calls(self) -> dict[bytes, float]:
        """Calls that run at the same time, with their start times; a single running task is in the ring."""
        return {}

    # ------------------------------------------------------------------ ends and successions
    def finish_then_stop(self, reason: str) -> None:
        """End after the running calls. No call is left in a socket: a caller keeps its handle until it is
        answered.
        """
        self.stopping = reason
        self.wake()

    def exit_soon(self) -> None:
        """The actor ends when what runs has ended; if nothing does (a thread of the user's asked), now. Any thread."""
        if self.current is None:
            self.stopping = self.executor.exit_after
            self.wake()

    def exit_now(self) -> None:
        """The calls that still run at the end of their actor have had their time. Any thread."""
        self.stopping = self.executor.exit_after
        self.wake()

    def fall_over(self) -> None:
        """A reply could not be sent, in a thread or loop that would continue: end the process, so that
        callers are informed.
        """
        import traceback

        traceback.print_exc()
        stdio.flush_all()
        os._exit(1)

    def adopt(self, other: Serving) -> None:
        """Take over the lanes of the serving that ran before (locked: the reader may be adding one)."""
        with self.owner.lock:
            for fd, lane in list(other.lanes.items()):
                other.epoll.unregister(fd)
                self.lanes[fd] = lane
                self.epoll.register(fd, select.EPOLLIN)
            other.lanes = self.lanes
            other.epoll = self.epoll
            other.outer = self.outer
        self.todo.extend(other.todo)
        other.todo.clear()
