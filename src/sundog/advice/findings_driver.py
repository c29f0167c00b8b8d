"""Faults of the program itself: time of its own while nothing runs (Amdahl's law), and submitting too slowly. Pure but
for the source files."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from sundog.advice.findings import Draft
from sundog.advice.findings_waits import in_line
from sundog.advice.pacing import is_paced
from sundog.advice.run import COMPUTE, INIT, SUBMIT, TASK, WAIT, Op, Program, Run, RunNode, op_with, with_
from sundog.advice.simulator import CannotPlay, play
from sundog.advice.source import LOOPS, Source, Sources, is_remote
from sundog.advice.turns import loop_around, name_of

_LEAST_GAP_S = 0.005
_LEAST_SERIAL_S = 0.1
_SERIAL_SHARE = 0.15
_BUSY = 0.5  # share of the cores used by other programs
_MOSTLY = 0.5
_ALIKE = 0.75  # two stretches of time are of the same code if their lengths differ by no more than that
_BOUND_COUNT = 30
_BOUND_LEAST_S = 3e-4
_BOUND_GAP_S = 0.02
_BOUND_SHARE = 0.3

Gap = tuple[str, str]  # the call sites of the steps before and after the gap


def _gaps(ops: list[Op]) -> dict[Gap, list[int]]:
    """The program's own time, by the lines that it lies between."""
    found: dict[Gap, list[int]] = defaultdict(list)
    before = ""
    for position, op in enumerate(ops):
        before = op.site or before
        if op.kind == COMPUTE and op.seconds > 0 and op.site != INIT:
            after = ops[position + 1].site if position + 1 < len(ops) else ""
            found[before, after].append(position)
    return found


def _idle(run: Run) -> list[tuple[float, float]]:
    """When no task ran."""
    free: list[tuple[float, float]] = []
    reach = 0.0
    for node in sorted(run.nodes, key=lambda node: node.start_s):
        if node.start_s > reach:
            free.append((reach, node.start_s))
        reach = max(reach, node.end_s)
    if reach < run.length_s:
        free.append((reach, run.length_s))
    return free


def _overlap(stretches: list[tuple[float, float]], begin: float, end: float) -> float:
    return sum(max(0.0, min(end, last) - max(begin, first)) for first, last in stretches)


def _storing(run: Run) -> list[tuple[float, float]]:
    """When values were copied into the store. The first copy waits for the session to start."""
    spans = [(begin, end) for begin, end, _, _ in run.puts]
    spans += [(copy.at_s, copy.at_s + copy.seconds) for copy in run.copies]
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def serial_part(run: Run, sources: Sources) -> Iterator[Draft]:
    """Amdahl: the program works by itself while no task runs."""
    idle = _idle(run)
    stored = _storing(run)
    for program in run.programs:
        own = {
            each: op.seconds - _overlap(stored, op.at_s, op.at_s + op.seconds)
            for each, op in enumerate(program.ops)
            if op.kind == COMPUTE
        }
        for (before, after), places in _gaps(program.ops).items():
            places = [each for each in places if own[each] >= _LEAST_GAP_S]
            if before == after:
                places = _with_first_turn(program.ops, own, places, after)
            total = sum(own[each] for each in places)
            if not places or _is_driver_bound(program.ops, places, total):
                continue
            if _waits_for_items(sources, after) or _is_paced(sources, before, after):
                continue
            alone = sum(
                _overlap(idle, op.at_s, op.at_s + op.seconds) for op in (program.ops[each] for each in places)
            )
            if not _is_much(run, program, places, total, alone):
                continue
            site = _line_between(sources, before, after, run.entrypoint)
            if not site:
                continue  # no statement of the program can have taken it: start or end of the program
            count = int(run.cpus)
            changed = _split(run, program, {each: own[each] for each in places}, count)
            several = len(places) >= 3
            if several:
                beside = _as_tasks(run, program, places)
                # If each stretch needs the previous one, tasks gain nothing: only smaller pieces do.
                several = _gains(run, beside, _SERIAL_SHARE / 2) or not _gains(
                    run, changed, _SERIAL_SHARE / 2
                )
                changed = beside if several else changed
            yield Draft(
                "serial-part",
                f"Amdahl's serial part: {total / run.length_s:.0%} of the run is the program's own time",
                site,
                len(places),
                total,
                f"{total:.2f} s in {len(places)} stretch{'es' * (len(places) != 1)} between submissions and gets, "
                f"{alone:.2f} s of it while no task ran",
                "Make it a task too: each turn of the loop submits it, and the next task takes its ref."
                if several
                else f"Split it into tasks ({count} can run at a time), or do it while tasks run.",
                changed,
                least_share=_SERIAL_SHARE / 2,
                sites=frozenset({before, after}),
            )


