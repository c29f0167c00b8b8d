"""Faults of waiting: get in a loop, get in submission order, a get inside a task. Pure but for the source files."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping

from sundog.advice import mending
from sundog.advice.findings import LEAST_SHARE, Draft
from sundog.advice.findings_actors import shared_by_alike
from sundog.advice.outer_turns import turns_of_outer
from sundog.advice.pacing import is_paced, waits_for_other_calls
from sundog.advice.run import CALL, COMPUTE, CREATE, SUBMIT, WAIT, Op, Program, Run, RunNode, op_with, with_
from sundog.advice.source import Sources, place_of
from sundog.advice.turns import (
    Turns,
    loop_at,
    name_of,
    turns_are_alike,
    turns_need_each_other,
)

_LEAST_TIMES = 3
_LONELY_SHARE = 0.7
_PROLOGUE_S = 1e-3
_LATE_S = 0.002
_LENT_SHARE = 0.2
_BATCH_SHARE = 0.2


def get_in_loop(run: Run, sources: Sources) -> Iterator[Draft]:
    """submit, get, submit, get: each get waits for what was submitted since the one before it."""
    # The task or method with the loop may have run many times: the change applies to all its calls.
    owners: dict[tuple[str, ...], list[Program | RunNode]] = defaultdict(list)
    for owner, ops in run.owners():
        for sites in _loops(run, ops, sources):
            owners[sites].append(owner)
    for sites, own in owners.items():
        follow = _gaps_follow(sources, sites)
        changed, nodes, waits = run, set[int](), list[Op]()
        for owner in own:
            now = _same(changed, owner)
            ops = now.ops if isinstance(now, Program) else now.program or []
            waits += [op for op in ops if op.kind == WAIT and op.site in sites]
            changed, more = _all_at_once(
                changed, now, ops, sites, follow, turns_of_outer(ops, sites, sources)
            )
            nodes |= more
        if _is_in_library(sources, sites):
            changed = shared_by_alike(changed, nodes)
        yield _loop_draft(run, sources, sites, changed, nodes, waits)


def _same(run: Run, owner: Program | RunNode) -> Program | RunNode:
    """The same driver or task in another run."""
    if isinstance(owner, RunNode):
        return run.nodes[owner.key]
    return next(each for each in run.programs if each.process == owner.process)


def _loop_draft(
    run: Run, sources: Sources, sites: tuple[str, ...], changed: Run, nodes: set[int], waits: list[Op]
) -> Draft:
    waited = sum(op.waited_s for op in waits)
    often = sum(op.calls for op in waits)
    site = max(sites, key=lambda each: sum(op.waited_s for op in waits if op.site == each))
    names = sorted({run.nodes[each].name for each in nodes})
    what = ", ".join(names[:3])
    refs = sum(op.refs for op in waits) / max(1, len(waits))
    return Draft(
        "get-in-loop",
        f"get in a loop: {what} runs one at a time",
        site,
        often,
        waited,
        f"{often} gets waited {waited:.2f} s, each for what had been submitted since the one before it",
        mending.get_in_loop_words(sources, site),
        changed,
        mending.get_in_loop_diff(sources, site),
        # Batches that fill the CPUs are intended: they limit the memory in use, or go along in step.
        least_share=_BATCH_SHARE if refs >= run.cpus > 1 else LEAST_SHARE,
        sites=frozenset({*sites, *(run.nodes[each].site for each in nodes)}),
    )


def _loops(run: Run, ops: list[Op], sources: Sources) -> list[tuple[str, ...]]:
    """Sites whose gets wait for what was just submitted, by loop; only of loops whose turns do not need each other."""
    since: set[int] = set()
    fresh: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    marks: dict[str, set[int]] = defaultdict(set)
    for op in ops:
        if op.kind == SUBMIT:
            since.add(op.node)
            for mark in marks.values():
                mark.add(op.node)
        elif op.kind == WAIT and op.site and op.nodes:
            seen = fresh[op.site]
            seen[1] += op.calls
            is_new = set(op.nodes) <= (marks[op.site] if seen[1] > op.calls else since)
            if is_new and (not op.is_wait or _is_for_all(run, op)):
                seen[0] += op.calls
            marks[op.site] = set()
    lonely = [
        site for site, (own, all_) in fresh.items() if all_ >= _LEAST_TIMES and own >= _LONELY_SHARE * all_
    ]
    groups: dict[object, list[str]] = defaultdict(list)
    for site in lonely:
        found = loop_at(sources, site)
        if found is None:
            groups[site].append(site)
            continue
        loop = found.loop
        if loop is None or _is_meant(run, ops, site, sources, found):
            continue
        if not turns_need_each_other(found):
            groups[found.source.file, loop.lineno, loop.col_offset].append(site)
    return [tuple(each) for each in groups.values()]


def _is_for_all(run: Run, op: Op) -> bool:
    """Whether a `wait` was for all that it was given, and ended when they had."""
    ended = max(run.nodes[each].end_s for each in op.nodes)
    return op.need in (0, len(op.nodes)) and ended <= op.at_s + op.waited_s + _LATE_S


def _is_meant(run: Run, ops: list[Op], site: str, sources: Sources, found: Turns) -> bool:
    """Whether a loop waits on purpose: it keeps to a clock, makes the same calls of actors again and again (steps in
    time), or waits for what other calls of an asyncio actor give it.
    """
    if is_paced(found):
        return True
    nodes = [run.nodes[each] for op in ops if op.kind == WAIT and op.site == site for each in op.nodes]
    if all(node.kind == CALL for node in nodes) and turns_are_alike(found):
        return True
    calls = {node.name: node for node in nodes if node.kind == CALL and node.actor in run.concurrent}
    for name, node in calls.items():
        if found.waits and not found.gets and name.startswith("_"):
            return True  # an actor of a library, as a queue's
        place = sources.at(node.site)
        definition = place[0].definition(name) if place is not None else None
        if definition is not None and waits_for_other_calls(definition):
            return True
    return False


def _gaps_follow(sources: Sources, sites: tuple[str, ...]) -> bool:
    """Whether the program's own time in a turn comes after the get and needs its result."""
    last = max(sites, key=lambda site: (place_of(site) or place_of("?:0")).line)  # type: ignore[union-attr]
    found = loop_at(sources, last)
    if found is None or found.loop is None:
        return True
    source, loop, waits = found.source, found.loop, found.waits
    if not isinstance(loop, ast.For | ast.AsyncFor | ast.While) or not waits:
        return False
    statement = source.statement_of(waits[0])
    after = [each for each in loop.body if each.lineno > (statement.end_lineno or statement.lineno)]
    own = statement if isinstance(statement, ast.Expr) else None
    wrapped = own is not None and isinstance(own.value, ast.Call) and own.value not in waits
    calls_after = any(isinstance(node, ast.Call) for each in after for node in ast.walk(each))
    is_store = wrapped and name_of(own.value.func) in ("append", "extend", "add", "update")  # type: ignore[union-attr]
    return calls_after or (wrapped and not is_store)


