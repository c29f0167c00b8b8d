"""What a running system costs while it does nothing: processes, threads, memory, CPU; read from /proc.

Runs in the runner, which is the subreaper of everything it starts: a daemon that leaves its parent becomes
the runner's own child, so the process tree below the runner is complete. Memory is PSS (shared pages are
divided among those who share them), so that forked workers are not counted several times over.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Footprint:
    processes: int
    threads: int
    pss_mb: float
    cpu_s: float


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent ends."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this kernel has no subreapers (Linux 3.4 or later is needed)")


def parse_stat(text: str) -> tuple[int, str, int, float]:
    """(parent, state, threads, CPU seconds) from the content of /proc/<pid>/stat."""
    # The second field is the name in parentheses and may itself contain blanks and parentheses.
    fields = text[text.rindex(")") + 2 :].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return int(fields[1]), fields[0], int(fields[17]), (int(fields[11]) + int(fields[12])) / ticks


def _stats() -> Iterator[tuple[int, tuple[int, str, int, float]]]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as stat:
                    yield int(entry), parse_stat(stat.read())
            except (FileNotFoundError, ProcessLookupError):
                continue  # It ended while we looked.


def descendants(root: int, parents: Iterable[tuple[int, int]]) -> set[int]:
    """Every pid below `root`, given (pid, parent) pairs."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents:
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    todo = list(children.get(root, []))
    while todo:
        pid = todo.pop()
        found.add(pid)
        todo += children.get(pid, [])
    return found


def living_below(root: int) -> dict[int, tuple[int, float]]:
    """{pid: (threads, CPU seconds)} of every process below `root` that is not a zombie."""
    stats = dict(_stats())
    below = descendants(root, ((pid, stat[0]) for pid, stat in stats.items()))
    return {pid: (stats[pid][2], stats[pid][3]) for pid in below if stats[pid][1] not in "ZX"}


def pss_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup") as rollup:
            for line in rollup:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


def measure(root: int) -> Footprint:
    """The footprint of everything below `root`, `root` itself left out."""
    living = living_below(root)
    return Footprint(
        processes=len(living),
        threads=sum(threads for threads, _ in living.values()),
        pss_mb=sum(pss_bytes(pid) for pid in living) / 1e6,
        cpu_s=sum(cpu for _, cpu in living.values()),
    )


def await_none_below(root: int, limit_s: float, clock: Callable[[], float] = time.monotonic) -> int:
    """Wait up to `limit_s` until nothing lives below `root`; kill what remains; return how many remained."""
    deadline = clock() + limit_s
    while (remaining := living_below(root)) and clock() < deadline:
        _reap()
        time.sleep(0.02)
    for pid in remaining:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    while living_below(root):
        _reap()
        time.sleep(0.01)
    _reap()
    return len(remaining)


def _reap() -> None:
    """Collect adopted orphans that ended. The children that subprocess knows are waited for by then."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
