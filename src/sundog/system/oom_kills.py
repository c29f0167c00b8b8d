"""The kernel's counts of processes that it killed for memory, and the limits beside them.

Owns where they are: in the control group of this process (v1 or v2), else of the whole machine. Reads; keeps nothing.
Runs in any process.
"""

from __future__ import annotations

import os

CGROUPS = "/sys/fs/cgroup"
VMSTAT = "/proc/vmstat"


def own_counters(membership: str = "/proc/self/cgroup", root: str = CGROUPS) -> list[str]:
    """The counter that tells of kills among this process and its children: its cgroup's, else the machine's."""
    return [_cgroup_counter(membership, root) or VMSTAT]


def _cgroup_counter(membership: str, root: str) -> str:
    try:
        with open(membership, encoding="utf-8") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return ""
    for _, controllers, path in sorted(lines, key=lambda parts: parts[1], reverse=True):
        if "memory" in controllers.split(","):
            places = [f"{root}/memory{path}/memory.oom_control", f"{root}/memory/memory.oom_control"]
        elif not controllers:
            # Inside a container the path may be the host's, and the own cgroup is mounted at the root.
            places = [f"{base}{path}/memory.events" for base in (root, f"{root}/unified")]
            places.append(f"{root}/memory.events")
        else:
            continue
        for place in places:
            place = os.path.normpath(place)
            if read_count(place) is not None:
                return place
    return ""


def read_count(path: str) -> int | None:
    """The value of ``oom_kill`` in a counter's file (cgroup v1 or v2, /proc/vmstat); None if it has none."""
    try:
        with open(path, encoding="ascii") as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return None


def read_limit(counter: str) -> int | None:
    """The memory limit of the cgroup that a counter belongs to; None without one."""
    for name in ("memory.max", "memory.limit_in_bytes"):
        try:
            with open(f"{os.path.dirname(counter)}/{name}", encoding="ascii") as file:
                limit = int(file.read())
        except (OSError, ValueError):  # the file does not exist, or contains "max"
            continue
        return limit if limit < 1 << 60 else None  # cgroup v1 expresses "unlimited" by a huge number
    return None
