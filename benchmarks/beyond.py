"""What a session takes beyond its tasks: `python -m benchmarks.beyond [tasks] [loops]`, by default 1,000 of about 2 ms.

Each task measures the processor time of its own body. That of all threads of the driver, the node, the zygote and the
workers is read from `/proc/<pid>/task/*/schedstat` before and after; the difference of the two sums is what sundog
takes. Both are taken in the same seconds of the same processes, so it does not matter how busy the machine is for
what is compared, but a busy machine has cold caches, in which everything costs more.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import sundog

_TURNS = 3
_WARM_UP = 50
_KINDS = ("driver", "node", "zygote")  # each is started by the one before it; the zygote starts the workers


def body(loops: int) -> float:
    """Do some work; the processor seconds that it took."""
    began = time.thread_time()
    total = 0
    for number in range(loops):
        total += number * number % 7
    return time.thread_time() - began


def below(root: int) -> dict[int, int]:
    """A process and all that descend from it, each with how many generations are between."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue  # it has ended
            children.setdefault(parent, []).append(int(entry.name))
    found, todo = {root: 0}, [root]
    for each in todo:  # grows while it is gone through
        for child in children.get(each, []):
            found[child] = found[each] + 1
            todo.append(child)
    return found


def spent(root: int) -> dict[str, float]:
    """Processor seconds so far, by kind of thread, of a driver and what it started."""
    seconds = dict.fromkeys((*_KINDS, "workers", "other threads of workers"), 0.0)
    for pid, generation in below(root).items():
        try:
            for task in Path(f"/proc/{pid}/task").iterdir():
                is_main = task.name == str(pid)
                kind = "workers" if is_main else "other threads of workers"
                kind = _KINDS[generation] if generation < len(_KINDS) else kind
                seconds[kind] += int((task / "schedstat").read_text().split()[0]) / 1e9
        except OSError:
            continue  # it has ended
    return seconds


def main(tasks: int, loops: int) -> None:
    """Measure some times and print what was found."""
    sundog.init(num_cpus=2)
    run = sundog.remote(body)
    sundog.get([run.remote(loops) for _ in range(_WARM_UP)])
    for _ in range(_TURNS):
        before = spent(os.getpid())
        work_s = sum(sundog.get([run.remote(loops) for _ in range(tasks)]))
        after = spent(os.getpid())
        taken = {kind: after[kind] - before[kind] for kind in after}
        beyond = sum(taken.values()) - work_s
        parts = ", ".join(f"{kind} {seconds:.3f}" for kind, seconds in taken.items())
        share = f"beyond their work {100 * beyond / work_s:.1f} %"
        print(f"{tasks} tasks of {1e3 * work_s / tasks:.2f} ms: {share} ({parts} s)")
    sundog.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000, int(sys.argv[2]) if len(sys.argv) > 2 else 38_000)
