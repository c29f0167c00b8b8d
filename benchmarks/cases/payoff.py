"""The shortest task that pays off: the duration from which two workers beat a plain loop by 1.5 times.

A task is a fixed amount of counting, calibrated in the driver. Each probe runs the plain loop and the tasks
side by side, so a change of clock speed between probes cancels out. What the machine itself can give, two bare
processes against one, stands beside it: where that is below 1.5, no runtime can pay off.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable

from benchmarks import work
from benchmarks.cases import measured
from benchmarks.sampling import Effort, Reading, time_call
from benchmarks.systems import System

SPEED_UP = 1.5
LOW_S = 10e-6
HIGH_S = 0.05
FACTOR = 1.2
PROBE_S = 0.2
TASKS_MAX = 1500
PROBES = 5  # one wrong answer early in the search spoils it, and a machine that others use gives some
BARE = "speed-up of two bare processes"


def shortest_paying(
    pays: Callable[[float], bool], low_s: float = LOW_S, high_s: float = HIGH_S, factor: float = FACTOR
) -> float | None:
    """The shortest duration in [low_s, high_s] that pays, to within `factor`; None when not even high_s does.

    Bisects on a logarithmic scale, assuming that whatever is longer than a paying duration pays too.
    """
    if pays(low_s):
        return low_s
    if not pays(high_s):
        return None
    while high_s / low_s > factor:
        middle = (low_s * high_s) ** 0.5
        if pays(middle):
            high_s = middle
        else:
            low_s = middle
    return high_s


def iterations_per_second() -> float:
    count = 200_000
    return count / min(time_call(lambda: work.spin(count)) for _ in range(5))


def serial_loop(count: int, iterations: int) -> None:
    for _ in range(count):
        work.spin(iterations)


@measured("shortest paying task", group="pay-off", needs="tasks workers")
def shortest_task(api: System, effort: Effort) -> list[Reading]:
    task = api.remote(work.spin)
    speed = iterations_per_second()
    api.get([task.remote(1000) for _ in range(200)])

    def pays(duration_s: float) -> bool:
        count = max(10, min(TASKS_MAX, int(PROBE_S / duration_s)))
        iterations = max(1, int(duration_s * speed))
        speed_ups: list[float] = []
        for _ in range(PROBES):
            serial = time_call(lambda: serial_loop(count, iterations))
            tasks = time_call(lambda: api.get([task.remote(iterations) for _ in range(count)]))
            speed_ups.append(serial / tasks)
            if tasks > 10 * serial:
                break  # Far off: more samples would only cost time.
        return statistics.median(speed_ups) >= SPEED_UP

    found = shortest_paying(pays)
    if found is None:
        return [Reading("shortest paying task", "ms", None, f"no task up to {HIGH_S * 1e3:.0f} ms paid off")]
    return [Reading("shortest paying task", "ms", found * 1e3)]


def spin_in_processes(count: int, iterations: int) -> None:
    """Do `iterations` in each of `count` forked processes at the same time."""
    children = []
    for _ in range(count):
        child = os.fork()
        if child == 0:
            work.spin(iterations)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


@measured(BARE, group="pay-off", needs="echo")
def two_processes(_: System, effort: Effort) -> list[Reading]:
    iterations = int(PROBE_S * iterations_per_second())
    speed_ups = []
    for _turn in range(5):
        one = time_call(lambda: spin_in_processes(1, iterations))
        two = time_call(lambda: spin_in_processes(2, iterations))
        speed_ups.append(2 * one / two)
    return [Reading(BARE, "×", statistics.median(speed_ups))]
