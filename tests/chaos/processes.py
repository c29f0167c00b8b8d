"""The process tree below the driver of a chaos session, as the kernel tells it.

Owns no process: it finds the node, its zygote and what stands below any of them. Runs on the killers' thread;
`let_go_on` in the harness, when a driver has ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from tests.integration import drivers


def parent(pid: int) -> int:
    """The parent of a process; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def state(path: str) -> str:
    """The letter that a `stat` file below /proc has for a process or a thread; "" if it is gone."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def let_go_on(folder: str) -> list[int]:
    """Continue what stands still of a session whose driver was killed while it had stopped it; returns the pids."""
    found: list[int] = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        if state(f"/proc/{pid}/stat") != "T":
            continue
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(pid)  # so that a pid in use again is never hit
            try:
                if drivers.mentions(pid, folder):
                    signal.pidfd_send_signal(descriptor, signal.SIGCONT)
                    found.append(pid)
            finally:
                os.close(descriptor)
    return found


def born(pid: int) -> float:
    """When a process was started, in seconds since boot."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")


def stands_below(pid: int, root: int) -> bool:
    """Whether a process descends from another."""
    while pid > 1:
        pid = parent(pid)
        if pid == root:
            return True
    return False


def children(pid: int) -> list[int]:
    """The children of a process."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found.extend(int(each) for each in file.read().split())
    return found


def command(pid: int) -> bytes:
    """The command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def node_pid() -> int:
    """The node of this driver's session: its child of that kind."""
    marks = (b"sundog.node", b"sundog::node")  # as it was started, and by its title
    return next((pid for pid in children(os.getpid()) if any(mark in command(pid) for mark in marks)), 0)


def zygote_pid(since: float) -> int:
    """The zygote of this driver's session, started after a moment (of the clock that counts from boot).

    Orphans of a zygote that was killed are the node's children as well; but they lead groups of their own, as workers
    do, or are older than the end of their parent.
    """
    for pid in children(node_pid()):
        with contextlib.suppress(OSError):
            if os.getpgid(pid) != pid and born(pid) > since:
                return pid
    return 0


def below(pid: int) -> set[int]:
    """All processes below one."""
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        new = set(children(waiting.pop())) - found
        found |= new
        waiting.extend(new)
    return found
