"""What each program did, in order: its submissions, its waits, and the time of its own between them.

Owns the making of programs of drivers and of tasks that submit or wait themselves. A program whose waits overlap is an
asyncio one (or has threads): its waits are taken together, and a task that it submitted meanwhile follows the wait that
had ended last. Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sundog.advice.run import COMPUTE, INIT, SUBMIT, TASK, WAIT, Op, Program, RunNode

if TYPE_CHECKING:
    from sundog.advice.reading import Finder, Span

_LATE_S = 0.002
_LEAST_S = 1e-6
# Calls that Serve makes in the background as long as a program lives: not steps of the program.
_HOUSEKEEPING = frozenset(
    ("ControllerActor.listen", "ControllerActor.report", "ReplicaActor.parked", "ProxyActor.parked")
)

Ran = tuple[float, float, RunNode]  # from when to when a process ran it


def build_programs(
    programs: Sequence[Program],
    nodes: Sequence[RunNode],
    spans: Sequence[Span],
    finder: Finder,
    ids: Mapping[int, bytes],
    folded: bool,
) -> None:
    """Fill in what drivers and tasks did.

    Args:
        programs: the drivers; their steps are added.
        nodes: all tasks; those that did something themselves get a program.
        spans: all gets and waits, in order.
        finder: of the nodes.
        ids: the id of each process.
        folded: small neighbours were folded into one: gets of them are too.
    """
    submits: dict[bytes, list[RunNode]] = defaultdict(list)
    for node in nodes:
        submits[node.owner].append(node)
    waits: dict[bytes, list[Span]] = defaultdict(list)
    for span in spans:
        of = finder.of(span.object[:8], int.from_bytes(span.object[8:16], "little"))
        if of is None or of.name not in _HOUSEKEEPING:
            waits[ids[span.process]].append(span)
    for program in programs:
        own = ids[program.process]
        program.ops = _steps(
            submits.pop(own, []), waits.pop(own, []), program.begin_s, program.end_s, finder, folded
        )
        _tell_init(program)
    _inner(nodes, submits, waits, finder, {v: k for k, v in ids.items()})


def _tell_init(program: Program) -> None:
    """The time until init() returned is not the program's own: a step of its own."""
    first = program.ops[0] if program.ops else None
    if first is None or first.kind != COMPUTE:
        return
    took = min(first.seconds, program.joined_s - program.begin_s)
    if took > _LEAST_S:
        rest = Op(COMPUTE, first.seconds - took, at_s=first.at_s + took)
        program.ops[:1] = [Op(COMPUTE, took, site=INIT, at_s=first.at_s), rest]


def _inner(
    nodes: Sequence[RunNode],
    submits: Mapping[bytes, list[RunNode]],
    waits: Mapping[bytes, list[Span]],
    finder: Finder,
    numbers: Mapping[bytes, int],
) -> None:
    """Programs of tasks: what a worker submitted or waited for is of the task that ran in it then."""
    busy = {numbers[own] for own in (*submits, *waits) if own in numbers}
    ids = {number: each for each, number in numbers.items()}
    ran: dict[int, list[Ran]] = defaultdict(list)
    for node in nodes:
        for start, end, process in node.ran() if node.count == 1 else ():
            if process in busy:
                ran[process].append((start, end, node))
    for process, own in ran.items():
        own.sort(key=lambda each: (each[0], -each[1]))
        open_at = _OpenAt(own)
        id_ = ids[process]
        its_submits: dict[int, list[RunNode]] = defaultdict(list)
        its_waits: dict[int, list[Span]] = defaultdict(list)
        for child in submits.get(id_, ()):
            parent = open_at(child.submit_s)
            if parent is not None:
                its_submits[parent.key].append(child)
        for span in waits.get(id_, ()):
            parent = open_at(span.start_s, span)
            if parent is not None:
                its_waits[parent.key].append(span)
        for position, (start, end, node) in enumerate(own):
            is_last = end >= node.end_s - _LEAST_S  # for a retried node, the steps of its last attempt
            if is_last and (node.key in its_submits or node.key in its_waits):
                mine, spans = its_submits[node.key], its_waits[node.key]
                inside = _inside(own, position)
                ops = _steps(mine, spans, start, end, finder, False, inside)
                node.program = ops
                node.work_s = node.wasted_s + sum(op.seconds for op in ops if op.kind == COMPUTE)


