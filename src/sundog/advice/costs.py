"""What the runtime itself took in a run: from the gaps that the records show. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median

from sundog.advice.run import CALL, COMPUTE, CREATE, SUBMIT, TASK, WAIT, Costs, Node, Op, Program, Run

_MANY = 2000
_LEAST_WARM_S = 0.02
_WARM_FACTOR = 2.0
_SUBMIT_MOST_S = 2e-4  # what takes longer before a submission is the program's own work


def costs_of(nodes: Sequence[Node], programs: Sequence[Program]) -> Costs:
    """Medians of what was measured; defaults where a run shows none."""
    usual = Costs()
    boots: list[float] = []
    idles: list[float] = []
    busys: list[float] = []
    calls: list[float] = []
    first: Node | None = None
    by_process: dict[int, list[Node]] = defaultdict(list)
    for node in nodes:
        if node.kind != CREATE and node.attempts == 1 and node.count == 1 and not node.deps:
            by_process[node.process].append(node)
        if node.kind == TASK and (first is None or node.start_s < first.start_s):
            first = node
    for own in by_process.values():
        own.sort(key=lambda node: node.start_s)
        reach = -1.0
        for position, node in enumerate(own):
            lag = node.start_s - node.submit_s
            if position == 0 and node.kind == TASK:
                if node is not first:
                    boots.append(lag)
            elif node.submit_s < reach:  # it was there before the one before it had ended
                if node.start_s >= reach:
                    (calls if node.kind == CALL else busys).append(node.start_s - reach)
            elif position:
                idles.append(lag)
            reach = max(reach, node.end_s)
    wakes, gaps = _of_programs(nodes, programs)
    create = [node.lag_s for node in nodes if node.kind == CREATE]
    first_s = first.start_s - first.submit_s if first is not None else usual.first_s
    return Costs(
        boot_s=_middle(boots, max(usual.boot_s, first_s / 10) if first is not None else usual.boot_s),
        first_s=max(0.0, first_s),
        idle_s=_middle(idles, usual.idle_s),
        busy_s=_middle(busys, usual.busy_s),
        call_s=_middle(calls, usual.call_s),
        wake_s=_middle(wakes, usual.wake_s),
        create_s=_middle(create, usual.create_s),
        submit_s=min(_middle(gaps, usual.submit_s), _SUBMIT_MOST_S),
    )


def _of_programs(nodes: Sequence[Node], programs: Sequence[Program]) -> tuple[list[float], list[float]]:
    wakes, gaps = [], []
    for program in programs:
        before = None
        for op in program.ops[: 20 * _MANY]:
            if op.kind == WAIT and op.nodes and not op.is_wait:
                late = op.at_s + op.waited_s - max(nodes[each].end_s for each in op.nodes)
                if 0 <= late < op.waited_s:
                    wakes.append(late)
            elif op.kind == SUBMIT and before is not None and before.kind == COMPUTE:
                gaps.append(before.seconds)
            before = op
    gaps.sort()
    return wakes, gaps[: max(1, len(gaps) // 2)]


def _middle(values: Sequence[float], otherwise: float) -> float:
    return max(0.0, median(values[:_MANY])) if values else otherwise


def warm_ups(run: Run, *, cpu: bool = False) -> Mapping[str, float]:
    """How much longer the first task of a worker took than those after it, by function (imports, caches).

    Args:
        run: the run.
        cpu: in processor time, which does not depend on what else ran.
    """
    firsts: dict[str, list[float]] = defaultdict(list)
    later: dict[str, list[float]] = defaultdict(list)
    seen: set[tuple[int, str]] = set()
    for node in sorted(run.nodes, key=lambda node: node.start_s):
        if node.kind == TASK and node.count == 1 and node.attempts == 1:
            key = (node.process, node.name)
            (later if key in seen else firsts)[node.name].append(node.cpu_s if cpu else node.work_s)
            seen.add(key)
    found = {}
    for name, times in firsts.items():
        if len(later[name]) >= 3 and len(times) >= 2:
            extra = median(times) - median(later[name])
            if extra > _LEAST_WARM_S and median(times) > _WARM_FACTOR * median(later[name]):
                found[name] = extra
    return found


def set_lags(nodes: Sequence[Node], programs: Sequence[Program]) -> None:
    """What each start and each wake-up took when nothing was in its way any more."""
    by_process: dict[int, list[Node]] = defaultdict(list)
    for node in nodes:
        by_process[node.process].append(node)
    for own in by_process.values():
        own.sort(key=lambda node: node.start_s)
        reach = -1.0
        for position, node in enumerate(own):
            ready = max([node.submit_s, *(nodes[each].end_s + node.delay_s for each in node.deps)])
            if node.count > 1:  # several that were folded into one: they began while others of them ran
                reach = max(reach, node.end_s)
                continue
            node.is_first = position == 0
            node.lag_s = max(0.0, node.start_s - max(ready, reach if reach <= node.start_s else ready))
            reach = max(reach, node.end_s)
    for program in programs:
        for op in program.ops:
            _set_wake(op, nodes)
    for node in nodes:
        for op in node.program or ():
            _set_wake(op, nodes)


def _set_wake(op: Op, nodes: Sequence[Node]) -> None:
    if op.kind == WAIT and op.nodes:
        ends = sorted(nodes[each].end_s for each in op.nodes)
        late = op.at_s + op.waited_s - (ends[op.need - 1] if op.need else ends[-1])
        op.wake_s = late if 0 <= late <= op.waited_s else -1.0
