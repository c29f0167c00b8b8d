"""The critical path of a run, its parallelism over time, and the idle time of its cores. Pure."""

from __future__ import annotations

from collections import defaultdict

from sundog.advice.run import SUBMIT, WAIT, Op, Run, RunNode
from sundog.plain import plain

PROGRAM, RUNTIME = "(the program itself)", "(waiting for a worker)"
_STEPS_MAX = 200_000
_LEAST_S = 1e-7


@plain(frozen=True)
class Stretch:
    """A part of the critical path."""

    what: str  # a function, or one of the words above
    seconds: float


def critical_path(run: Run) -> list[Stretch]:
    """What the run's length is made of: walked back from its end, each time to what was waited for. In order of time.

    A task's part counts up to the moment from which something else was waited for; parts of one function are not added.
    """
    walker = _Walker(run)
    return walker.walk()


class _Walker:
    def __init__(self, run: Run) -> None:
        self.run = run
        self.home: dict[int, tuple[object, list[Op], list[float], int]] = {}
        self.steps: dict[int, tuple[list[Op], list[float], float, int]] = {}
        for number, program in enumerate(run.programs):
            times = [op.at_s for op in program.ops]
            for position, op in enumerate(program.ops):
                if op.kind == SUBMIT:
                    self.home[op.node] = (None, program.ops, times, position)
            self.steps[-1 - number] = (program.ops, times, program.begin_s, -1)
        for node in run.nodes:
            if node.program is not None:
                times = [op.at_s for op in node.program]
                for position, op in enumerate(node.program):
                    if op.kind == SUBMIT:
                        self.home[op.node] = (node, node.program, times, position)
        self.before: dict[int, RunNode] = {}
        last: dict[int, RunNode] = {}
        for node in sorted(run.nodes, key=lambda node: node.start_s):
            if node.process in last:
                self.before[node.key] = last[node.process]
            if node.process not in last or node.end_s >= last[node.process].end_s:
                last[node.process] = node

    def walk(self) -> list[Stretch]:
        found: list[tuple[str, float]] = []
        if not self.run.programs:
            return []
        program = max(self.run.programs, key=lambda each: each.end_s)
        self._back(found, program.ops, len(program.ops) - 1, program.end_s, None)
        found.reverse()
        return [Stretch(what, seconds) for what, seconds in found if seconds > _LEAST_S]

    def _back(
        self,
        found: list[tuple[str, float]],
        ops: list[Op],
        position: int,
        moment: float,
        node: RunNode | None,
    ) -> None:
        """From a moment in a program back to the beginning of the run; the moment never moves forward."""
        seen: set[tuple[int, int]] = set()
        for _ in range(_STEPS_MAX):
            if node is not None:
                if (node.key, position) in seen:  # clocks of two processes contradict each other
                    return
                seen.add((node.key, position))
            while position >= 0 and not (ops[position].kind == WAIT and ops[position].waited_s > _LEAST_S):
                position -= 1
            begin = ops[position].at_s if position >= 0 else 0.0
            if position >= 0:
                op = ops[position]
                end = min(moment, op.at_s + op.waited_s)
                found.append((node.name if node is not None else PROGRAM, max(0.0, moment - end)))
                if not op.nodes:
                    position, moment = position - 1, min(moment, begin)
                    continue
                released = self._releaser(op)
                found.append((RUNTIME, max(0.0, end - max(released.end_s, op.at_s))))
                if released.end_s <= op.at_s:
                    position, moment = position - 1, min(moment, op.at_s)
                    continue
                ops, position, moment, node = self._enter(released, min(moment, released.end_s))
                continue
            if node is None:
                found.append((PROGRAM, max(0.0, moment)))
                return
            found.append((node.name, max(0.0, moment - node.start_s)))
            came = self._why_started(node, min(moment, node.start_s), found)
            if came is None:
                return
            ops, position, moment, node = came

    def _releaser(self, op: Op) -> RunNode:
        ended = sorted((self.run.nodes[each] for each in op.nodes), key=lambda each: each.end_s)
        if op.need:
            return ended[min(len(ended), op.need) - 1]
        return ended[-1]

    def _enter(self, node: RunNode, moment: float) -> tuple[list[Op], int, float, RunNode]:
        program = node.program or []
        return program, len(program) - 1, moment, node

    def _why_started(
        self, node: RunNode, start_s: float, found: list[tuple[str, float]]
    ) -> tuple[list[Op], int, float, RunNode | None] | None:
        """What a task's start waited for: an argument, its worker, or its submission."""
        late = max((self.run.nodes[each] for each in node.deps), key=lambda each: each.end_s, default=None)
        before = self.before.get(node.key)
        moments = [(node.submit_s, 0)]
        if late is not None:
            moments.append((late.end_s, 1))
        # A task that ran inside its waiting parent did not wait for the end of that parent.
        if before is not None and before.end_s <= min(node.end_s, node.start_s + 1e-3):
            moments.append((before.end_s, 2))
        moment, why = max(moments)
        found.append((RUNTIME, max(0.0, start_s - moment)))
        moment = min(moment, start_s)
        if why == 1 and late is not None:
            return self._enter(late, moment)
        if why == 2 and before is not None:
            return self._enter(before, moment)
        home = self.home.get(node.key)
        if home is None:
            return None
        owner, ops, _, position = home
        return ops, position - 1, moment, owner if isinstance(owner, RunNode) else None


def by_function(path: list[Stretch]) -> list[tuple[str, float]]:
    """The critical path added up, the longest first."""
    found: dict[str, float] = defaultdict(float)
    for each in path:
        found[each.what] += each.seconds
    return sorted(found.items(), key=lambda each: -each[1])


def parallelism(run: Run, columns: int) -> list[float]:
    """How many tasks ran at a time, in as many equal stretches of the run."""
    if run.length_s <= 0 or columns < 1:
        return []
    width = run.length_s / columns
    found = [0.0] * columns
    for node in run.nodes:
        begin, end = max(0.0, node.start_s), min(run.length_s, node.end_s)
        share = min(1.0, node.work_s / max(1e-9, end - begin)) if node.program is not None else 1.0
        if node.count > 1:
            share = node.work_s / max(1e-9, end - begin)
        first, last = int(begin / width), min(columns - 1, int(end / width))
        for column in range(max(0, first), last + 1):
            inside = min(end, (column + 1) * width) - max(begin, column * width)
            found[column] += share * max(0.0, inside) / width
    return found


def idle_share(run: Run) -> float:
    """The share of the CPUs' time in which they ran no task."""
    places = min(run.cpus, max(1.0, float(run.cpus)))
    busy = sum(node.work_s for node in run.nodes)
    return max(0.0, 1.0 - busy / max(1e-9, places * run.length_s))