def _is_in_library(sources: Sources, sites: tuple[str, ...]) -> bool:
    """Whether the gets are in a library: a pool's own, which shares the work among its actors."""
    found = [loop_at(sources, site) for site in sites]
    return all(each is not None and bool(each.waits) and not each.gets for each in found)


def _all_at_once(
    run: Run,
    owner: Program | RunNode,
    ops: list[Op],
    sites: tuple[str, ...],
    gaps_follow: bool,
    count: int = 0,
) -> tuple[Run, set[int]]:
    """The run with everything of a loop submitted first, and awaited after that.

    `count`: how many waits each turn of the loop around it has, if such a turn needs the one before; else 0.
    """
    places = [position for position, op in enumerate(ops) if op.kind == WAIT and op.site in sites]
    last_site = max(sites, key=lambda site: (place_of(site) or place_of("?:0")).line)  # type: ignore[union-attr]
    first = places[0]
    while first > 0 and ops[first - 1].kind != WAIT:
        first -= 1
    steps: list[Op] = list(ops[:first])
    nodes: set[int] = set()
    changed: dict[int, RunNode] = {}
    for begin in range(0, len(places), count or len(places)):
        last = places[min(len(places), begin + (count or len(places))) - 1]
        more, behind = _turned(run, ops[first : last + 1], sites, last_site, gaps_follow)
        steps += more
        changed.update(behind)
        first = last + 1
    for each in places:
        nodes |= set(ops[each].nodes)
    other = run.with_ops(owner, [*steps, *ops[first:]])
    kept = [with_(node, program=other.nodes[key].program) for key, node in changed.items()]
    return in_line(other.changed(kept), nodes), nodes


