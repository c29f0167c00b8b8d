"""The control groups of workers that are not in the node's own: made by user code, or by a cap (`caps.py`).

The kernel counts a kill for memory in the group of the process that it kills (v1), or there and in the groups around it
(v2). A task that bounds itself, by a group of its own, is therefore not seen in the node's counter. After the end of a
process the kernel does not tell its group any more, so the node looks before: each second, and when it made the group.
Owns which worker is in which group; the counting is `OomCounters`'. Refuses to look at more than some workers at a
time. Runs on the node's only thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from sundog.system.oom_kills import VMSTAT, own_counters

if TYPE_CHECKING:
    from typing import Protocol

    class Counters(Protocol):
        """`OomCounters`, as far as it is needed here."""

        def watch(self, path: str) -> None: ...

        def unwatch(self, path: str) -> None: ...

        def is_watched(self, path: str) -> bool: ...


# Arbitrary: one reading takes about 20 µs.
_LOOKS_MAX = 256
# In /proc/<pid>/stat, behind the name: the kernel's flags of the process, and PF_EXITING among them.
_FLAGS, _ENDING = 6, 0x4


class WorkerGroups:
    """Which counter tells of kills in a worker's own group.

    Args:
        counters: what watches the counters.
        proc: the kernel's folder of processes.
    """

    def __init__(self, counters: Counters, proc: str = "/proc") -> None:
        self._counters = counters
        self._proc = proc
        self._at_home = self._membership("self")
        self._texts: dict[int, str] = {}
        self._own: dict[int, str] = {}
        self._watched: set[str] = set()
        self._next = 0

    def look(self, pids: Iterable[int]) -> None:
        """Look where these workers are now, or some of them if there are many; forget all others."""
        alive = list(pids)
        for pid in set(self._texts).difference(alive):
            self._leave(pid)
        first = self._next if self._next < len(alive) else 0
        self._next = first + _LOOKS_MAX
        for pid in alive[first : first + _LOOKS_MAX]:
            self.look_at(pid)

    def look_at(self, pid: int) -> None:
        """Look where one worker is now."""
        text = self._membership(str(pid))
        if not text or self._texts.get(pid, self._at_home) == text:
            return
        if self._is_ending(pid):
            return  # the kernel (v1) says of it that it is in the root group
        self._leave(pid)
        if text == self._at_home:
            return
        self._texts[pid] = text
        counter = own_counters(f"{self._proc}/{pid}/cgroup")[0]
        if counter == VMSTAT:
            return
        self._own[pid] = counter
        if not self._counters.is_watched(counter):
            self._counters.watch(counter)
            self._watched.add(counter)

    def counter_of(self, pid: int) -> str:
        """The counter of a worker's own group; "" if it was in the node's."""
        return self._own.get(pid, "")

    def counters(self) -> Collection[str]:
        """The counters of all such groups that no other part of the node watches."""
        return self._watched

    def _leave(self, pid: int) -> None:
        self._texts.pop(pid, None)
        counter = self._own.pop(pid, None)
        if counter in self._watched and counter not in self._own.values():
            self._watched.discard(counter)
            self._counters.unwatch(counter)

    def _is_ending(self, pid: int) -> bool:
        """Whether a process has begun to end. Read after its group: if it has not by now, it had not then."""
        try:
            with open(f"{self._proc}/{pid}/stat", encoding="utf-8", errors="replace") as file:
                return bool(int(file.read().rpartition(")")[2].split()[_FLAGS]) & _ENDING)
        except (OSError, ValueError, IndexError):
            return True  # it is gone

    def _membership(self, pid: str) -> str:
        try:
            with open(f"{self._proc}/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""