def _is_much(run: Run, program: Program, places: list[int], total: float, alone: float) -> bool:
    """Whether the program's own time in some stretches is worth saying; `alone` of it passed while no task ran."""
    is_behind = _is_behind_results(program.ops, places)
    if is_behind and alone < _MOSTLY * total:
        return False  # most of it is done while tasks run, as it should be
    # What the program does with results while others of them are being made costs it nothing. And without the time in
    # which other processes had the cores, which is not the program's fault.
    own_s = alone if is_behind else total
    calm = own_s * (1.0 - max(0.0, program.crowded))
    if calm < _LEAST_SERIAL_S or calm < _SERIAL_SHARE * (run.length_s - own_s + calm):
        return False
    # unknown, but other programs used most of the machine
    return not (program.crowded < 0 and run.others > _BUSY and program.load * total < _LEAST_SERIAL_S)


def _is_driver_bound(ops: list[Op], places: list[int], total: float) -> bool:
    """Whether stretches are the concern of `driver_bound`: many short ones, or many between two submissions each."""
    if len(places) < _BOUND_COUNT:
        return False
    return total / len(places) < _BOUND_GAP_S or 2 * _only_sent(ops, places) > len(places)


def _only_sent(ops: list[Op], places: list[int]) -> int:
    """How many of some stretches lie between two submissions, without a wait."""
    return sum(
        0 < each < len(ops) - 1 and ops[each - 1].kind == ops[each + 1].kind == SUBMIT for each in places
    )


def _is_behind_results(ops: list[Op], places: list[int]) -> bool:
    """Whether no submission follows the stretches before the next wait: the program works on results."""
    for place in places:
        after = next((op for op in ops[place + 1 :] if op.kind != COMPUTE), None)
        if after is not None and after.kind == SUBMIT:
            return False
    return True


def _with_first_turn(ops: list[Op], own: dict[int, float], places: list[int], site: str) -> list[int]:
    """The stretches of a loop, with the one before its first submission if that is as long: it is the same code."""
    if len(places) < 3:
        return places
    usual = median(own[each] for each in places)
    for position in range(places[0] - 1, -1, -1):
        if position in own and ops[position + 1].site == site:
            is_alike = _ALIKE * usual <= own[position] <= usual / _ALIKE
            return [position, *places] if is_alike else places
    return places


def _gains(run: Run, changed: Run, share: float) -> bool:
    """Whether a change makes a run shorter by a share of it."""
    try:
        before, after = play(run).length_s, play(changed).length_s
    except CannotPlay:
        return False
    return before - after >= share * before


