"""The shortest task that pays off: the duration from which two workers beat a plain loop by 1.5 times.

A task is a fixed amount of counting. Each probe runs a plain loop, then the tasks, then the same work in two bare
processes, and a task's duration is what it took in that loop: a core that others use changes its speed by two times
within a second. For the same reason no single answer decides where to look next: all durations are swept several
times, each has the median of its probes, and a curve that never falls is fitted to those.

There are two figures: where tasks reach 1.5 times the loop, and where they reach three quarters of what the two bare
processes do. On two whole cores these are one and the same. Where a machine gives its two cores less than twice the
speed of one, the first is about the machine as well, and only the second about the runtime.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks import work
from benchmarks.cases import measured
from benchmarks.sampling import Effort, Reading, time_call
from benchmarks.systems import System

SPEED_UP = 1.5
DURATIONS_S = tuple(25e-6 * 2**step for step in range(12))  # to 51.2 ms
SWEEPS = 5
PROBE_S = 0.2
TASKS_MAX = 1500
FAR_OFF = 0.5  # a duration with a speed-up below this is not tried again: it would only cost time
SHORTEST = "shortest paying task"
OF_BARE = "shortest task with 3/4 of the speed of two bare processes"
BARE = "speed-up of two bare processes"

_SPINNER = """
import sys
def spin(iterations):
    while iterations:
        iterations -= 1
for line in sys.stdin:
    count, iterations = map(int, line.split())
    for _ in range(count):
        spin(iterations)
    print(flush=True)
"""


def rising(values: Sequence[float]) -> list[float]:
    """The sequence that never falls and is nearest to `values` by least squares.

    >>> rising([1.0, 3.0, 2.0, 4.0])
    [1.0, 2.5, 2.5, 4.0]
    """
    pools: list[tuple[float, int]] = []
    for value in values:
        total, count = value, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            before = pools.pop()
            total, count = total + before[0], count + before[1]
        pools.append((total, count))
    return [total / count for total, count in pools for _ in range(count)]


def shortest_reaching(wanted: float, durations_s: Sequence[float], ratios: Sequence[float]) -> float | None:
    """The shortest duration at which the fitted curve reaches `wanted`, between two by their logarithms.

    None when not even the longest does.
    """
    curve = rising(ratios)
    index = sum(ratio < wanted for ratio in curve)
    if index == len(curve):
        return None
    if index == 0:
        return durations_s[0]
    part = (wanted - curve[index - 1]) / (curve[index] - curve[index - 1])
    shorter, longer = durations_s[index - 1], durations_s[index]
    return float(shorter * (longer / shorter) ** part)


class Probe(NamedTuple):
    """One look at one duration: what a task took in the loop, and how many times faster the tasks were than others."""

    duration_s: float
    to_loop: float
    to_bare: float


def sweep(probe: Callable[[float], Probe], durations_s: Sequence[float] = DURATIONS_S) -> list[Probe]:
    """The medians of several probes at each duration, made in turn with those at the others."""
    found: list[list[Probe]] = [[] for _ in durations_s]
    for _ in range(SWEEPS):
        for duration_s, probes in zip(durations_s, found, strict=True):
            if not probes or statistics.median(each.to_loop for each in probes) >= FAR_OFF:
                probes.append(probe(duration_s))
    return [Probe(*(statistics.median(values) for values in zip(*probes, strict=True))) for probes in found]


def iterations_per_second() -> float:
    count = 200_000
    return count / min(time_call(lambda: work.spin(count)) for _ in range(5))


def serial_loop(count: int, iterations: int) -> None:
    for _ in range(count):
        work.spin(iterations)


class TwoProcesses:
    """Two processes that count when told to, and otherwise sleep."""

    def __init__(self) -> None:
        self.processes = [
            subprocess.Popen([sys.executable, "-c", _SPINNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        self.spin(1, 1)  # they are up now

    def spin(self, count: int, iterations: int, processes: int = 2) -> None:
        """Do this many loops of so many iterations, shared by so many of the processes."""
        chosen = self.processes[:processes]
        for part, process in enumerate(chosen):
            assert process.stdin is not None
            process.stdin.write(b"%d %d\n" % ((count + part) // processes, iterations))
            process.stdin.flush()
        for process in chosen:
            assert process.stdout is not None
            process.stdout.readline()

    def close(self) -> None:
        """End them."""
        for process in self.processes:
            process.communicate()


@measured(SHORTEST, group="pay-off", needs="tasks workers")
def shortest_task(api: System, effort: Effort) -> list[Reading]:
    task = api.remote(work.spin)
    speed = iterations_per_second()
    api.get([task.remote(1000) for _ in range(200)])
    bare = TwoProcesses()

    def probe(duration_s: float) -> Probe:
        count = max(10, min(TASKS_MAX, int(PROBE_S / duration_s)))
        iterations = max(1, int(duration_s * speed))
        loop_s = time_call(lambda: serial_loop(count, iterations))
        tasks_s = time_call(lambda: api.get([task.remote(iterations) for _ in range(count)]))
        bare_s = time_call(lambda: bare.spin(count, iterations))
        return Probe(loop_s / count, loop_s / tasks_s, bare_s / tasks_s)

    try:
        probes = sweep(probe)
    finally:
        bare.close()
    durations = [each.duration_s for each in probes]
    return [
        _reading(SHORTEST, shortest_reaching(SPEED_UP, durations, [each.to_loop for each in probes])),
        _reading(OF_BARE, shortest_reaching(SPEED_UP / 2, durations, [each.to_bare for each in probes])),
    ]


def _reading(figure: str, found_s: float | None) -> Reading:
    if found_s is None:
        return Reading(figure, "ms", None, f"no task up to {DURATIONS_S[-1] * 1e3:.0f} ms did")
    return Reading(figure, "ms", found_s * 1e3)


@measured(BARE, group="pay-off", needs="echo")
def two_processes(_: System, effort: Effort) -> list[Reading]:
    iterations = int(PROBE_S * iterations_per_second())
    bare = TwoProcesses()
    speed_ups = []
    try:
        for _turn in range(5):
            one = time_call(lambda: bare.spin(2, iterations, processes=1))
            speed_ups.append(one / time_call(lambda: bare.spin(2, iterations)))
    finally:
        bare.close()
    return [Reading(BARE, "×", statistics.median(speed_ups))]
