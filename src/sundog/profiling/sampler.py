"""Samples of what the threads of this process do, merged by remote function.

Owns one thread, `sundog-profile`, that looks at all Python frames `rate_hz` times a second. In "wall" mode a look
counts the time since the last one; in "cpu" mode the processor time that the thread has used since (asked of the
kernel, so time in C code that holds the interpreter lock counts too). The time that the looks themselves take is
measured. Frames of sundog below the user's are left out, but for the verb that was called. Any process; started and
stopped by any thread.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import selectors
import sys
import threading
import time
from types import CodeType, FrameType

from sundog.debugging.triggers import is_library
from sundog.owner import moments
from sundog.profiling.rows import ProfileFrame, Samples

RATE_HZ = 100.0
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_WORKER = (
    f"{_PACKAGE}worker{os.sep}",
    f"{_PACKAGE}ray_engine{os.sep}",
)  # whose frames call the user's function
_RAY = f"{os.sep}site-packages{os.sep}ray{os.sep}"
_DEPTH_MAX = 256
_RUNS = (f"{_PACKAGE}worker{os.sep}profiles.py", "call", "_awaited")
_CLI = f"{_PACKAGE}cli{os.sep}"
_LINES = importlib.util.find_spec("line_profiler")
# What stands between the worker and the function that it runs under a profiler.
_RUNNERS = (
    f"{_PACKAGE}profiling{os.sep}",
    os.path.dirname(_LINES.origin or "?") + os.sep if _LINES is not None else "?",
)
_WAITS = ("<frozen ", threading.__file__, selectors.__file__, _PACKAGE)

# The frames of a stack, outermost first, and the line that its innermost frame is at.
_Key = tuple[str, tuple[CodeType, ...], int]


class StackSampler:
    """Looks until it is stopped."""

    def __init__(self, kind: str, rate_hz: float = RATE_HZ, role: str = "worker") -> None:
        self.kind = kind
        self._step_s = 1.0 / rate_hz
        self._role = role
        self._found: dict[_Key, list[float]] = {}
        self._cpu_s: dict[int, float] = {}
        self._threads: dict[int, str] = {}
        self._looks = 0
        self._look_s = 0.0
        self._begun_s = self._last_s = time.perf_counter()
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self.only: set[int] | None = None  # threads that are looked at; None: all
        self._thread = threading.Thread(target=self._run, daemon=True, name="sundog-profile")

    def start(self) -> None:
        """Begin. Raises: RuntimeError: the system allows no more threads."""
        self._thread.start()

    def stop(self) -> None:
        """End; what was found stays."""
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        self._cpu_s = {ident: _cpu_of(ident) for ident in sys._current_frames()}
        self._last_s = time.perf_counter()
        while not self._stopped.wait(self._step_s):
            with self._lock:
                self._look()

    def _look(self) -> None:
        now = time.perf_counter()
        spent_s, self._last_s = now - self._last_s, now
        began = time.thread_time()
        me = threading.get_ident()
        for ident, frame in sys._current_frames().items():
            if ident == me:
                continue
            if self.kind == "cpu":
                used = _cpu_of(ident)
                weight = used - self._cpu_s.get(ident, used)
                self._cpu_s[ident] = used
                if weight <= 0.0:
                    continue
            else:
                weight = spent_s
            if self.only is not None and ident not in self.only:
                continue
            key = self._key(ident, frame)
            if key is not None:
                entry = self._found.get(key)
                if entry is None:
                    self._found[key] = [weight, 1]
                else:
                    entry[0] += weight
                    entry[1] += 1
        self._looks += 1
        self._look_s += time.thread_time() - began

    def _key(self, ident: int, frame: FrameType | None) -> _Key | None:
        """What a thread does, under the name of its remote function; None if it is one of ours, or idle."""
        assert frame is not None
        line = frame.f_lineno
        codes: list[CodeType] = []
        at_worker = -1
        while frame is not None and len(codes) < _DEPTH_MAX:
            if at_worker < 0 and frame.f_code.co_filename.startswith(_WORKER):
                at_worker = len(codes)
                break
            codes.append(frame.f_code)
            frame = frame.f_back
        codes.reverse()
        if frame is not None and at_worker >= 0:
            while codes and codes[0].co_filename.startswith(_RUNNERS):
                del codes[0]
            # A wait of the worker itself, or an import for it; a library may be working for it as well.
            is_users = codes and not codes[0].co_filename.startswith(_WAITS)
            if is_users and is_library(codes[0].co_filename):  # <string> too: what makes a named tuple
                is_users = _calls_users(frame.f_code)
            return _below_verb("", codes, line) if is_users else None
        name = self._name(ident)
        if name.startswith("sundog-"):
            return None
        is_main = ident == threading.main_thread().ident
        if (self._role == "worker" and is_main) or (not is_main and _is_of_runtime(codes)):
            return None  # the thread is starting or ending, or belongs to another sampler or the cluster's runtime
        for number in range(len(codes) - 1, -1, -1):
            if codes[number].co_filename.startswith(_CLI):
                del codes[: number + 1]  # the program was started by a command of sundog
                break
        if not codes or (not is_main and all(code.co_filename.startswith(_PACKAGE) for code in codes)):
            return None  # a thread of sundog's own, which has no name
        return _below_verb("driver" if self._role == "driver" else f"thread {name}", codes, line)

    def _name(self, ident: int) -> str:
        name = self._threads.get(ident)
        if name is None:
            self._threads.update({each.ident or 0: each.name for each in threading.enumerate()})
            name = self._threads.get(
                ident, "unknown"
            )  # not kept: a thread that begins gets its name in a moment
        return name

    def result(self) -> Samples:
        """What was found so far."""
        with self._lock:
            found = {key: tuple(entry) for key, entry in self._found.items()}
            looks, look_s = self._looks, self._look_s
        stacks: dict[tuple[str, tuple[ProfileFrame, ...]], tuple[float, int]] = {}
        for (label, codes, line), (weight, count) in found.items():
            frames = tuple(_frame(code) for code in codes)
            frames = (*frames[:-1], frames[-1]._replace(line=line))
            before = stacks.get((label or _own_name(frames[0].name), frames), (0.0, 0))
            stacks[label or _own_name(frames[0].name), frames] = (before[0] + weight, before[1] + int(count))
        return Samples(self.kind, looks, look_s, time.perf_counter() - self._begun_s, stacks)


def _is_of_runtime(codes: list[CodeType]) -> bool:
    """Whether a thread was begun by Ray's own code or by a sampler, outermost frame first."""
    begun = next((each for each in codes if each.co_filename != threading.__file__), None)
    return begun is not None and (_RAY in begun.co_filename or begun.co_filename == __file__)