class _OpenAt:
    """Which task ran in a process at a moment: of several, the one that began last.

    A worker that waits for a task may run this task itself, which may wait in turn. So a task can be open while
    thousands of others begin and end inside it: each task knows the task that was open when it began.
    """

    def __init__(self, own: Sequence[Ran]) -> None:
        self._own = own
        self._starts = [start for start, _, _ in own]
        self._outer: list[int] = []
        still: list[int] = []
        for position, (start, _, _) in enumerate(own):
            while still and own[still[-1]][1] < start:
                still.pop()
            self._outer.append(still[-1] if still else -1)
            still.append(position)

    def __call__(self, moment: float, span: Span | None = None) -> RunNode | None:
        """The task that ran then; for a get or wait, one that it is not for."""
        position = bisect_right(self._starts, moment) - 1
        while position >= 0:
            start, end, node = self._own[position]
            if start <= moment <= end + _LEAST_S and not (span and _is_awaited(node, span)):
                return node
            position = self._outer[position]
        return None


def _is_awaited(node: RunNode, span: Span) -> bool:
    """Whether a get or wait is for this task. At the moment of its end both it and the one that waits seem to run."""
    first = int.from_bytes(span.object[8:16], "little")
    low, high = min(first, span.last), max(first, span.last)
    if node.owner != span.object[:8]:
        return False
    return node.number == first if span.count == 1 else low <= node.number <= high


def _inside(own: Sequence[Ran], position: int) -> list[Ran]:
    """Tasks that ran inside a waiting task: its worker ran them itself instead of sending them to another worker."""
    _, end, node = own[position]
    found: list[Ran] = []
    reach = 0.0
    for later in range(position + 1, len(own)):
        start, last, each = own[later]
        if start >= end:
            break
        if each.kind == TASK and not node.actor and last <= end + _LEAST_S and start >= reach:
            found.append((start, last, each))
            reach = last
    return found


def _steps(
    submits: Sequence[RunNode],
    spans: Sequence[Span],
    begin: float,
    end: float,
    finder: Finder,
    folded: bool,
    inside: Sequence[Ran] = (),
) -> list[Op]:
    moments: list[tuple[float, int, RunNode | Span | Ran]] = [(node.submit_s, 0, node) for node in submits]
    moments += [(span.start_s, 1, span) for span in spans]
    moments += [(ran[0], 1, ran) for ran in inside]
    moments.sort(key=lambda each: each[:2])
    steps = _Steps(begin, finder, folded)
    for moment, _, what in moments:
        overlaps = steps.pass_to(moment)
        if isinstance(what, RunNode):
            steps.submit(what, moment, overlaps)
        elif isinstance(what, tuple):
            steps.run_inside(what, overlaps)
        else:
            steps.wait(what, overlaps)
    if end > steps.at:
        steps.ops.append(Op(COMPUTE, end - steps.at, at_s=steps.at))
    return steps.ops


