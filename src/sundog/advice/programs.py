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

from sundog.advice.run import COMPUTE, SUBMIT, WAIT, Node, Op, Program

if TYPE_CHECKING:
    from sundog.advice.reading import Finder, Span

_LATE_S = 0.002
_LEAST_S = 1e-6


def build_programs(
    programs: Sequence[Program],
    nodes: Sequence[Node],
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
    submits: dict[bytes, list[Node]] = defaultdict(list)
    for node in nodes:
        submits[node.owner].append(node)
    waits: dict[bytes, list[Span]] = defaultdict(list)
    for span in spans:
        waits[ids[span.process]].append(span)
    for program in programs:
        own = ids[program.process]
        program.ops = _steps(
            submits.pop(own, []), waits.pop(own, []), program.begin_s, program.end_s, finder, folded
        )
    _inner(nodes, submits, waits, finder, {v: k for k, v in ids.items()})


def _inner(
    nodes: Sequence[Node],
    submits: Mapping[bytes, list[Node]],
    waits: Mapping[bytes, list[Span]],
    finder: Finder,
    numbers: Mapping[bytes, int],
) -> None:
    """Programs of tasks: what a worker submitted or waited for is of the task that ran in it then."""
    busy = {numbers[own] for own in (*submits, *waits) if own in numbers}
    ran: dict[int, list[Node]] = defaultdict(list)
    for node in nodes:
        if node.process in busy and node.count == 1:
            ran[node.process].append(node)
    for process, own in ran.items():
        own.sort(key=lambda node: node.start_s)
        starts = [node.start_s for node in own]
        id_ = next(each for each, number in numbers.items() if number == process)
        its_submits: dict[int, list[Node]] = defaultdict(list)
        its_waits: dict[int, list[Span]] = defaultdict(list)
        for child in submits.get(id_, ()):
            parent = _running(own, starts, child.submit_s)
            if parent is not None:
                its_submits[parent.key].append(child)
        for span in waits.get(id_, ()):
            parent = _running(own, starts, span.start_s)
            if parent is not None:
                its_waits[parent.key].append(span)
        for node in own:
            if node.key in its_submits or node.key in its_waits:
                mine, spans = its_submits[node.key], its_waits[node.key]
                ops = _steps(mine, spans, node.start_s, node.end_s, finder, False)
                node.program = ops
                node.work_s = sum(op.seconds for op in ops if op.kind == COMPUTE)


def _running(own: Sequence[Node], starts: Sequence[float], moment: float) -> Node | None:
    position = bisect_right(starts, moment) - 1
    for each in range(position, max(-1, position - 8), -1):
        if own[each].start_s <= moment <= own[each].end_s + _LEAST_S:
            return own[each]
    return None


def _steps(
    submits: Sequence[Node], spans: Sequence[Span], begin: float, end: float, finder: Finder, folded: bool
) -> list[Op]:
    moments: list[tuple[float, int, Node | Span]] = [(node.submit_s, 0, node) for node in submits]
    moments += [(span.start_s, 1, span) for span in spans]
    moments.sort(key=lambda each: each[:2])
    ops: list[Op] = []
    at = begin  # until when the program's time is told
    cluster_end = begin  # until when a wait is open
    ended: list[tuple[float, tuple[int, ...]]] = []  # waits that overlap: when each ended, for what
    for moment, _, what in moments:
        overlaps = moment < cluster_end - _LEAST_S
        if not overlaps:
            if moment > at:
                ops.append(Op(COMPUTE, moment - at, at_s=at))
            at = max(at, moment)
            ended = []
        if isinstance(what, Node):
            if overlaps:
                _follow(what, moment, ended)
                _insert_before_wait(ops, Op(SUBMIT, node=what.key, site=what.site, at_s=moment))
            else:
                ops.append(Op(SUBMIT, node=what.key, site=what.site, at_s=moment))
            continue
        span = what
        nodes, need = _waited_for(span, finder)
        if not nodes and not overlaps:  # of an object that no task made: its time is like the program's own
            ops.append(Op(COMPUTE, span.end_s - span.start_s, site=span.site, at_s=span.start_s))
            at = max(at, span.end_s)
            continue
        ended.append((span.end_s, nodes))
        if overlaps and ops and ops[-1].kind == WAIT:
            last = ops[-1]
            last.nodes = tuple(dict.fromkeys((*last.nodes, *nodes)))
            last.need = 0
            last.calls += 1
            last.refs += span.count
            last.waited_s = max(cluster_end, span.end_s) - last.at_s
        elif folded and ops and _is_same(ops[-1], span, nodes):
            ops[-1].calls += 1
            ops[-1].waited_s += span.end_s - span.start_s
        else:
            ops.append(
                Op(
                    WAIT, 0.0, -1, nodes, need, span.site, span.start_s, span.end_s - span.start_s, span.is_wait,
                    span.count,
                )
            )  # fmt: skip
        cluster_end = max(cluster_end, span.end_s)
        at = max(at, cluster_end)
    if end > at:
        ops.append(Op(COMPUTE, end - at, at_s=at))
    return ops


def _is_same(op: Op, span: Span, nodes: tuple[int, ...]) -> bool:
    return op.kind == WAIT and op.site == span.site and op.nodes == nodes


def _follow(node: Node, moment: float, ended: Sequence[tuple[float, tuple[int, ...]]]) -> None:
    """A task that was submitted while other waits were open follows the one that had ended last."""
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
    over = sum(node.count for node in found) - span.count  # refs that were taken out of the list before
    need = max(0, over) + span.wanted
    keys = tuple(node.key for node in found)
    return keys, min(need, len(keys))
