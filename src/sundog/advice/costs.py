"""What the runtime itself took in a run: from the gaps that the records show. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from statistics import median

from sundog.advice.run import CALL, COMPUTE, CREATE, SUBMIT, TASK, WAIT, Costs, Op, Program, Run, RunNode

_MANY = 2000
_LEAST_WARM_S = 0.02
_WARM_FACTOR = 2.0
# The cost of a worker's start if the run shows only the first start: waiting, and processor time, for which
# simultaneous starts queue. Measured on two cores of 2.5 GHz.
_BOOT_S, _BOOT_CPU_S = 0.01, 0.02
BOOT_MOST_S = 0.1  # the most processor time within the start of a new worker
_POOL = "Pool"  # the task with which a Pool begins in each of its processes
CREW = "(a place in a crew)"  # what tasks of a Pool request instead of a CPU
READY_S = 0.1  # from init() to the first worker, if a run does not show it
GET_SHARE = 0.2  # getting a ready result takes this share of the time that submitting a small task takes
SUBMIT_MOST_S = 2e-4  # a longer time before a submission is the program's own work


def costs_of(nodes: Sequence[RunNode], programs: Sequence[Program], node_s: float = 0.0) -> Costs:
    """Medians of what was measured; defaults where a run shows none.

    Args:
        nodes: all tasks.
        programs: the drivers.
        node_s: when the node was there.
    """
    usual = Costs()
    boots: list[float] = []
    idles: list[float] = []
    busys: list[float] = []
    calls: list[float] = []
    first: RunNode | None = None
    by_process: dict[int, list[RunNode]] = defaultdict(list)
    for node in nodes:
        if node.kind != CREATE and node.attempts == 1 and node.count == 1 and not node.deps:
            by_process[node.process].append(node)
        if node.kind == TASK and (first is None or node.start_s < first.start_s):
            first = node
    for own in by_process.values():
        own.sort(key=lambda node: node.start_s)
        reach = -1.0
        for position, node in enumerate(own):
            lag = node.start_s - max(node.submit_s, node_s)
            if position == 0 and node.kind == TASK:
                if node is not first:
                    boots.append(min(lag, node.lag_s) if node.lag_s > 0 else lag)
            elif node.submit_s < reach:  # submitted before the previous task had ended
                if node.start_s >= reach:
                    (calls if node.kind == CALL else busys).append(node.start_s - reach)
            elif position:
                idles.append(lag)
            reach = max(reach, node.end_s)
    wakes, gaps = _of_programs(nodes, programs)
    create = [node.lag_s for node in nodes if node.kind == CREATE]
    first_s = first.start_s - max(first.submit_s, node_s) if first is not None else usual.first_s
    return Costs(
        boot_s=_middle(boots, max(_BOOT_S, first_s / 10) if first is not None else _BOOT_S),
        boot_cpu_s=0.0 if boots else _BOOT_CPU_S,
        first_s=max(0.0, first_s),
        idle_s=_middle(idles, usual.idle_s),
        busy_s=_middle(busys, usual.busy_s),
        call_s=_middle(calls, usual.call_s),
        wake_s=_middle(wakes, usual.wake_s),
        create_s=_middle(create, usual.create_s),
        ready_s=min((node.start_s for node in nodes if node.start_s > 0), default=READY_S),
        node_s=node_s,
        submit_s=min(_middle(gaps, usual.submit_s), SUBMIT_MOST_S),
    )


def _of_programs(nodes: Sequence[RunNode], programs: Sequence[Program]) -> tuple[list[float], list[float]]:
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
    alone = _computed_first(run) if not cpu else frozenset(firsts)
    found = {}
    for name, times in firsts.items():
        if len(later[name]) >= 3 and (len(times) >= 2 or name in alone):
            extra = median(times) - median(later[name])
            if extra > _LEAST_WARM_S and median(times) > _WARM_FACTOR * median(later[name]):
                found[name] = extra
    return found


def _computed_first(run: Run) -> frozenset[str]:
    """Functions whose first task took longer because it computed more (imports), where there was one worker only."""
    used: dict[str, list[RunNode]] = defaultdict(list)
    for node in sorted(run.nodes, key=lambda node: node.start_s):
        if node.kind == TASK and node.count == 1 and node.attempts == 1:
            used[node.name].append(node)
    found = set()
    for name, own in used.items():
        if len(own) >= 4 and own[0].is_first:
            work = own[0].work_s - median(node.work_s for node in own[1:])
            if own[0].cpu_s - median(node.cpu_s for node in own[1:]) > 0.5 * work > 0.5 * _LEAST_WARM_S:
                found.add(name)
    return frozenset(found)


def crews(nodes: Sequence[RunNode]) -> dict[str, float]:
    """Gives tasks that ask for nothing, and yet stood in line, a place in a crew; returns how many places it has.

    The workers of a Pool or of joblib are such a crew: they hold the CPUs, and the tasks that they run ask for none. A
    Pool begins with a task of its own in each of them, so its places are known though nothing stood in line.
    """
    own = [node for node in nodes if node.kind == TASK and node.count == 1 and not node.resources]
    members = {node.process for node in own if node.name == _POOL}
    worked = [node for node in own if node.process in members and node.name != _POOL]
    if worked and all(node.count == 1 for node in nodes):
        for node in worked:
            node.resources = {CREW: 1.0}
        return {CREW: float(len(members))}
    reach: dict[int, float] = {}
    queued = 0
    for node in sorted(own, key=lambda node: node.start_s):
        queued += node.submit_s < reach.get(node.process, -1.0) <= node.start_s
        reach[node.process] = max(reach.get(node.process, -1.0), node.end_s)
    if 2 * queued < len(own) or not queued:
        return {}
    for node in own:
        node.resources = {CREW: 1.0}
    return {CREW: float(len(reach))}


def own_children(nodes: Sequence[RunNode]) -> frozenset[str]:
    """Functions whose tasks ran awaited tasks of the same function themselves, as the runtime does in recursions."""
    return frozenset(nodes[key].name for key in _inside(nodes))


def _inside(nodes: Sequence[RunNode]) -> set[int]:
    """Tasks that ran inside the task that waited for them."""
    return {
        op.node
        for node in nodes
        if node.kind == TASK
        for op in node.program or ()
        if op.kind == SUBMIT
        and nodes[op.node].name == node.name
        and nodes[op.node].process == node.process
        and node.start_s <= nodes[op.node].start_s
        and nodes[op.node].end_s <= node.end_s
    }


def _set_inside(nodes: Sequence[RunNode]) -> None:
    inside = _inside(nodes)
    for key in inside:
        nodes[key].lag_s = 0.0  # it waited for its turn in the task around it, not for a worker
    for node in nodes:
        if node.key in inside or any(op.node in inside for op in node.program or ()):
            node.cpu_s = min(
                node.cpu_s, node.work_s
            )  # the processor time of tasks inside is measured with it


def set_lags(
    nodes: Sequence[RunNode], programs: Sequence[Program], room: Mapping[str, float], node_s: float = 0.0
) -> None:
    """What each start and each wake-up took when nothing was in its way any more.

    Args:
        nodes: all tasks.
        programs: the drivers.
        room: what the session has of each resource.
        node_s: when the node was there: no worker could start before.
    """
    by_process: dict[int, list[tuple[float, float, RunNode]]] = defaultdict(list)
    for node in nodes:
        for start, end, process in node.ran():
            by_process[process].append((start, end, node))
    held = {name: _Held(nodes, name, total) for name, total in room.items()}
    made = {
        node.actor: node.end_s for node in nodes if node.kind == CREATE
    }  # when each actor could run calls
    unsure: list[RunNode] = []  # the first tasks of their workers, whose possible start is unknown
    for own in by_process.values():
        own.sort(key=lambda each: each[0])
        reach = -1.0
        for position, (start, end, node) in enumerate(own):
            if (
                node.count == 1 and start == node.start_s
            ):  # folded tasks are left out: they began while others of them ran
                ready = max(
                    [node.submit_s, node_s, *(nodes[each].end_s + node.delay_s for each in node.deps)]
                )
                if node.kind == CALL:
                    ready = min(start, max(ready, made.get(node.actor, ready)))
                node.is_first = position == 0
                freed = max(
                    (
                        held[name].freed(ready, start, amount)
                        for name, amount in node.resources.items()
                        if name in held
                    ),
                    default=-1.0,
                )
                node.lag_s = max(0.0, start - max(ready, freed, reach if reach <= start else ready))
                if node.is_first and freed < 0:
                    unsure.append(node)
            reach = max(reach, end)
    _set_inside(nodes)
    _cap_starts(nodes, unsure, room.get("CPU", 0.0))
    _set_pauses(nodes, held)
    for program in programs:
        for op in program.ops:
            _set_wake(op, nodes)
    for node in nodes:
        for op in node.program or ():
            _set_wake(op, nodes)


def _cap_starts(nodes: Sequence[RunNode], unsure: Sequence[RunNode], cpus: float) -> None:
    """A worker that is started while others run waits for a CPU first. A task that waits in a get may lend its CPU.

    The records do not tell when a CPU was lent. Assumed: the first such worker was started for the first CPU that was
    lent, the second for the second; and no start lasted longer than the starts at the beginning, which had free CPUs.
    """
    firsts = sorted(
        (node for node in nodes if node.is_first and node.kind == TASK and node.resources.get("CPU")),
        key=lambda node: node.start_s,
    )
    taken = list(accumulate(node.resources["CPU"] for node in firsts))
    early = firsts[: bisect_right(taken, cpus + 1e-9)]
    if not early or len(early) == len(firsts):
        return
    longest = max(node.lag_s for node in early)
    lent = sorted(
        op.at_s for node in nodes if node.kind == TASK for op in node.program or () if op.kind == WAIT
    )
    late = {node.key for node in unsure}
    for place, node in enumerate(firsts[len(early) :]):
        if node.key in late:
            node.lag_s = min(node.lag_s, longest)
            if place < len(lent) and lent[place] <= node.start_s:
                node.lag_s = min(node.lag_s, node.start_s - lent[place])


class _Held:
    """How much of one resource was held at each moment."""

    def __init__(self, nodes: Sequence[RunNode], name: str, room: float) -> None:
        changes: list[tuple[float, float]] = []
        for node in nodes:
            amount = node.resources.get(name, 0.0)
            if not amount or node.count > 1:
                continue
            for start, end, _ in node.ran():
                # An actor holds its resources after its constructor: their release is not in the records.
                changes += [(start, amount)] if node.kind == CREATE else [(start, amount), (end, -amount)]
            for op in node.program or () if node.kind == TASK else ():
                if op.kind == WAIT:
                    changes += [(op.at_s, -amount), (op.at_s + op.waited_s, amount)]
        changes.sort()
        self._room = room
        self._times = [at for at, _ in changes]
        self._sums = list(accumulate(change for _, change in changes))
        self._frees = [at for at, change in changes if change < 0]

    def freed(self, ready: float, start: float, amount: float) -> float:
        """When what a task asks for became free, after it was ready; -1 if the task did not wait for that."""
        last = bisect_right(self._frees, start) - 1
        if last < 0 or self._frees[last] < ready:
            return -1.0
        before = bisect_left(self._times, self._frees[last]) - 1
        is_full = before >= 0 and self._sums[before] + amount > self._room + 1e-9
        return self._frees[last] if is_full else -1.0


def _set_pauses(nodes: Sequence[RunNode], held: Mapping[str, _Held]) -> None:
    """Set the pause before a retry: the time between two attempts, less the wait for resources. The pause is at most
    the shortest time that any task of this function had between two attempts.
    """
    least: dict[str, float] = {}
    for node in nodes:
        if node.attempts > 1:
            node.pause_s = min(node.pause_s, _pauses_with_a_place(node, held))
            each = node.pause_s / (node.attempts - 1)
            least[node.name] = min(least.get(node.name, each), each)
    for node in nodes:
        if node.attempts > 1:
            node.pause_s = least[node.name] * (node.attempts - 1)


def _pauses_with_a_place(node: RunNode, held: Mapping[str, _Held]) -> float:
    """The time between the attempts of a task in which the resources that it asks for were free."""
    found = 0.0
    for (_, ended, _), (begun, _, _) in pairwise(node.ran()):
        freed = [
            held[name].freed(ended, begun, amount) for name, amount in node.resources.items() if name in held
        ]
        found += max(0.0, begun - max([ended, *freed]))
    return found if len(node.ran()) == node.attempts else node.pause_s


def _set_wake(op: Op, nodes: Sequence[RunNode]) -> None:
    if op.kind == WAIT and op.nodes:
        ends = sorted(nodes[each].end_s for each in op.nodes)
        late = op.at_s + op.waited_s - (ends[op.need - 1] if op.need else ends[-1])
        op.wake_s = late if 0 <= late <= op.waited_s else -1.0