def _turned(
    run: Run, middle: list[Op], sites: tuple[str, ...], last_site: str, gaps_follow: bool
) -> tuple[list[Op], dict[int, RunNode]]:
    """The steps of a loop with its submissions first; and those tasks that follow others of their turn."""
    submits: list[Op] = []
    waits: list[Op] = []
    changed: dict[int, RunNode] = {}
    got: list[int] = []  # results got in this turn
    after_wait = False
    for position, op in enumerate(middle):
        if _is_prologue(middle, position, sites):
            continue
        if op.kind == WAIT and op.site in sites:
            waits.append(op_with(op, wake_s=-1.0))
            got.extend(op.nodes)
            if op.site == last_site:
                got = []
            after_wait = True
        elif op.kind == COMPUTE and after_wait and gaps_follow:
            waits.append(op)
        else:
            if op.kind == SUBMIT:
                after_wait = False
                if got:
                    node = run.nodes[op.node]
                    changed[op.node] = with_(node, deps=tuple({*node.deps, *got}))
            submits.append(op)
    return [*submits, *waits], changed


def in_line(run: Run, keys: set[int]) -> Run:
    """Tasks and calls that stand in line start when the one before them ends: no worker has to be woken up for them."""
    costs = run.costs
    nodes = [run.nodes[key] for key in keys if not run.nodes[key].is_first]
    return run.changed(
        with_(node, lag_s=min(node.lag_s, costs.call_s if node.kind == CALL else costs.busy_s))
        for node in nodes
    )


def _is_prologue(ops: list[Op], position: int, sites: tuple[str, ...]) -> bool:
    """Whether a moment of the program's own is the way from a submission into its get."""
    if ops[position].kind != COMPUTE or not 0 < position < len(ops) - 1:
        return False
    after = ops[position + 1]
    is_between = ops[position - 1].kind == SUBMIT and after.kind == WAIT and after.site in sites
    return is_between and ops[position].seconds < _PROLOGUE_S


def get_in_order(run: Run, sources: Sources) -> Iterator[Draft]:
    """Results are taken in the order of submission while later ones are there already, and worked on."""
    for owner, ops in run.owners():
        by_site: dict[str, list[int]] = defaultdict(list)
        for position, op in enumerate(ops):
            if op.kind == WAIT and not op.is_wait and op.site and len(op.nodes) == 1:
                by_site[op.site].append(position)
        for site, places in by_site.items():
            draft = _in_order(run, owner, ops, site, places, sources)
            if draft is not None:
                yield draft


def _in_order(
    run: Run, owner: Program | RunNode, ops: list[Op], site: str, places: list[int], sources: Sources
) -> Draft | None:
    first, last = places[0], places[-1]
    waited = [ops[each].nodes[0] for each in places]
    if any(op.kind == SUBMIT for op in ops[first : last + 1]) or waited != sorted(waited):
        return None
    found = loop_at(sources, site)
    if found is not None and found.loop is None:
        return None
    # Results that were ready were got without a recorded wait: count everything submitted at the same lines.
    lines = {_line(run.nodes[each].site) for each in waited}
    before = {op.node for op in ops[:first] if op.kind == SUBMIT and run.nodes[op.node].kind != CREATE}
    group = sorted(each for each in before if _line(run.nodes[each].site) in lines)
    if len(group) < _LEAST_TIMES or len(lines) > 1 or not set(waited) <= set(group):
        return None
    end = last + 1
    own = sum(op.seconds for op in ops[first:end] if op.kind == COMPUTE)
    begin, done = group.index(waited[0]), group.index(waited[-1])
    left = (
        len(group) - done
    )  # the task that was waited for last, and the later ones, are processed after that
    tail = ops[end : end + 1] if end < len(ops) and ops[end].kind == COMPUTE else []
    after = tail[0].seconds if tail else 0.0
    if done > begin:
        after = min(after, own / (done - begin) * left)
    if own + after <= 0:
        return None
    each_s = (own + after) / (len(group) - begin)
    nodes = tuple(group)
    steps: list[Op] = []
    for number in range(begin + 1, len(group) + 1):
        steps += [Op(WAIT, nodes=nodes, need=number, site=site), Op(COMPUTE, each_s)]
    rest = list(ops[end:])
    if tail:
        rest[0] = op_with(tail[0], seconds=max(0.0, tail[0].seconds - after))
    early = [op for op in ops[:first] if not (op.kind == WAIT and op.site == site)]
    cost = sum(ops[each].waited_s for each in places)
    name = run.nodes[group[0]].name
    return Draft(
        "get-in-order",
        f"get in submission order: a slow {name} holds up the results behind it",
        site,
        len(group),
        cost,
        f"the program waited {cost:.2f} s for results in their order, then worked {own + after:.2f} s on "
        f"{len(group)} of them",
        "Take each result when it is there: wait() gives the ones that are ready first.",
        run.with_ops(owner, [*early, *steps, *rest]),
        mending.get_in_order_diff(sources, site),
        sites=frozenset(run.nodes[each].site for each in group),
    )


