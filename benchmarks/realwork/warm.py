"""Processor seconds of one more repetition: `python -m benchmarks.realwork.warm <system> <workload> [times]`.

The start of a system and its first processes decide what a small program takes as a whole. Here they are left out: the
program is run once, then some times more, and the processor time of this process and of all below it, ended ones too,
is read before and after those.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from benchmarks.beyond import below
from benchmarks.realwork import load
from benchmarks.realwork.program import opened

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def spent_s(root: int) -> float:
    """Processor seconds of a process, of all that descend from it, and of those of them that have ended."""
    ticks = 0
    for pid in below(root):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has ended meanwhile: its parent has counted it
        ticks += sum(map(int, fields[11:15]))  # user and system time, its own and that of its ended children
    return ticks * _TICK_S


def main(system: str, name: str, times: int) -> None:
    """Measure and print what was found."""
    workload = load(name)
    with opened(system, workload) as run:
        run()
        cpu_s, began = spent_s(os.getpid()), time.perf_counter()
        for _ in range(times):
            run()
        cpu_s, wall_s = spent_s(os.getpid()) - cpu_s, time.perf_counter() - began
    print(
        f"{name} on {system}: {cpu_s / times:.3f} processor seconds each, {wall_s / times:.3f} s by the clock"
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 5)
