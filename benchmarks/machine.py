"""Facts about the machine that a reader needs to judge the figures; never its name, its user or a path.

Run by the runner, before anything else runs.
"""

from __future__ import annotations

import os
import platform
import time
from typing import Any


def cpu_model(cpuinfo: str) -> str:
    """The model name in the content of /proc/cpuinfo, or the architecture."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


def busy_fraction(window_s: float = 1.0) -> float:
    """How busy the machine is with other things: the share of CPU time not idle over `window_s`."""

    def read() -> tuple[int, int]:
        with open("/proc/stat") as stat:
            fields = [int(field) for field in stat.readline().split()[1:9]]
        return sum(fields), fields[3] + fields[4]

    total, idle = read()
    time.sleep(window_s)
    total_after, idle_after = read()
    return 1 - (idle_after - idle) / max(1, total_after - total)


def facts() -> dict[str, Any]:
    with open("/proc/cpuinfo") as cpuinfo:
        model = cpu_model(cpuinfo.read())
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory / 1e9, 1),
        "kernel": ".".join(platform.release().split("-")[0].split(".")[:2]),
        "python": platform.python_version(),
        "busy_before": round(busy_fraction(), 3),
    }