def _line(site: str) -> str:
    """A site without its function: on one line, a comprehension has another function than the code around it."""
    return site.partition(" in ")[0]


def nested_get(run: Run, sources: Sources) -> Iterator[Draft]:
    """A task or call that waits in get holds its worker, and its actor."""
    by_site: dict[str, list[RunNode]] = defaultdict(list)
    for node in run.nodes:
        for op in node.program or ():
            # A wait without a line in the records is left out: a reader could not find what to change.
            if op.kind == WAIT and op.nodes and op.waited_s > 0 and op.site:
                by_site[op.site].append(node)
    for site, nodes in by_site.items():
        unique = {node.key: node for node in nodes}
        cost = 0.0
        places: dict[int, int] = {}
        for node in unique.values():
            ops = node.program or []
            place = next(position for position, op in enumerate(ops) if op.kind == WAIT and op.site == site)
            cost += sum(op.waited_s for op in ops if op.kind == WAIT and op.site == site)
            if any(op.kind == SUBMIT for op in ops[place:]):
                break  # the next step needs the result
            places[node.key] = place
        if len(places) == len(unique):
            name = next(iter(unique.values())).name
            yield Draft(
                "nested-get",
                f"get inside {name} holds its {'actor' if nodes[0].actor else 'worker'}",
                site,
                len(nodes),
                cost,
                f"{len(nodes)} calls of {name} waited {cost:.2f} s for tasks of their own, each in a process that did "
                "nothing else meanwhile",
                "Return the refs instead of their values, or give them to a task as arguments: it starts when they "
                "are there.",
                _handed_on(run, places),
                # A task lends its CPU while it waits, so only a waiting actor blocks others.
                least_share=LEAST_SHARE if nodes[0].actor else _LENT_SHARE,
                sites=frozenset(node.site for node in nodes),
            )


def _handed_on(run: Run, places: Mapping[int, int]) -> Run:
    """Nodes without their waits: each ends at once, and tasks that wait for it also wait for what it waited for.

    Args:
        run: the run.
        places: the step of each node at which it waits.
    """
    behind: dict[int, tuple[int, ...]] = {}
    changed: list[RunNode] = []
    added: list[RunNode] = []
    # The tasks that a node submits have larger keys: what is behind them is known before the node's own turn.
    for key in sorted(places, reverse=True):
        node, place = run.nodes[key], places[key]
        ops = node.program or []
        inner = _with_more(ops[place].nodes, behind)
        rest = sum(op.seconds for op in ops[place + 1 :] if op.kind == COMPUTE)
        steps = list(ops[:place])
        if rest > 0.001:
            late = with_(
                node, key=len(run.nodes) + len(added), program=None, work_s=rest, deps=inner, actor=b"", kind=1,
                is_first=False, lag_s=min(node.lag_s, run.costs.busy_s),
            )  # fmt: skip
            added.append(late)
            steps.append(Op(SUBMIT, node=late.key))
            inner = (late.key,)
        behind[key] = inner
        changed.append(with_(node, program=steps))

    def follow(steps: list[Op]) -> list[Op]:
        return [
            op_with(op, nodes=_with_more(op.nodes, behind)) if op.kind == WAIT and not op.need else op
            for op in steps
        ]

    other = run.changed(changed, added=added).with_each_program(follow)
    own = {node.key for node in added}
    followers = [
        with_(each, deps=_with_more(each.deps, behind))
        for each in other.nodes
        if each.key not in own and any(dep in behind for dep in each.deps)
    ]
    return other.changed(followers)


def _with_more(nodes: tuple[int, ...], behind: Mapping[int, tuple[int, ...]]) -> tuple[int, ...]:
    """Nodes, and what is waited for behind each of them."""
    return tuple(dict.fromkeys(each for node in nodes for each in (node, *behind.get(node, ()))))
