"""How large the object store may be: the memory that this machine and its control groups really give.

Reads `/proc` and `/sys` once, in the process that starts a session; owns nothing.
"""

from __future__ import annotations

import contextlib
import os

from sundog.config import Config

# The rest of shared memory is for messages, and for others.
_SHM_SHARE = 0.95


def memory_bytes(proc: str = "/proc/self/cgroup", root: str = "/sys/fs/cgroup") -> int:
    """Memory of this machine or, if that is less, of the smallest control group that this process is in."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _limit_files(proc, root):
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            total = min(total, int(file.read()))
    return total


def _limit_files(proc: str, root: str) -> list[str]:
    """The files with a limit for this process: of its groups, of those around them, of both versions."""
    groups = {"": "", "memory": ""}
    with contextlib.suppress(OSError), open(proc, encoding="utf-8") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controllers in ("", "memory") or "memory" in controllers.split(","):
                groups["memory" if controllers else ""] = path.strip("/")
    found = []
    for controller, path in groups.items():
        top, name = (f"{root}/memory", "memory.limit_in_bytes") if controller else (root, "memory.max")
        parts = path.split("/") if path else []
        found += ["/".join([top, *parts[:depth], name]) for depth in range(len(parts) + 1)]
    return found


def store_bytes(memory: int, config: Config) -> int:
    """The store's size when none is given: a share of memory, but no more than shared memory can hold."""
    wanted = int(memory * config.object_store_fraction)
    try:
        found = os.statvfs(config.shm_dir)
    except OSError:
        return wanted
    return min(wanted, int(found.f_blocks * found.f_frsize * _SHM_SHARE))
