"""Profiles of single tasks and calls: `@remote(profile=…)`.

Owns the profilers of this worker, one of each kind, and their files in `<session>/profiles/by-option-<kind>`.
Samples are taken while a profiled call runs and of its thread alone; line_profiler counts the lines of the remote
function; memray measures call by call (of each function the first twenty, then one a second, one at a time). What
was found is written when a call ends; after the first hundred, within a tenth of a second. Runs in the thread of
the task.
"""

from __future__ import annotations

import inspect
import os
import threading
import time
from collections.abc import Callable
from types import CoroutineType, FunctionType
from typing import TYPE_CHECKING, Any

from sundog import notices
from sundog.profiling import chosen, memory
from sundog.profiling.memory import NoMemray
from sundog.profiling.rows import LineTimes, MemoryProfile, Part, Samples, begin, write_part
from sundog.profiling.sampler import StackSampler

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

# the first so many calls are written at once: a program with few calls may end with the last one
_ALWAYS = 100
_SPARED = 10
_LATER_S = 0.1
_FIRST = 20
_THEN_S = 1.0


class Profiler:
    """One kind of profile in one worker."""

    def __init__(self, kind: str, session_path: str) -> None:
        self.kind = kind
        self._session = session_path
        self._folder = f"{session_path}/profiles/by-option-{kind}"
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._write_at = 0.0
        self._calls = 0
        self._timer: threading.Timer | None = None
        self._told = False

    def call(
        self, function: Callable[..., object], name: str, args: Iterable[object], kwargs: dict[str, object]
    ) -> object:
        """Run a function under the profiler; a coroutine is awaited under it."""
        entered: list[object] = []
        try:
            self._enter(entered, name)
            result = self.wrapped(function)(*args, **kwargs)
        except BaseException:
            if entered:
                self._leave(entered[0], name)
            raise
        if type(result) is CoroutineType:
            return self._awaited(result, entered[0], name)
        self._leave(entered[0], name)
        return result

    def _enter(self, entered: list[object], name: str) -> None:
        """Begin a call. A cancel that comes meanwhile interrupts the caller afterwards, which then knows the token."""
        entered.append(self.enter(name))

    async def _awaited(self, coroutine: Awaitable[object], token: object, name: str) -> object:
        try:
            return await coroutine
        finally:
            self._leave(token, name)

    def _leave(self, token: object, name: str) -> None:
        try:
            self.leave(token, name)
            self._calls += 1
            if self._calls <= _ALWAYS or time.perf_counter() >= self._write_at:
                self._write()
            elif self._timer is None:
                self._timer = threading.Timer(_LATER_S, self._write)
                self._timer.daemon, self._timer.name = True, "sundog-profile-write"
                self._timer.start()
        except Exception as error:
            self.tell(error)

    def _write(self) -> None:
        """Write all results, and not again before ten times the time of this writing: calls may be very
        short.
        """
        self._timer = None
        with self._writing:
            began = time.perf_counter()
            if not os.path.exists(f"{self._folder}/profile.json"):
                begin(self._folder, self.kind, f'functions with profile="{self.kind}"')
            write_part(self._folder, self.part())
            now = time.perf_counter()
            self._write_at = now + _SPARED * (now - began)

    def tell(self, error: Exception) -> None:
        """Say once why there is no profile."""
        if not self._told:
            self._told = True
            notices.warn(f'No profile="{self.kind}" here: {type(error).__name__}: {error}')

    # ------------------------------------------------------------------ what each kind does
    def enter(self, name: str) -> object:
        """A call begins."""

    def wrapped(self, function: Callable[..., object]) -> Callable[..., object]:
        """What is called instead of the function."""
        return function

    def choose(self, function: object, names: tuple[str, ...], *, only: bool) -> None:
        """Profile functions of these names too, where this one calls them; `only`: profile nothing else."""

    def leave(self, token: object, name: str) -> None:
        """A call has ended."""

    def part(self) -> Part:
        """All results so far."""
        return Part(os.getpid(), "worker", self._session)


class _Sampled(Profiler):
    def __init__(self, kind: str, session_path: str) -> None:
        super().__init__(kind, session_path)
        self._sampler: StackSampler | None = None
        self._threads: list[int] = []
        self._before = Samples(kind, 0, 0.0, 0.0, {})

    def enter(self, name: str) -> None:
        with self._lock:
            self._threads.append(threading.get_ident())
            if self._sampler is None:
                self._sampler = StackSampler(self.kind)
                self._sampler.only = set()
                self._sampler.start()
            self._sampler.only = set(self._threads)

    def leave(self, token: object, name: str) -> None:
        with self._lock:
            self._threads.remove(threading.get_ident())
            sampler = self._sampler
            assert sampler is not None
            sampler.only = set(self._threads)
            if not self._threads:
                self._sampler = None
                sampler.stop()
                self._before = _sum(self._before, sampler.result())

    def part(self) -> Part:
        with self._lock:
            now = self._before if self._sampler is None else _sum(self._before, self._sampler.result())
        return super().part()._replace(samples=now)