class _Steps:
    """The steps of one program, added in the order of time."""

    def __init__(self, begin: float, finder: Finder, folded: bool) -> None:
        self.ops: list[Op] = []
        self.at = begin  # the program's time is accounted for up to here
        self._finder, self._folded = finder, folded
        self._cluster_end = begin  # the end of an open wait
        # overlapping waits: the end of each, and its targets
        self._ended: list[tuple[float, tuple[int, ...]]] = []
        self._inline: Op | None = None  # a get began here, and this process ran the awaited task itself

    def pass_to(self, moment: float) -> bool:
        """Time passes; whether a wait is open at this moment."""
        if moment < self._cluster_end - _LEAST_S:
            return True
        if moment > self.at:
            self.ops.append(Op(COMPUTE, moment - self.at, at_s=self.at))
        self.at = max(self.at, moment)
        self._ended = []
        return False

    def submit(self, node: RunNode, moment: float, overlaps: bool) -> None:
        """A submission."""
        self._inline = None
        op = Op(SUBMIT, node=node.key, site=node.site, at_s=moment)
        if overlaps:
            _follow(node, moment, self._ended)
            _insert_before_wait(self.ops, op)
        else:
            self.ops.append(op)

    def run_inside(self, ran: Ran, overlaps: bool) -> None:
        """A task that ran inside another task of this process, which waited for it."""
        if not overlaps:
            start, end, node = ran
            self.ops.append(Op(WAIT, nodes=(node.key,), at_s=start, waited_s=end - start, refs=1))
            self.at = max(self.at, end)
            self._inline = self._inline or self.ops[-1]

    def wait(self, span: Span, overlaps: bool) -> None:
        """A get or wait."""
        nodes, need = _waited_for(span, self._finder)
        took = span.end_s - span.start_s
        if not nodes and not overlaps:  # an object that no task made: its time counts as the program's own
            self.ops.append(Op(COMPUTE, took, site=span.site, at_s=span.start_s))
            self.at = max(self.at, span.end_s)
            return
        last = self.ops[-1] if self.ops else None
        if self._inline is not None and not span.is_wait and not overlaps:
            _take_in(self.ops, self._inline, span, nodes)
            self._inline = None
        elif overlaps and last is not None and last.kind == WAIT:
            last.nodes = tuple(dict.fromkeys((*last.nodes, *nodes)))
            last.need = 0
            last.calls += 1
            last.refs += span.count
            last.waited_s = max(self._cluster_end, span.end_s) - last.at_s
        elif self._folded and last is not None and _is_same(last, span, nodes):
            last.calls += 1
            last.waited_s += took
        else:
            self.ops.append(
                Op(WAIT, 0.0, -1, nodes, need, span.site, span.start_s, took, span.is_wait, span.count)
            )
        self._ended.append((span.end_s, nodes))
        self._cluster_end = max(self._cluster_end, span.end_s)
        self.at = max(self.at, self._cluster_end)


def _take_in(ops: list[Op], first: Op, span: Span, nodes: tuple[int, ...]) -> None:
    """A get that ran the awaited tasks in its own process becomes one wait, from the first of these tasks on."""
    start = next(position for position, op in enumerate(ops) if op is first)
    inner = [each for op in ops[start:] if op.kind == WAIT for each in op.nodes]
    del ops[start:]
    keys = tuple(dict.fromkeys((*nodes, *inner)))
    ops.append(Op(WAIT, 0.0, -1, keys, 0, span.site, first.at_s, span.end_s - first.at_s, False, span.count))


def _is_same(op: Op, span: Span, nodes: tuple[int, ...]) -> bool:
    return op.kind == WAIT and op.site == span.site and op.nodes == nodes


def _follow(node: RunNode, moment: float, ended: Sequence[tuple[float, tuple[int, ...]]]) -> None:
    """A task that was submitted while other waits were open follows the wait that had ended last."""
    before = [(end, nodes) for end, nodes in ended if end <= moment and nodes and node.key not in nodes]
    if before:
        end, nodes = max(before)
        node.deps = tuple(dict.fromkeys((*node.deps, *nodes)))
        node.delay_s = max(0.0, moment - end)


def _insert_before_wait(ops: list[Op], op: Op) -> None:
    if ops and ops[-1].kind == WAIT:
        ops.insert(len(ops) - 1, op)
    else:
        ops.append(op)


def _waited_for(span: Span, finder: Finder) -> tuple[tuple[int, ...], int]:
    """The tasks that a get or wait was about, and how many of them had to end (0: all)."""
    owner = span.object[:8]
    first = int.from_bytes(span.object[8:16], "little")
    low, high = min(first, span.last), max(first, span.last)
    if span.count == 1:
        node = finder.of(owner, first)
        found = [node] if node is not None else []
    else:
        found = list(finder.between(owner, low, high))
    if not span.is_wait:
        ended = [node for node in found if node.count > 1 or node.end_s <= span.end_s + _LATE_S]
        return tuple(node.key for node in ended), 0
    over = sum(node.count for node in found) - span.count  # refs that were removed from the list before
    need = max(0, over) + span.wanted
    keys = tuple(node.key for node in found)
    return keys, min(need, len(keys))
