"""What tasks would take on a machine with cores to spare: the time that they waited for a core taken out.

A task that computes beside others on too few cores takes longer than it would alone. The records show how long it took
and how much processor time it used; whether the cores were taken meanwhile follows from the other tasks, the programs,
and the workers that were being started. Then the time in which a task that computes did not is taken for a wait for a
core. The simulator stretches work again where cores are short, so a run that is played unchanged takes about as long
as before, and a changed one is not charged for a crowd that is gone. The same of asyncio actors: which of them ran
one call at a time though more stood in line. Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise

from sundog.advice.costs import BOOT_MOST_S
from sundog.advice.run import CALL, COMPUTE, Program, RunNode

_LEAST_S = 1e-4
_FULL = (
    # all cores count as taken when this share of them is used (the kernel and other programs use them too)
    0.85
)
_LONG_S = 0.005  # a shorter call blocks other calls only briefly
_LEAST_CALLS = 4
# A task that computes and is slowed down uses at least this share of a core, or of its fair share of the cores.
_COMPUTES, _FAIR = 0.25, 0.7

_MOSTLY = 0.75  # where tasks want all cores, at least this share of them is used
_SEEN_S = 0.2
_OTHERS_USE = 0.1  # other programs count from this share of a core on

Wish = tuple[float, float, float]  # from, to, how many cores


def untangle(nodes: Sequence[RunNode], programs: Sequence[Program], cores: int) -> None:
    """Shorten the work of tasks by what they waited for a core."""
    own = [
        node
        for node in nodes
        if node.program is None and node.count == 1 and node.attempts == 1 and node.work_s > _LEAST_S
    ]
    wishes = [(node.start_s, node.end_s, min(node.load, float(cores))) for node in own]
    crowd = _Mean([(begin, end, 1.0) for begin, end, _ in wishes], lambda count: count)
    computing = []
    for node in own:
        fair = cores / max(1.0, crowd.between(node.start_s, node.end_s))
        if node.load >= min(_COMPUTES, _FAIR * fair):
            computing.append(node)
    all_ = [*wishes, *_others(nodes, programs)]
    crowds = _crowds([(node.start_s, node.end_s, 1.0) for node in computing], all_, cores)
    full = _Mean([*all_, *crowds], lambda used: float(used >= _FULL * cores))
    for node in computing:
        if node.load < 1.0:
            idle = (node.work_s - node.cpu_s) * (1.0 - full.between(node.start_s, node.end_s))
            node.work_s = max(_LEAST_S, node.cpu_s + idle)


def _crowds(computing: Sequence[Wish], used: Sequence[Wish], cores: int) -> list[Wish]:
    """When as many tasks as there are cores computed at a time, and together used most of the cores.

    The processor time of a task is known for all of its run. A task that runs to the end of a crowd gets more of a core
    at the end, so what single tasks used on average does not tell when the cores were taken: what all used does.
    """
    found: list[Wish] = []
    count, begin = 0.0, 0.0
    mean = _Mean(used, lambda load: load)
    changes = sorted([(at, 1.0) for at, _, _ in computing] + [(at, -1.0) for _, at, _ in computing])
    for at, change in changes:
        before, count = count, count + change
        if before < cores <= count:
            begin = at
        elif count < cores <= before and mean.between(begin, at) >= _MOSTLY * cores:
            found.append((begin, at, float(cores)))
    return found


def power_of(nodes: Sequence[RunNode], programs: Sequence[Program], cores: int) -> float:
    """How many cores the run gets when it wants all of them: the kernel, the runtime and other programs use some too.

    Measured where tasks used most of the cores; else a little less than there are. To be asked before `untangle`.
    """
    wishes = [
        (node.start_s, node.end_s, min(node.load, float(cores)))
        for node in nodes
        if node.program is None and node.count == 1 and node.attempts == 1 and node.work_s > _LEAST_S
    ]
    changes: dict[float, float] = defaultdict(float)
    for begin, end, load in [*wishes, *_others(nodes, programs)]:
        changes[begin] += load
        changes[end] -= load
    times = sorted(changes)
    used = accumulate(changes[at] for at in times)
    full = [(after - at, now) for (at, after), now in zip(pairwise(times), used) if now >= _MOSTLY * cores]
    long_s = sum(seconds for seconds, _ in full)
    if long_s < _SEEN_S:
        return max(0.5 * cores, cores - _OTHERS_USE)
    return min(float(cores), sum(seconds * now for seconds, now in full) / long_s)


def held_actors(nodes: Sequence[RunNode], concurrent: frozenset[bytes]) -> frozenset[bytes]:
    """Asyncio actors whose calls ran one after the other though several stood in line: something held the loop."""
    found = set()
    for actor, calls in calls_of(nodes).items():
        if actor not in concurrent:
            continue
        long = sorted((node for node in calls if node.work_s >= _LONG_S), key=lambda node: node.start_s)
        if len(long) < _LEAST_CALLS:
            continue
        waited = [node for before, node in pairwise(long) if node.submit_s < before.end_s - _LONG_S / 2]
        beside = [node for before, node in pairwise(long) if node.start_s < before.end_s - _LONG_S / 2]
        if len(waited) >= _LEAST_CALLS - 1 and len(beside) <= 0.1 * len(waited):
            found.add(actor)
    return frozenset(found)


def calls_of(nodes: Sequence[RunNode]) -> dict[bytes, list[RunNode]]:
    """The calls of each actor, in the order of their submission."""
    found: dict[bytes, list[RunNode]] = defaultdict(list)
    for node in nodes:
        if node.kind == CALL and node.actor and node.count == 1:
            found[node.actor].append(node)
    for calls in found.values():
        calls.sort(key=lambda node: node.submit_s)
    return found


def _others(nodes: Sequence[RunNode], programs: Sequence[Program]) -> Iterable[Wish]:
    for program in programs:
        for op in program.ops:
            if op.kind == COMPUTE and op.seconds > _LEAST_S and program.load > 0:
                yield op.at_s, op.at_s + op.seconds, program.load
    for node in nodes:
        if node.is_first and node.lag_s > 0:
            yield node.start_s - min(node.lag_s, BOOT_MOST_S), node.start_s, 1.0
        if node.program is not None:
            for op in node.program:
                if op.kind == COMPUTE and op.seconds > _LEAST_S and node.load > 0:
                    yield op.at_s, op.at_s + op.seconds, min(1.0, node.load)


class _Mean:
    """The mean over time of what follows from the sum of some wishes."""

    def __init__(self, wishes: Iterable[Wish], value: Callable[[float], float]) -> None:
        changes: dict[float, float] = {}
        for begin, end, load in wishes:
            changes[begin] = changes.get(begin, 0.0) + load
            changes[end] = changes.get(end, 0.0) - load
        self._times = sorted(changes)
        self._values = [value(used) for used in accumulate(changes[at] for at in self._times)]
        self._sums = [0.0]
        for position, (at, after) in enumerate(pairwise(self._times)):
            self._sums.append(self._sums[-1] + (after - at) * self._values[position])

    def _until(self, moment: float) -> float:
        position = bisect_right(self._times, moment) - 1
        if position < 0:
            return 0.0
        return self._sums[position] + (moment - self._times[position]) * self._values[position]

    def between(self, begin: float, end: float) -> float:
        """The mean between two moments."""
        if end <= begin:
            return 0.0
        return (self._until(end) - self._until(begin)) / (end - begin)
