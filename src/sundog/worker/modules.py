"""Notices that modules which this worker has imported were edited on disk.

Owns the list of the user's source files that this process runs from, with their times. A worker looks when it
gets a lease, not for each task; where that takes long, no more often than costs one percent of its time. What
to do about a change is decided by its callers: a plain worker retires, a worker that is about to become an
actor forgets the modules and imports them anew. Main thread only.

A module's time cannot be asked at its import; so a file that is newer than the last look, when it is first
seen, counts as changed. At worst that recycles a worker once for nothing: the next one starts after the edit.
"""

from __future__ import annotations

import os
import sys
import time

_COST_FACTOR = 100
_CHEAP_S = 5e-3  # enough for some thousand files
_FILE_CLOCK_NS = 10_000_000  # time stamps of files come from a clock that ticks every few milliseconds
_LIBRARIES = (
    os.path.dirname(os.path.abspath(os.__file__)) + os.sep,
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
)


class ModuleWatch:
    """The user's modules in this process."""

    def __init__(self) -> None:
        self.begin()
        self._next_s = 0.0
        self._seen: set[str] = set(sys.modules)
        self._last = _newest()
        self._files: dict[str, int] = {}  # path -> time of the last change, as first seen
        self._names: dict[str, str] = {}  # module -> path

    def begin(self) -> None:
        """No module of the user's has been imported here yet: one that is edited before its import has not changed."""
        self._looked_ns = time.time_ns()

    def changed(self) -> list[str]:
        """Paths of the user's modules that changed since they were imported here."""
        if self._next_s and time.perf_counter() < self._next_s:
            return []
        started = time.thread_time()
        looked, self._looked_ns = self._looked_ns, time.time_ns()
        found = [path for path, known in self._files.items() if _time_of(path) not in (known, 0)]
        last, self._last = self._last, _newest()
        for name in sys.modules.keys() - self._seen if last != self._last else ():
            self._seen.add(name)
            path = getattr(sys.modules[name], "__file__", None)
            if not isinstance(path, str) or not path.endswith(".py") or _is_installed(path):
                continue
            changed_ns = _time_of(path)
            self._names[name] = path
            self._files[path] = changed_ns
            # A time stamp in the future means that the clock was set back after the edit: the file has not
            # changed since.
            if looked - _FILE_CLOCK_NS < changed_ns <= self._looked_ns + _FILE_CLOCK_NS:
                found.append(path)
        cost = time.thread_time() - started
        self._next_s = time.perf_counter() + _COST_FACTOR * cost if cost > _CHEAP_S else 0.0
        return found

    def forget(self) -> None:
        """Remove all modules of the user from this process: the next import reads the files again.

        All of them, because an unchanged module may hold names that it imported from a changed one.
        """
        for name in self._names:
            sys.modules.pop(name, None)
            self._seen.discard(name)
        self._names.clear()
        self._files.clear()


def _newest() -> tuple[int, str]:
    """How many modules there are, and the last: the same again if none was imported, without a look at each."""
    return len(sys.modules), next(reversed(sys.modules))


def _time_of(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0  # removed, or being replaced: there is no newer file to run


def _is_installed(path: str) -> bool:
    """Whether code belongs to Python, to an installed package or to sundog, and so does not change during the
    session.
    """
    return path.startswith(_LIBRARIES) or "/site-packages/" in path or "/dist-packages/" in path
