"""memray in this process: where memory was asked for, and what of it was not freed.

Owns the one tracker that a process can have at a time, and the reading of its file into rows. Allocations of Python
objects are traced too, which costs time and is what leaks are made of. An allocation is told by the innermost line
that is the user's own. memray is an extra (`pip install 'sundog[profile]'`). Any process; started and stopped by
any thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from sundog.profiling.rows import Allocation, MemoryProfile, ProfileFrame, Stack

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from memray import AllocationRecord

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_WORKER = f"{_PACKAGE}worker{os.sep}"
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_ROWS_MAX = 200
_only_one = threading.Lock()


class NoMemray(Exception):
    """The tool cannot be used here; the text says why."""


class Tracker:
    """memray at work, from `start` to `stop`."""

    def __init__(self, file: str, *, native: bool = False) -> None:
        self.file = file
        self._native = native
        self._tracker: AbstractContextManager[object] | None = None

    def start(self) -> bool:
        """Begin; False if another one is at work in this process.

        Raises:
            NotThere: memray is not installed, or refuses.
        """
        try:
            import memray
        except ImportError:
            raise NoMemray(
                "memray is not installed in the worker's Python. Install it with: pip install 'sundog[profile]'"
            ) from None
        if not _only_one.acquire(blocking=False):
            return False
        try:
            if os.path.exists(self.file):
                os.unlink(self.file)
            self._tracker = memray.Tracker(
                self.file, trace_python_allocators=True, native_traces=self._native
            )
            _elsewhere(self._tracker.__enter__)
        except BaseException as error:
            _only_one.release()
            if isinstance(error, Exception):
                raise NoMemray(f"memray cannot start: {type(error).__name__}: {error}") from error
            raise
        return True

    def stop(self, label: str = "") -> MemoryProfile:
        """End, and read what was found; `label` names the function if the whole file is one call's."""
        assert self._tracker is not None, "start() comes first"
        try:
            _elsewhere(self._tracker.__exit__, None, None, None)
        finally:
            _only_one.release()
        return read(self.file, label)


def _elsewhere(call: Callable[..., object], *args: object) -> None:
    """Call something in a thread of its own: memray then learns the whole stacks of all others, ours included."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call(*args)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True, name="sundog-profile-switch")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def read(file: str, label: str = "") -> MemoryProfile:
    """The rows of a file of memray's."""
    from memray import FileReader

    with FileReader(file) as reader:
        peak = int(reader.metadata.peak_memory)
        at_peak = _rows(reader.get_high_watermark_allocation_records(merge_threads=True), label)
        kept = _rows(reader.get_leaked_allocation_records(merge_threads=True), label)
    return MemoryProfile(peak, at_peak, kept, {label: (1, peak)} if label else {}, os.path.basename(file))


def _rows(records: Iterable[AllocationRecord], label: str) -> list[Allocation]:
    total: dict[tuple[str, Stack], tuple[int, int]] = {}
    for record in records:
        found = users_frames([ProfileFrame(*each) for each in record.stack_trace()])
        if not found:
            continue
        key = (label or found[0].name, found)
        size, count = total.get(key, (0, 0))
        total[key] = (size + record.size, count + record.n_allocations)
    rows = [Allocation(*key, size, count) for key, (size, count) in total.items()]
    return sorted(rows, key=lambda row: row.size_bytes, reverse=True)[:_ROWS_MAX]


def users_frames(innermost_first: list[ProfileFrame]) -> Stack:
    """A stack from the remote function to the innermost line of the user's, outermost first; () if there is none."""
    frames: list[ProfileFrame] = []
    for frame in innermost_first:
        if frame.path.startswith(_WORKER):
            break
        frames.append(frame)
    frames.reverse()
    while frames and is_library(frames[-1].path):
        frames.pop()
    return tuple(frames)


def is_library(path: str) -> bool:
    """Whether a file is not the user's own."""
    if path.startswith(("<", _PACKAGE, _LIBRARY)):
        return True
    return f"{os.sep}site-packages{os.sep}" in path


def add(first: MemoryProfile | None, second: MemoryProfile) -> MemoryProfile:
    """What two calls found, together; the file of the larger peak."""
    if first is None:
        return second
    calls = dict(first.calls)
    for name, (count, peak) in second.calls.items():
        before = calls.get(name, (0, 0))
        calls[name] = (before[0] + count, max(before[1], peak))
    larger = max(first, second, key=lambda each: each.peak_bytes)
    return MemoryProfile(larger.peak_bytes, larger.at_peak, _sum(first.kept, second.kept), calls, larger.file)


def _sum(first: list[Allocation], second: list[Allocation]) -> list[Allocation]:
    total = {(row.label, row.stack): row for row in first}
    for row in second:
        before = total.get((row.label, row.stack))
        total[row.label, row.stack] = (
            row
            if before is None
            else row._replace(
                size_bytes=row.size_bytes + before.size_bytes,
                allocations=row.allocations + before.allocations,
            )
        )
    return sorted(total.values(), key=lambda row: row.size_bytes, reverse=True)[:_ROWS_MAX]