def _calls_users(code: CodeType) -> bool:
    """Whether a function of a worker calls the user's, which may be one of a library."""
    is_run = code.co_filename.endswith(_RUNS[0]) and code.co_name in _RUNS[1:]
    return is_run or code.co_filename.startswith(_WORKER[1]) or moments.calls_users(code)


def _below_verb(label: str, codes: list[CodeType], line: int) -> _Key | None:
    """Leave out what sundog does below the verb that the user called."""
    for number, code in enumerate(codes):
        if code.co_filename.startswith(_PACKAGE) and number + 1 < len(codes):
            return label, tuple(codes[: number + 1]), code.co_firstlineno
    return label, tuple(codes), line


def _own_name(name: str) -> str:
    """A function's name without the scopes around it.

    >>> _own_name("main.<locals>.f"), _own_name("Model.step")
    ('f', 'Model.step')
    """
    return name.rpartition("<locals>.")[2]


def _frame(code: CodeType) -> ProfileFrame:
    return ProfileFrame(code.co_qualname, code.co_filename, code.co_firstlineno)


def _cpu_of(ident: int) -> float:
    """Processor seconds of a thread that has Python frames: it is alive for as long as we hold the interpreter."""
    with contextlib.suppress(OSError):
        return time.clock_gettime(time.pthread_getcpuclockid(ident))
    return 0.0
