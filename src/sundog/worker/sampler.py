"""What long tasks do: a look every tenth of a second at the line of user code that runs, and at its memory.

Owns one daemon thread per worker, started when the first task arrives. It looks at the longest-running task
or call, notes it in the ring's header (readable after SIGKILL: the last line of a process that died), and
now and then as an event (0.1, 0.2, 0.4 … s after the task began, and whenever its memory grew by a tenth).
A task shorter than the step costs nothing; a worker that has been idle for a second has a thread that sleeps
until the main thread wakes it, on its way out of its own sleep. Each look also puts the process's title right.

A look needs the interpreter lock: while C code holds it, the last look is the one before that call.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING

from sundog import events
from sundog.owner import context
from sundog.worker.meter import own_and_shared

if TYPE_CHECKING:
    from sundog.worker.executor import Executor

_STEP_S = 0.1
_STEP_MAX_S = 1.0
_STEPS_PER_AGE = 100  # a task that has run for an hour is sampled once a second
_IDLE_LOOKS = 10
_EVENT_EVERY_MAX_S = 60.0
_GROWN = 1.1
_NOTABLE_BYTES = 1 << 20
_FAIR = 0.25  # a thread computes if it has used this share of the mean of all threads
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")

# A running call: its id, when it began, and its frames, innermost first.
Call = tuple[bytes, float, Iterator[FrameType]]


class LineSampler:
    """Looks at what the worker runs. `wake` is the main thread's; everything else is its own thread's."""

    def __init__(self, executor: Executor, oldest_call: Callable[[], Call | None]) -> None:
        self._ring = executor.ring
        self._executor = executor
        self._oldest_call = oldest_call
        self.dormant = isinstance(self._ring, events.Ring)  # without recording the sampler is never woken
        self._gate = threading.Lock()
        self._gate.acquire()
        self._thread: threading.Thread | None = None
        self._task = b""
        self._seen, self._seen_at = b"", 0.0
        self._event_age_s = 0.0
        self._event_bytes = 0
        self._threads = Threads()

    def wake(self) -> None:
        """Something came for the worker: look again."""
        self.dormant = False
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True, name="sundog-sampler")
            try:
                self._thread.start()
            except RuntimeError:  # the system allows no more threads: no sampling
                self._thread = None
        else:
            self._gate.release()

    def _run(self) -> None:
        idle = 0
        step = _STEP_S
        while True:
            time.sleep(step)
            age = self._look(time.time())
            if age is not None:
                idle = 0
                step = min(_STEP_MAX_S, max(_STEP_S, age / _STEPS_PER_AGE))
                continue
            step = _STEP_S
            idle += 1
            if idle >= _IDLE_LOOKS:
                # The main thread spins for microseconds after a task, then sleeps. After a second without
                # tasks it must pass `wake` before it can begin another.
                self.dormant = True
                self._gate.acquire()
                idle = 0

    def _look(self, now: float) -> float | None:
        """Note what runs; returns its age, None when nothing does."""
        try:
            call = self._oldest_call()
        except (RuntimeError, KeyError):
            return 0.0  # the value changed during the check: something runs
        title = self._executor.title
        if call is None:
            if title.name:
                title.seen("")
            return None
        task_id, start, frames = call
        name = self._name_of(task_id)
        if name and name != title.name:
            # the task began right after another one, or while the title said that nothing ran
            title.seen(name)
        steady = time.monotonic()
        if task_id != self._seen:
            self._seen, self._seen_at = task_id, steady
        # the wall clock may have been set back since the task began
        age = max(now - start, steady - self._seen_at)
        if age >= _STEP_S:
            memory = self._executor.meter.memory
            own_bytes = memory.own_bytes
            with contextlib.suppress(OSError):  # no file descriptor is free
                own_bytes, _ = own_and_shared()
            memory.note(now, own_bytes)
            line = user_line(frames)
            self._ring.sample(task_id, now, own_bytes, line)
            self._keep(task_id, now, age, own_bytes, line)
        return age

    def _name_of(self, task_id: bytes) -> str:
        """The name of the task that runs, if the worker runs one at a time."""
        for noted in (context.main_task, self._executor.named):
            if noted is not None and noted[0] == task_id:
                return noted[1]
        return ""

    def _keep(self, task_id: bytes, now: float, age: float, own_bytes: int, line: str) -> None:
        """Write an event too, if one is due or memory has grown."""
        if task_id != self._task:
            self._task, self._event_age_s, self._event_bytes = task_id, 0.0, 0
        if age < self._event_age_s and own_bytes < self._event_bytes * _GROWN + _NOTABLE_BYTES:
            return
        self._event_age_s = age + min(age, _EVENT_EVERY_MAX_S)
        self._event_bytes = own_bytes
        name = self._ring.name(line)
        used_s = time.process_time()
        threads = self._threads.busy(used_s)
        self._ring.write(events.SAMPLE, task_id, name, now, now, now, 0, threads, used_s, own_bytes)


class Threads:
    """The threads that libraries have started in this process and that Python knows nothing of."""

    def __init__(self, folder: str = "/proc/self/task") -> None:
        self._folder = folder
        self._spent_s: dict[str, float] = {}
        self._used_s = 0.0

    def busy(self, used_s: float) -> int:
        """How many of them have computed since the last look; 255 stands for more.

        A thread that is left over from an earlier call and sleeps is none of them.

        Args:
            used_s: the processor time of the whole process.
        """
        # The main thread by the pid: after a fork, Python still has the thread id of the zygote.
        ours = {str(os.getpid()), *(str(thread.native_id) for thread in threading.enumerate())}
        try:
            names = os.listdir(self._folder)
        except OSError:
            return 0
        share = _FAIR * (used_s - self._used_s) / max(1, len(names))
        spent_s = {name: self._spent_by(name) for name in names if name not in ours}
        found = sum(spent - self._spent_s.get(name, 0.0) > share for name, spent in spent_s.items())
        self._spent_s, self._used_s = spent_s, used_s
        return min(255, found)

    def _spent_by(self, name: str) -> float:
        try:
            fd = os.open(f"{self._folder}/{name}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # the thread has ended
            return 0.0
        try:
            return int(os.read(fd, 100).split()[0]) / 1e9
        except (OSError, IndexError, ValueError):
            return 0.0
        finally:
            os.close(fd)


def stack_of(frame: FrameType | None) -> Iterator[FrameType]:
    """A thread's frames, innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def thread_stack(ident: int) -> Iterator[FrameType]:
    """The frames of another thread, innermost first; none if the thread has ended."""
    return stack_of(sys._current_frames().get(ident))


def await_stack(awaited: object) -> Iterator[FrameType]:
    """The frames of a suspended coroutine and of the coroutines that it awaits, innermost first."""
    from sundog.owner.stacks import await_chain  # most workers never need it

    return iter(await_chain(awaited)[0])


def user_line(frames: Iterator[FrameType]) -> str:
    """ "file:line function" of the innermost frame of user code; of a library if there is none."""
    fallback: FrameType | None = None
    for frame in frames:
        path = frame.f_code.co_filename
        if path.startswith(_OURS):
            if fallback is not None and frame.f_code.co_name in _RUNNERS:
                break  # frames further out belong to the worker
            continue
        if not _is_library(path):
            return _shown(frame)
        fallback = fallback or frame
    return "" if fallback is None else _shown(fallback)


# The functions of the worker that call user code: see executor.py, async_actor.py and actor_life.py.
_RUNNERS = frozenset({"run", "_run_any", "_run_many", "_one", "_construct"})


def _is_library(path: str) -> bool:
    return path.startswith((_LIBRARY, "<frozen ")) or any(part in path for part in _PACKAGES)


def _shown(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}"
