"""What recording costs: the same flood of tasks and calls with recording on and off, in turn.

`python -m benchmarks.recording [TURNS]` prints the rates and the share of them that recording takes. Each turn is a
process of its own, on and off alternate, and the best of each is compared as well as the median: on a machine that
others use, the best is the one that was disturbed least. The target is 5 % at most.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from statistics import median

TARGET = 0.05
_PROGRAM = """
import json, os, time
import sundog as ray
from sundog.owner import context
ray.init(num_cpus=1, logging_level="ERROR")

@ray.remote
def nop():
    return None

@ray.remote
class Actor:
    def nop(self):
        return None

actor = Actor.remote()
ray.get([nop.remote(), actor.nop.remote()])

def rate(call, count):
    best = 0.0
    for _ in range(5):
        began = time.perf_counter()
        ray.get([call() for _ in range(count)])
        best = max(best, count / (time.perf_counter() - began))
    return best

@ray.remote
def used():
    return time.process_time()

def used_by_all():
    # Processor seconds of driver, worker and node: what others on the machine do changes them far less than the clock.
    node = json.load(open(context.facts.session["path"] + "/session.json"))["node_pid"]
    ticks = open(f"/proc/{node}/stat").read().rpartition(")")[2].split()[11:13]
    return time.process_time() + ray.get(used.remote()) + sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

def per_second_of_processor(call, count):
    began = used_by_all()
    for _ in range(5):
        ray.get([call() for _ in range(count)])
    return 5 * count / (used_by_all() - began)

print(json.dumps({
    "tasks/s": rate(nop.remote, 20000),
    "calls/s": rate(actor.nop.remote, 20000),
    "tasks per second of processor": per_second_of_processor(nop.remote, 20000),
}))
ray.shutdown()
"""


def measure(*, on: bool) -> dict[str, float]:
    """The rates of one run."""
    environment = {**os.environ, "SUNDOG_record_enabled": "1" if on else "0"}
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    read: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return read


def report(on: list[dict[str, float]], off: list[dict[str, float]]) -> list[str]:
    """A line for each figure: both rates, and what recording takes of them.

    >>> print(*report([{"tasks/s": 97.0}], [{"tasks/s": 100.0}]))
    tasks/s: 97 with recording, 100 without: it takes 3.0 % by the medians, 3.0 % by the bests
    """
    lines = []
    for figure in on[0]:
        with_, without = [each[figure] for each in on], [each[figure] for each in off]
        by_median = 1 - median(with_) / median(without)
        by_best = 1 - max(with_) / max(without)
        lines.append(
            f"{figure}: {median(with_):,.0f} with recording, {median(without):,.0f} without: it takes "
            f"{by_median * 100:.1f} % by the medians, {by_best * 100:.1f} % by the bests"
        )
    return lines


def main(turns: int) -> None:
    """Measure and print."""
    on: list[dict[str, float]] = []
    off: list[dict[str, float]] = []
    for turn in range(turns):
        for recorded in (True, False) if turn % 2 else (False, True):
            (on if recorded else off).append(measure(on=recorded))
    print("\n".join(report(on, off)))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