def _as_tasks(run: Run, program: Program, places: list[int]) -> Run:
    """Each stretch becomes a task of its own, before the task that is submitted after it."""
    added: list[RunNode] = []
    follows: list[RunNode] = []
    ops = list(program.ops)
    got: tuple[int, ...] = ()
    for position, op in enumerate(program.ops):
        if op.kind == WAIT:
            got = op.nodes
        if position not in set(places):
            continue
        key = len(run.nodes) + len(added)
        behind_wait = position > 0 and program.ops[position - 1].kind == WAIT
        node = _own_task(run, key, op, got if behind_wait else (), op.seconds, program.load)
        added.append(node)
        ops[position] = Op(SUBMIT, node=key)
        after = program.ops[position + 1] if position + 1 < len(program.ops) else None
        if after is not None and after.kind == SUBMIT:
            next_ = run.nodes[after.node]
            follows.append(with_(next_, deps=(*next_.deps, key), lag_s=min(next_.lag_s, run.costs.boot_s)))
    keys = tuple(node.key for node in added)
    last = max((position for position, op in enumerate(ops) if op.kind == WAIT), default=-1)
    if last >= 0 and last > max(places):
        ops[last] = op_with(ops[last], nodes=(*ops[last].nodes, *keys))
    else:
        ops.insert(max(places) + 1, Op(WAIT, nodes=keys))
    return run.with_ops(program, ops).changed(follows, added=added)


def _own_task(run: Run, key: int, op: Op, deps: tuple[int, ...], work: float, load: float) -> RunNode:
    # It gets the name of the program's tasks, so that a new worker has the same imports to load for it.
    like = next((node for node in run.nodes if node.kind == TASK and node.resources), None)
    resources = like.resources if like is not None else {"CPU": 1.0}
    name = like.name if like is not None else ""
    return RunNode(
        key, b"", name, TASK, b"", 0, 0, op.at_s, op.at_s, op.at_s + work, work, work * load, 0,
        0, deps=deps, resources=resources, lag_s=run.costs.idle_s,
    )  # fmt: skip


def _split(run: Run, program: Program, places: dict[int, float], count: int) -> Run:
    """The program's own part of each stretch becomes as many tasks as can run at a time."""
    added: list[RunNode] = []
    ops: list[Op] = []
    for position, op in enumerate(program.ops):
        if position not in places:
            ops.append(op)
            continue
        own = []
        for _ in range(max(1, count)):
            key = len(run.nodes) + len(added)
            added.append(_own_task(run, key, op, (), places[position] / max(1, count), program.load))
            own.append(key)
        ops.append(op_with(op, seconds=op.seconds - places[position]))
        ops += [Op(SUBMIT, node=key) for key in own]
        ops.append(Op(WAIT, nodes=tuple(own)))
    return run.with_ops(program, ops).changed(added=added)


def driver_bound(run: Run, sources: Sources) -> Iterator[Draft]:
    """Workers wait because the program works long before it submits each task."""
    for owner, ops in run.owners():
        for (before, after), places in _gaps(ops).items():
            nexts = [each for each in places if each + 1 < len(ops) and ops[each + 1].kind == SUBMIT]
            total = sum(ops[each].seconds for each in nexts)
            calm = total * (1.0 - max(0.0, getattr(owner, "crowded", 0.0)))
            if len(nexts) < _BOUND_COUNT or calm < _BOUND_SHARE * (run.length_s - total + calm):
                continue
            mean = total / len(nexts)
            if _waits_for_items(sources, after) or _is_paced(sources, before, after):
                continue
            if mean < _BOUND_LEAST_S:
                continue  # that is the cost of a submission
            if mean >= _BOUND_GAP_S and 2 * _only_sent(ops, nexts) <= len(nexts):
                continue  # long stretches between gets: Amdahl's law
            steps = list(ops)
            nodes = []
            for position in nexts:
                seconds = max(0.0, ops[position].seconds - run.costs.submit_s)
                node = run.nodes[ops[position + 1].node]
                steps[position] = op_with(
                    ops[position], seconds=min(ops[position].seconds, run.costs.submit_s)
                )
                if node.program is None:
                    used = node.cpu_s + seconds * getattr(owner, "load", 0.0)
                    nodes.append(with_(node, work_s=node.work_s + seconds, cpu_s=used))
            changed = in_line(run.with_ops(owner, steps).changed(nodes), {node.key for node in nodes})
            name = run.nodes[ops[nexts[0] + 1].node].name
            yield Draft(
                "driver-bound",
                f"the program submits too slowly: {mean * 1e3:.1f} ms before each {name}",
                _line_between(sources, before, after, run.entrypoint),
                len(nexts),
                total,
                f"{len(nexts)} submissions of {name} took {total:.2f} s of the program's own time, one after the other",
                "Do that work inside the task: pass what it is made of, not what the program makes of it. Where it is "
                "the pickling of arguments, put() them or pass less.",
                changed,
                sites=frozenset({before, after}),
            )


