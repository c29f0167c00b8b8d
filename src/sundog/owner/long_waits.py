"""Gets and waits that last: noted here, told to the node, broken when they are part of a deadlock.

::

    thread in get ──blocked for `deadlock_check_s`──► note ──Stalled(n)──► node
    node ──TellWaits(number, tasks)──► reader ──WaitsTold(number, report)──► node
    node ──Deadlock(serial, links)──► reader ──wakes──► the thread, which raises DeadlockError

Owns the list of long waits of one process, and the report about them. A get that ends soon costs nothing; one with a
timeout is never noted, for it ends by itself. Runs under the owner's lock, in whichever thread reads; `note` and
`forget` are called by the thread that waits.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from sundog.exceptions import DeadlockError
from sundog.ids import PROCESS_BYTES, task_of
from sundog.owner import context
from sundog.owner.basics import Basics
from sundog.owner.control import Control
from sundog.owner.rows import QUEUED, WAITING, Task
from sundog.profilers import load
from sundog.wire.control import Deadlock, Stalled, TellWaits, WaitsTold

if TYPE_CHECKING:
    from types import FrameType

    from sundog.owner.interfaces import Calling, Dispatching, Draining
    from sundog.state.wait_facts import Frame, RunSlot, TaskFact, Wait

TARGETS_MAX = 1_000
_FRAMES_MAX = 16
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_WORKER = os.path.join(_OURS, "worker") + os.sep

# What a wait waits for: (verb, how many objects it needs, the missing objects). None: unknown, so never a
# deadlock.
Target = Callable[[], tuple[str, int, tuple[bytes, ...]] | None]
# Where this process runs tasks: (slots, tasks queued there, whether all of them wait for the main slot).
Places = tuple["tuple[RunSlot, ...]", tuple[tuple[bytes, str], ...], bool]


class LongWait:
    """One get or wait that has been blocked for long."""

    __slots__ = ("gate", "holds_slot", "links", "name", "runs", "serial", "since_s", "target", "thread")

    def __init__(self, serial: int, target: Target, since_s: float) -> None:
        self.serial = serial
        self.target = target
        self.since_s = since_s
        thread = threading.current_thread()
        self.thread = thread.ident
        running = context.current()
        # A thread started by user code may wait without blocking the task that started it.
        self.holds_slot = thread is threading.main_thread() or (
            context.running.get() is not None and thread.name.startswith("sundog-")
        )
        self.runs = running.task_id if running is not None else b""
        self.name = running.name if running is not None else ""
        # wakes the waiting thread while another thread reads
        self.gate: Callable[[bytes], None] | None = None
        self.links: list[dict[str, object]] | None = None  # the deadlock that this wait is part of

    def error(self) -> DeadlockError:
        """The error to raise; made in the waiting thread, because it reads the source files of the stacks."""
        import linecache

        from sundog.state.deadlock_text import compose

        links = self.links or []
        return DeadlockError(
            compose(links, linecache.getline),
            cycle=links,
            task_id=self.runs.hex() or None,
            pid=os.getpid(),
        )


class LongWaits:
    """The long waits of one process."""

    def __init__(
        self, basics: Basics, control: Control, replies: Draining, dispatch: Dispatching, actors: Calling
    ) -> None:
        self.basics = basics
        self.control = control
        self.replies = replies
        self.dispatch = dispatch
        self.actors = actors
        config = basics.config
        self.patience_s = config.deadlock_check_s if config.enable_deadlock_check else None
        # Set by a worker; the argument is the task of the main thread, if the main thread waits.
        self.places: Callable[[bytes], Places] = lambda main_runs: ((), (), False)
        self._serials = itertools.count(1)
        self._long: dict[int, LongWait] = {}

    # ------------------------------------------------------------------ the thread that waits
    def note(self, target: Target, since_s: float) -> LongWait:
        """This thread has been blocked for long: tell the node that a thread of this process is."""
        wait = LongWait(next(self._serials), target, since_s)
        with self.basics.lock:
            self._long[wait.serial] = wait
            self.control.send(Stalled(len(self._long)))
        return wait

    def forget(self, wait: LongWait) -> None:
        """The thread is not blocked any more."""
        with self.basics.lock:
            del self._long[wait.serial]
            if self.basics.closed is None:
                self.control.send(Stalled(len(self._long)))

    # ------------------------------------------------------------------ from the node (locked)
    def deadlock(self, message: Deadlock) -> None:
        """A wait of this process is part of a deadlock: it raises."""
        wait = self._long.get(message.serial)
        if wait is not None:
            wait.links = message.links
            if wait.gate is not None:
                wait.gate(b"")

    def tell(self, message: TellWaits) -> None:
        """Report to the node the long waits of this process, and where these tasks of this process are."""
        # Imported here and below: most processes are never asked for this, and start-up time counts.
        load("sundog.state.wait_facts")
        from sundog.state.wait_facts import Report

        self._read_replies()
        waits = self._waits()
        wanted = dict.fromkeys(message.tasks)
        for wait in waits:
            wanted.update(dict.fromkeys(task_of(each) for each in wait.targets))
        main = threading.main_thread().ident
        slots, queued, exclusive = self.places(
            next((wait.runs for wait in self._long.values() if wait.thread == main), b"")
        )
        report = Report(waits, slots, queued, exclusive, self._facts(list(wanted)), self._other_threads())
        self.control.send(WaitsTold(message.number, report))

    def _read_replies(self) -> None:
        """Take what has come: a task whose reply lies in a socket is done."""
        replies = self.replies
        for lane in list(self.dispatch.lanes.values()):
            if lane.inflight:
                replies.drain_lane(lane)
        for link in list(self.actors.links.values()):
            if link.inflight and link.sock is not None:
                replies.drain_lane(link)
                if not link.inflight and not link.queue:
                    link.keep = None

    def _waits(self) -> tuple[Wait, ...]:
        from sundog.state.wait_facts import Wait

        frames = sys._current_frames()
        found = []
        for wait in self._long.values():
            target = wait.target()
            if target is None or wait.links is not None:
                continue
            verb, need, missing = target
            if need <= 0 or len(missing) < need:
                continue  # this wait is about to end
            found.append(
                Wait(
                    wait.serial,
                    verb,
                    wait.runs,
                    wait.name,
                    wait.holds_slot,
                    need,
                    missing,
                    wait.since_s,
                    _stack(frames.get(wait.thread or 0)),
                )
            )
        # this frame is one of them: the reference cycle would keep alive what the callers of every thread
        # hold
        frames.clear()
        return tuple(found)

    def _other_threads(self) -> int:
        """Threads that may do anything: not sundog's, not in a reported wait, and not a worker's main thread."""
        waiting = {wait.thread for wait in self._long.values()}
        worker = context.facts.mode == "worker"
        count = 0
        for thread in threading.enumerate():
            ours = thread.name.startswith("sundog-") or (worker and thread is threading.main_thread())
            count += not ours and thread.ident not in waiting
        return count

    # ------------------------------------------------------------------ where our tasks are (locked)
    def _facts(self, wanted: list[bytes]) -> tuple[tuple[bytes, TaskFact], ...]:
        found: dict[bytes, TaskFact] = {}
        while wanted and len(found) < TARGETS_MAX:
            task_id = wanted.pop()
            task = self.basics.table.get(task_id)
            if task is None or task_id in found:
                continue
            fact = found[task_id] = self._fact(task)
            wanted += [task_of(each) for each in fact.needs if each[:PROCESS_BYTES] == self.basics.me]
            if fact.ahead:
                wanted.append(fact.ahead)
        return tuple(found.items())

    def _fact(self, task: Task) -> TaskFact:
        from sundog.state.wait_facts import ARGUMENTS, BEHIND, CALL, LEASE, SENT, TaskFact

        name = task.fn.name
        if task.state == WAITING:
            ready = self.basics.ready
            return TaskFact(
                ARGUMENTS, name, needs=tuple(oid for oid in set(task.deps or ()) if oid not in ready)
            )
        if task.actor is not None:
            if task.state == QUEUED:
                ahead = next(iter(task.actor.queue), task)
                ordered = not task.actor.out_of_order and not task.actor.by_group
                if ahead is not task and ahead.state == WAITING and ordered:
                    return TaskFact(BEHIND, name, ahead=ahead.id)
            return TaskFact(CALL, name, actor=task.actor.actor_id)
        shape = task.fn.shape
        if task.state == QUEUED or task.lane is None:
            return TaskFact(LEASE, name, key=shape.key if shape is not None else None)
        return TaskFact(SENT, name, key=shape.key if shape is not None else None, worker=task.lane.worker)


def _stack(frame: FrameType | None) -> tuple[Frame, ...]:
    """The user's frames of a blocked thread, the outermost first."""
    from sundog.state.wait_facts import Frame

    found: list[Frame] = []
    while frame is not None and len(found) < _FRAMES_MAX:
        code = frame.f_code
        if code.co_filename.startswith(_WORKER):
            break  # this frame runs the user's code; the frames below it only started the process
        if not code.co_filename.startswith(_OURS):
            found.append(Frame(code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return tuple(reversed(found))
