"""What a task costs: its processor seconds and the most memory of its own that its process had.

Owns the readings and the rule when one is made; writes the event of each task that ends here. Runs in the
thread that ran the task; in an asyncio actor that is the loop's.

A reading is made at the end of a task that took a millisecond or more, and of a shorter one when none was made for
`GAP_S`: a flood of short ones is measured two hundred times a second, and two comparisons are all that the rest pay.
A short task's processor seconds are its wall time (wrong by less than a millisecond), its memory that of the last
reading (in those few milliseconds not much more than a few new MiB can have been touched).

*Own memory* is what is resident and anonymous: shared segments, files and libraries are left out; what came
from the zygote by fork is in. Its peak is the kernel's own high-water mark, which is set back after each
look, so a peak between two looks is not missed; files of /proc are opened only when the mark has moved.
"""

from __future__ import annotations

import contextlib
import os
import resource
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from math import inf
from typing import TYPE_CHECKING, Any

from sundog import events

if TYPE_CHECKING:
    from collections.abc import Generator

_getrusage = resource.getrusage
_SELF, _CHILDREN, _THREAD = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN, resource.RUSAGE_THREAD
_thread_time = time.thread_time
_perf = time.perf_counter
_time = time.time
STEP_S = 1e-3
GAP_S = 5e-3
_LOOK_S = 0.1  # released memory is noticed after this time at the latest
_CHILDREN_S = 0.02  # a shorter task has started no process that is worth counting
_NOTABLE_BYTES = 1 << 20
_PAGE = resource.getpagesize()
_STAIRS_MAX = 64


def own_and_shared() -> tuple[int, int]:
    """This process's resident memory: anonymous bytes, and bytes of files and shared segments."""
    # Opened each time: user code may close a kept descriptor, whose number another file could then have.
    fd = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    try:
        fields = os.read(fd, 128).split()
    finally:
        os.close(fd)
    shared = int(fields[2]) * _PAGE
    return int(fields[1]) * _PAGE - shared, shared