# ---------------------------------------------------------------------- which line it is
def _waits_for_items(sources: Sources, after: str) -> bool:
    """Whether the time before a step is, or may be, a wait for the next item of a generator of refs."""
    found = sources.at(after) if after else None
    return found is not None and found[0].takes_from_stream(found[1].line)


def _is_paced(sources: Sources, before: str, after: str) -> bool:
    """Whether the time between two steps is that of a loop which sleeps by the clock: it is to take that long."""
    found = loop_around(sources, after) if before and after else None
    return found is not None and is_paced(found)


def _line_between(sources: Sources, before: str, after: str, entrypoint: str) -> str:
    """The line at which a program most likely spent its time between two steps; else one of the two."""
    first = sources.at(before) if before else None
    second = sources.at(after) if after else None
    if second is not None and (first is None or first[0] is not second[0]):
        return _from_init(second[0], second[1].line) if first is None else after
    if first is None:
        return before or after
    source = first[0]
    if second is None:
        found = _after(source, first[1].line)
        return f"{source.file}:{found}" if found else ""
    if first[1].line == second[1].line:
        found = _in_turn(source, first[1].line)
    elif first[1].line < second[1].line:
        found = _busiest(source, first[1].line, second[1].line)
    else:
        found = _around(source, first[1].line, second[1].line)
    return f"{source.file}:{found}" if found else before or after


def _works(source: Source, statement: ast.AST) -> bool:
    """Whether a statement does something of its own: a call that is none of sundog's, or a loop."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and not is_remote(node):
            if source.is_verb(node, "get", "wait", "put", "init", "remote"):
                continue
            if isinstance(node.func, ast.Attribute) and node.func.attr in (
                "append",
                "extend",
                "options",
                "items",
                "ready",  # of a placement group
            ):
                continue
            if isinstance(node.func, ast.Name) and node.func.id in source.ours:
                continue
            if isinstance(node.func, ast.Name) and node.func.id in (
                "range",
                "len",
                "print",
                "enumerate",
                "zip",
                "sum",
            ):
                continue
            return True
    return False


def _statements(source: Source, first: int, last: int, scope: ast.AST | None) -> list[ast.stmt]:
    """The statements between two lines, of one function."""
    found = [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.stmt)
        and first < node.lineno < last
        and source.function_of(node) is scope
        and not isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom
        )
    ]
    return sorted(found, key=lambda node: node.lineno)


def _scope(source: Source, line: int) -> ast.AST | None:
    inner = [node for node in source.on(line) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return max(inner, key=lambda node: node.lineno) if inner else None


def _effort(source: Source, statement: ast.stmt) -> int:
    """How likely a statement takes long: most if it calls a function of the program's that loops, or loops itself."""
    best = 0
    for node in ast.walk(statement):
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            best = max(best, 1)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            definition = source.definition(name_of(node.func))
            if definition is not None and any(isinstance(each, LOOPS) for each in ast.walk(definition)):
                best = 2
    return best


def _busiest(source: Source, first: int, last: int) -> int:
    single = [
        each
        for each in _statements(source, first, last, _scope(source, last))
        if _works(source, each) and not isinstance(each, ast.For | ast.While | ast.With | ast.If | ast.Try)
    ]
    if single:
        return max(single, key=lambda each: (_effort(source, each), -each.lineno)).lineno
    for statement in _statements(source, first, last, _scope(source, last)):
        if isinstance(statement, ast.For | ast.While | ast.With):
            return statement.lineno
    return last