def _sum(first: Samples, second: Samples) -> Samples:
    stacks = dict(first.stacks)
    for key, (seconds, count) in second.stacks.items():
        before = stacks.get(key, (0.0, 0))
        stacks[key] = (before[0] + seconds, before[1] + count)
    return Samples(
        second.kind,
        first.looks + second.looks,
        first.look_s + second.look_s,
        first.elapsed_s + second.elapsed_s,
        stacks,
    )


class _ByLine(Profiler):
    def __init__(self, kind: str, session_path: str) -> None:
        super().__init__(kind, session_path)
        self._wrapped: dict[object, Callable[..., object]] = {}
        self._profiler: Any = None
        self._chosen: set[object] = set()  # functions that are profiled wherever they are called
        self._around: set[object] = set()  # remote functions that run because they call a profiled one

    def choose(self, function: object, names: tuple[str, ...], *, only: bool) -> None:
        own = getattr(function, "__func__", function)
        with self._lock:
            if own in self._around or own in self._wrapped or not self._begin():
                return
            found = chosen.find(own, names, getattr(function, "__self__", None))
            for each in found:
                if each is not own and each not in self._chosen:
                    self._chosen.add(each)
                    self._profiler.add_function(each)
            if only and own not in found:
                self._around.add(own)

    def call(
        self, function: Callable[..., object], name: str, args: Iterable[object], kwargs: dict[str, object]
    ) -> object:
        """Run a function; of a decorated one the lines of the user's function count, not those of the wrapper."""
        self._unwrap(getattr(function, "__func__", function))
        return super().call(function, name, args, kwargs)

    def _unwrap(self, own: Callable[..., object]) -> None:
        inner = inspect.unwrap(own)
        if inner is own or not isinstance(inner, FunctionType):
            return
        with self._lock:
            if own in self._around or not self._begin():
                return
            if inner not in self._chosen:
                self._chosen.add(inner)
                self._profiler.add_function(inner)
            self._around.add(own)

    def _begin(self) -> bool:
        """Have a profiler; whether there is one."""
        if self._profiler is None:
            try:
                from line_profiler import LineProfiler
            except ImportError:
                self.tell(NoMemray("line_profiler is not installed here: pip install 'sundog[profile]'"))
                return False
            self._profiler = LineProfiler()
        return True

    def enter(self, name: str) -> object:
        if self._chosen:
            self._profiler.enable_by_count()
        return bool(self._chosen)

    def leave(self, token: object, name: str) -> None:
        if token:
            self._profiler.disable_by_count()

    def wrapped(self, function: Callable[..., object]) -> Callable[..., object]:
        own = getattr(function, "__func__", function)
        if own in self._around:
            return function
        found = self._wrapped.get(own)
        if found is None:
            if not self._begin():
                return function
            found = self._wrapped[own] = self._profiler(own)
        receiver = getattr(function, "__self__", None)
        return found if receiver is None else found.__get__(receiver)

    def part(self) -> Part:
        lines = []
        if self._profiler is not None:
            stats = self._profiler.get_stats()
            for (path, first, name), rows in stats.timings.items():
                found = {line: (hits, spent * stats.unit) for line, hits, spent in rows}
                lines.append(LineTimes(path, first, name.rpartition("<locals>.")[2], found))
        return super().part()._replace(lines=lines)


class _ByMemory(Profiler):
    def __init__(self, kind: str, session_path: str) -> None:
        super().__init__(kind, session_path)
        self._found: MemoryProfile | None = None
        self._counts: dict[str, int] = {}
        self._last: dict[str, float] = {}

    def enter(self, name: str) -> object:
        count = self._counts[name] = self._counts.get(name, 0) + 1
        now = time.monotonic()
        if count > _FIRST and now - self._last.get(name, 0.0) < _THEN_S:
            return None
        self._last[name] = now
        try:
            if not os.path.exists(f"{self._folder}/profile.json"):
                begin(self._folder, self.kind, f'functions with profile="{self.kind}"')
            file = "".join(each if each.isalnum() or each in "._-" else "_" for each in name)
            tracker = memory.Tracker(f"{self._folder}/{os.getpid()}-{file}-{count}.bin")
            return tracker if tracker.start() else None
        except Exception as error:
            self.tell(error)
            return None

    def leave(self, token: Any, name: str) -> None:
        if token is None:
            return
        found = token.stop(name)
        with self._lock:
            before = self._found
            self._found = memory.add(before, found)
            if before is not None:  # remove the files of smaller peaks: one file per process is enough
                smaller = before.file if self._found.file == found.file else found.file
                if smaller:
                    os.unlink(f"{self._folder}/{smaller}")

    def part(self) -> Part:
        return super().part()._replace(memory=self._found)


_KINDS: dict[str, type[Profiler]] = {"cpu": _Sampled, "wall": _Sampled, "line": _ByLine, "memory": _ByMemory}


def make_profiler(kind: str, session_path: str) -> Profiler:
    """The profiler of a kind."""
    return _KINDS[kind](kind, session_path)