def _reset_high_water() -> bool:
    """Set the kernel's mark of this process's largest resident size back to the size now."""
    try:
        fd = os.open("/proc/self/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(fd, b"5")
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


class OwnMemory:
    """Own memory now, and its peak since any moment that a running task may have begun at."""

    def __init__(self) -> None:
        self.own_bytes = self._shared = 0
        with contextlib.suppress(OSError):
            self.own_bytes, self._shared = own_and_shared()
        self._level = self.own_bytes + self._shared if _reset_high_water() else _high_water()
        self._look_at = 0.0
        # Peaks of the samples, in falling order: enough to answer "the highest value since t" for any t.
        self._stairs: deque[tuple[float, int]] = deque(maxlen=_STAIRS_MAX)
        self._lock = threading.Lock()  # the sampler adds entries too

    def look(self, now: float, high_water: int) -> None:
        """Read the kernel's peak mark; read the details if it has changed, or after a while."""
        if high_water < self._level + _NOTABLE_BYTES and now < self._look_at:
            return
        self._look_at = now + _LOOK_S
        try:
            own, shared = own_and_shared()
        except OSError:
            return  # no file descriptor is free: the user's task must not fail because of a measurement
        # A segment that was mapped only between two samples would count as own memory: assume that there was
        # none.
        peak = max(own, high_water - max(shared, self._shared)) if high_water > self._level else own
        self.own_bytes, self._shared = own, shared
        self._level = own + shared if _reset_high_water() else high_water
        self.note(now, peak)

    def note(self, now: float, own_bytes: int) -> None:
        """Own memory was this much at `now`."""
        stairs = self._stairs
        with self._lock:
            while stairs and stairs[-1][1] <= own_bytes:
                stairs.pop()
            stairs.append((now, own_bytes))

    def peak_since(self, start: float) -> int:
        """The highest own memory that was seen at `start` or later."""
        with self._lock:
            for at, own_bytes in self._stairs:
                if at >= start:
                    return max(own_bytes, self.own_bytes)
        return self.own_bytes


def _high_water() -> int:
    return int(_getrusage(_SELF).ru_maxrss) * 1024


class Meter:
    """Writes the events of tasks that end, with what they cost: one task at a time in this process.

    Its processor seconds are those of all threads and of the processes it waited for.
    """

    def __init__(self, ring: events.Ring | events.NoRing) -> None:
        self.ring = ring
        # Tasks that end after this time are measured, and tasks that take as long as this.
        recorded = not isinstance(ring, events.NoRing)
        self.again_at = 0.0 if recorded else inf
        self.step_s = STEP_S if recorded else inf
        self.memory = OwnMemory()
        self.own_bytes = float(self.memory.own_bytes)
        self._read_at = 0.0
        # How long the task that was measured last would have taken on a core of its own.
        self.needed_s = 0.0
        self._sleeps = -1  # of this thread, until the last reading; -1: it has slept between two tasks since
        self._cpu_s = 0.0
        self._children_s = 0.0
        self.settle()

    def settle(self) -> None:
        """What was spent until now belongs to no task: the worker was idle."""
        self._cpu_s = time.process_time()
        self._sleeps = -1
        self._read_at = now = _time()
        if now + GAP_S < self.again_at < inf:
            self.again_at = 0.0  # the wall clock was set back

    def write(
        self,
        kind: int,
        task_id: bytes,
        name: int,
        submit_s: float,
        start_s: float,
        end_s: float,
        flags: int = 0,
        attempt: int = 0,
    ) -> None:
        """Record a task that ended, with a measurement if one is due."""
        wall = end_s - start_s
        if end_s <= self.again_at and wall < self.step_s:
            self.ring.write(
                kind, task_id, name, submit_s, start_s, end_s, flags, attempt, wall, self.own_bytes
            )
            return
        cpu_s = self._spent(start_s, end_s)
        peak = self.memory.peak_since(start_s)
        self.own_bytes = float(self.memory.own_bytes)
        flags |= events.MEASURED
        self.ring.write(kind, task_id, name, submit_s, start_s, end_s, flags, attempt, cpu_s, peak)

    def _spent(self, start_s: float, end_s: float) -> float:
        usage = _getrusage(_SELF)
        self.again_at = end_s + GAP_S
        self.memory.look(end_s, usage[2] * 1024)
        total = usage[0] + usage[1]
        spent, self._cpu_s = total - self._cpu_s, total
        before, self._read_at = max(0.0, start_s - self._read_at), end_s
        wall = end_s - start_s
        if wall > _CHILDREN_S:
            children = _getrusage(_CHILDREN)
            total = children[0] + children[1]
            spent, self._children_s = spent + total - self._children_s, total
        # A task whose thread did not sleep was on a core all the time, or waited for one.
        sleeps = _getrusage(_THREAD)[14]
        self.needed_s = min(spent, wall) if sleeps == self._sleeps else wall
        self._sleeps = sleeps
        if spent <= wall:
            return spent
        # The task used more than its wall time: short tasks since the last sample used one core at most, and
        # its own threads used the remainder.
        spent -= before
        return spent if spent > wall + STEP_S else wall


class ThreadsMeter(Meter):
    """Of an actor whose calls run in threads: each is charged for its own thread.

    Memory is the process's: calls that overlap share a peak.
    """

    def __init__(self, ring: events.Ring | events.NoRing) -> None:
        super().__init__(ring)
        self._mine = threading.local()
        self._looking = threading.Lock()

    def write(
        self,
        kind: int,
        task_id: bytes,
        name: int,
        submit_s: float,
        start_s: float,
        end_s: float,
        flags: int = 0,
        attempt: int = 0,
    ) -> None:
        """Record a call that ended in this thread."""
        wall, mine = end_s - start_s, self._mine
        cpu_s, peak = wall, self.own_bytes
        if end_s > getattr(mine, "again_at", 0.0) or wall >= STEP_S:
            mine.again_at = end_s + GAP_S
            total = _thread_time()
            # A thread of the pool runs nothing but calls, so the processor time since the last sample belongs
            # to this call.
            cpu_s, mine.cpu_s = min(wall, total - getattr(mine, "cpu_s", 0.0)), total
            with self._looking:
                self.memory.look(end_s, _high_water())
                peak = self.memory.peak_since(start_s)
                self.own_bytes = float(self.memory.own_bytes)
            flags |= events.MEASURED
        self.ring.write(kind, task_id, name, submit_s, start_s, end_s, flags, attempt, cpu_s, peak)


class LoopMeter(Meter):
    """Of an asyncio actor: a call is charged for the time that its own steps held the loop.

    Counting steps costs 2 µs for each, much for a call that does next to nothing: methods whose last call took
    less than a millisecond are `quick`, and charged for their wall time.
    """

    def __init__(self, ring: events.Ring | events.NoRing) -> None:
        super().__init__(ring)
        self.quick: set[str] = set()
        self._loop_s = 0.0

    def long_step(self, seconds: float) -> float:
        """The processor time of a step of a millisecond or more: it may have slept or been preempted."""
        total = _thread_time()
        spent, self._loop_s = total - self._loop_s, total
        return min(seconds, spent)

    def write_call(
        self,
        steps: Steps | None,
        method: str,
        task_id: bytes,
        name: int,
        submit_s: float,
        start_s: float,
        end_s: float,
        flags: int,
        attempt: int,
    ) -> None:
        """Record a call, from within its last step."""
        cpu_s = wall = end_s - start_s
        if wall >= STEP_S:
            self.quick.discard(method)
            # A call that was expected to be quick is charged once with everything that the loop did in this
            # time.
            cpu_s = self.long_step(wall) if steps is None else steps.held_s()
        elif steps is not None:
            self.quick.add(method)
        peak = self.own_bytes
        if end_s > self.again_at:
            self.again_at = end_s + STEP_S
            self.memory.look(end_s, _high_water())
            peak = self.memory.peak_since(start_s)
            self.own_bytes = float(self.memory.own_bytes)
            flags |= events.MEASURED
        self.ring.write(events.CALL, task_id, name, submit_s, start_s, end_s, flags, attempt, cpu_s, peak)


class Steps(Coroutine[object, object, None]):
    """Wraps a coroutine, and measures how long its steps held the event loop."""

    __slots__ = ("_began", "_coro", "_held_s", "_long_step")

    def __init__(self, meter: LoopMeter, body: Callable[[Steps], Coroutine[object, object, None]]) -> None:
        self._long_step = meter.long_step
        self._held_s = 0.0
        self._began = 0.0
        self._coro = body(self)

    def send(self, value: object) -> object:
        """One step."""
        began = self._began = _perf()
        try:
            return self._coro.send(value)
        finally:
            seconds = _perf() - began
            self._held_s += seconds if seconds < STEP_S else self._long_step(seconds)

    def held_s(self) -> float:
        """Seconds so far, the step that runs now included."""
        seconds = _perf() - self._began
        return self._held_s + (seconds if seconds < STEP_S else self._long_step(seconds))

    def throw(self, *error: Any) -> object:
        """One step that begins with an error."""
        began = self._began = _perf()
        try:
            return self._coro.throw(*error)
        finally:
            seconds = _perf() - began
            self._held_s += seconds if seconds < STEP_S else self._long_step(seconds)

    def close(self) -> None:
        """As the coroutine's own."""
        self._coro.close()

    def __await__(self) -> Generator[object, None, None]:
        return self._coro.__await__()

    def __getattr__(self, name: str) -> object:
        return getattr(self._coro, name)