def _in_turn(source: Source, line: int) -> int:
    """The step before and after are one line: what else its loop does in a turn."""
    loops = [node for node in source.on(line) if isinstance(node, ast.For | ast.AsyncFor | ast.While)]
    if not loops:
        return line
    loop = max(loops, key=lambda node: node.lineno)
    own = [node for node in _flat_body(loop) if not node.lineno <= line <= (node.end_lineno or node.lineno)]
    for statement in own:
        if _works(source, statement):
            return statement.lineno
    return loop.lineno if _makes_items(source, loop) else line


def _makes_items(source: Source, loop: ast.AST) -> bool:
    """Whether a loop goes over what a generator of the program makes in each turn."""
    items = getattr(loop, "iter", None)
    for call in ast.walk(items) if items is not None else ():
        definition = source.definition(name_of(call.func) or "?") if isinstance(call, ast.Call) else None
        if definition is not None and any(isinstance(each, ast.Yield) for each in ast.walk(definition)):
            return True
    return False


def _around(source: Source, first: int, last: int) -> int:
    """A stretch that ends on an earlier line than it began: the end of one turn of a loop and the begin of the next."""
    loops = [node for node in source.on(first) if isinstance(node, ast.For | ast.AsyncFor | ast.While)]
    loops = [node for node in loops if node.lineno <= last <= (node.end_lineno or 0)]
    if not loops:
        return last
    loop = max(loops, key=lambda node: node.lineno)
    own = [node for node in _flat_body(loop) if node.lineno > first] + [
        node for node in _flat_body(loop) if node.lineno < last
    ]
    first = loop.lineno if _makes_items(source, loop) else first
    return next((each.lineno for each in own if _works(source, each)), first)


def _flat_body(loop: ast.For | ast.AsyncFor | ast.While) -> list[ast.stmt]:
    return sorted(
        (node for each in loop.body for node in ast.walk(each) if isinstance(node, ast.stmt)),
        key=lambda node: node.lineno,
    )


def _after(source: Source, line: int) -> int:
    """The end of the program: what comes after a line, there or where its function was called; 0 if nothing does."""
    for _ in range(4):
        scope = _scope(source, line)
        for statement in _statements(source, line, 1 << 30, scope):
            if _works(source, statement) and not isinstance(statement, ast.With | ast.Try | ast.If):
                return statement.lineno  # what such a statement contains is in the list itself
        if scope is None:
            return 0
        name = scope.name  # type: ignore[attr-defined]
        calls = [
            node
            for node in ast.walk(source.tree)
            if isinstance(node, ast.Call)
            and (getattr(node.func, "id", "") == name or getattr(node.func, "attr", "") == name)
        ]
        if not calls:
            return 0
        line = calls[0].lineno
    return 0


def _from_init(source: Source, line: int) -> str:
    """The beginning of a program: what it does from init() to its first step; "" if nothing."""
    inits = [
        node for node in ast.walk(source.tree) if isinstance(node, ast.Call) and source.is_verb(node, "init")
    ]
    begin = max((node.lineno for node in inits if node.lineno < line), default=0)
    scopes = {_scope(source, line), None}
    for scope in scopes:
        working = [
            each
            for each in _statements(source, begin, line, scope)
            if _works(source, each) and not isinstance(each, ast.If | ast.With)
        ]
        if working:
            found = max(working, key=lambda each: (_effort(source, each), -each.lineno))
            return f"{source.file}:{found.lineno}"
    own = [node for node in source.on(line) if isinstance(node, ast.stmt)]
    inner = max(own, key=lambda node: node.lineno) if own else None
    return f"{source.file}:{line}" if inner is not None and _works(source, inner) else ""
