"""The largest users of memory, named: what errors and warnings show when it ran out.

Reads /proc once per use; own memory only (without files and shared segments), the object store as a row of its own.
Runs on the node's only thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from sundog import machine

if TYPE_CHECKING:
    from sundog.node.interfaces import WithWorkers

TOP = 10
User = tuple[int, int, str]  # pid (0 for the object store), bytes, description


def top_users(node: WithWorkers, what: Callable[[bytes], str]) -> list[User]:
    """The ten largest, the largest first."""
    rows = sorted(((machine.own_bytes(pid), pid) for pid in machine.pids()), reverse=True)[:TOP]
    found = [(pid, size, _name(node, pid, what)) for size, pid in rows if size]
    store = machine.folder_bytes(node.session["shm_root"])
    if store:
        found.append((0, store, "the object store (shared memory)"))
    return sorted(found, key=lambda row: -row[1])[:TOP]


def _name(node: WithWorkers, pid: int, what: Callable[[bytes], str]) -> str:
    worker = node.workers.by_pid.get(pid)
    if worker is not None:
        return what(worker)
    if pid == os.getpid():
        return "the node"
    if pid == node.workers.zygote_pid:
        return "the zygote"
    job = next((job for job in node.jobs.values() if job.pid == pid), None)
    return f"driver {job.entrypoint}" if job is not None else machine.title(pid)


def users_text(users: Iterable[User]) -> str:
    """The rows as lines.

    >>> print(users_text([(812, 1_250_000_000, "resize()")]))
    Top users of memory (own, without shared segments):
        1.25 GB  pid 812      resize()
    """
    lines = ["Top users of memory (own, without shared segments):"]
    for pid, size, name in users:
        place = f"pid {pid}" if pid else ""
        lines.append(f"  {size / 1e9:6.2f} GB  {place:<12} {name}".rstrip())
    return "\n".join(lines)
