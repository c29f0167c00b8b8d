"""Faults in the order of steps: a get between two stages, a loop that sleeps until results are there. Pure but for the
source files."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sundog.advice.findings import Draft
from sundog.advice.findings_waits import in_line
from sundog.advice.run import COMPUTE, SUBMIT, WAIT, Op, Program, Run, op_with, with_
from sundog.advice.source import Source, Sources, place_of
from sundog.advice.turns import name_of

_LEAST_NODES = 2
_LEAST_POLL_S = 0.02
_ASYNCIO = "asyncio/tasks.py"
_ASKING = ("empty", "qsize", "size", "ready", "done", "has_next")
_PASSED_THROUGH = ("zip", "enumerate", "list", "tuple", "sorted", "reversed")


def get_between_stages(run: Run, sources: Sources) -> Iterator[Draft]:
    """All results of a stage are fetched only to be passed on to the tasks of the next stage."""
    for program in run.programs:
        changed, waits, later = run, list[Op](), set[int]()
        ops: list[Op] = []
        for position, op in enumerate(program.ops):
            pairs = _passed_on(run, sources, program.ops, position)
            if not pairs:
                ops.append(op)
                continue
            waits.append(op_with(op, site=_site_of(run, sources, program.ops, position)))
            later |= set(pairs)
            changed = changed.changed(
                with_(changed.nodes[after], deps=(*changed.nodes[after].deps, before))
                for after, before in pairs.items()
            )
        if not waits:
            continue
        first = waits[0]
        waited = sum(op.waited_s for op in waits)
        yield Draft(
            "get-between-stages",
            f"a get between stages: {run.nodes[min(later)].name} waits for all results of the stage before",
            first.site,
            len(waits),
            waited,
            f"{len(waits)} get{'s' * (len(waits) != 1)} waited {waited:.2f} s for all of a stage; the values only "
            f"went on to {len(later)} tasks of the next one",
            "Pass the refs on without a get: a task starts as soon as its own argument is there, and the program "
            "copies nothing.",
            in_line(changed.with_ops(_same(changed, program), ops), later),
            _without_get(sources, first.site),
            sites=frozenset({op.site for op in waits} | {run.nodes[key].site for key in later}),
        )


def _same(run: Run, program: Program) -> Program:
    return next(each for each in run.programs if each.process == program.process)


def _passed_on(run: Run, sources: Sources, ops: list[Op], position: int) -> dict[int, int]:
    """The tasks that take values of a get, each with the task that made its value; empty if that is not certain."""
    wait = ops[position]
    if wait.kind != WAIT or wait.is_wait or len(wait.nodes) < _LEAST_NODES or not wait.site:
        return {}
    found = sources.at(_site_of(run, sources, ops, position))
    lines = _lines_that_take(found[0], found[1].line) if found is not None else ()
    if not lines or found is None:
        return {}
    after: list[int] = []
    for op in ops[position + 1 :]:
        if op.kind == WAIT and after:
            break
        place = place_of(run.nodes[op.node].site) if op.kind == SUBMIT else None
        if place is not None and place.file == found[0].file and place.line in lines:
            after.append(op.node)
    return dict(zip(after, wait.nodes)) if len(after) == len(wait.nodes) else {}


def _site_of(run: Run, sources: Sources, ops: list[Op], position: int) -> str:
    """The line of a wait; of refs that asyncio awaits, that of the last `gather` before what follows."""
    site = ops[position].site
    place = place_of(site)
    after = next((op for op in ops[position + 1 :] if op.kind == SUBMIT), None)
    if place is None or not place.file.endswith(_ASYNCIO) or after is None:
        return site
    found = sources.at(run.nodes[after.node].site)
    if found is None:
        return site
    source, there = found
    own = next(iter(source.on(there.line)), None)
    scope = source.function_of(own) if own is not None else None
    lines = [
        call.lineno
        for node in ast.walk(scope or source.tree)
        if isinstance(node, ast.Await) and node.lineno < there.line
        for call in _gathers(source, node.lineno)
    ]
    return f"{source.file}:{max(lines)}" if lines else site


def _got(source: Source, line: int) -> tuple[ast.Call, ast.Assign] | None:
    """The get of a line whose result gets a name, and nothing else."""
    for get in (*source.calls(line, "get"), *_gathers(source, line)):
        statement = source.statement_of(get)
        if (
            isinstance(statement, ast.Assign)
            and statement.value in (get, source.parents[get])
            and isinstance(statement.value, ast.Call | ast.Await)
            and len(statement.targets) == 1
            and _name_in(statement.targets[0])
            and len(get.args) == 1
            and not get.keywords
        ):
            return get, statement
    return None


def _gathers(source: Source, line: int) -> list[ast.Call]:
    """The `gather(*refs)` of a line that awaits it."""
    return [
        node.value
        for node in source.on(line)
        if isinstance(node, ast.Await)
        and isinstance(node.value, ast.Call)
        and name_of(node.value.func) == "gather"
        and len(node.value.args) == 1
        and isinstance(node.value.args[0], ast.Starred)
    ]


def _lines_that_take(source: Source, line: int) -> range:
    """The lines of the loop that hands each result of a get to a task and does nothing else with it; else empty."""
    got = _got(source, line)
    if got is None:
        return range(0)
    _, statement = got
    name = _name_in(statement.targets[0])
    # What an object keeps may be used in any of its methods.
    scope = None if name.startswith("self.") else source.function_of(statement)
    uses = [
        node
        for node in ast.walk(scope or source.tree)
        if isinstance(node, ast.Name | ast.Attribute)
        and name in (_name_in(node), f"self.{getattr(node, 'attr', '')}")  # of any object: it may be this one
        and isinstance(node.ctx, ast.Load)
    ]
    if len(uses) != 1:
        return range(0)
    loop = _loop_over(source, uses[0])
    if loop is None or not _only_sent(source, loop):
        return range(0)
    return range(loop.lineno, (loop.end_lineno or loop.lineno) + 1)


def _name_in(node: ast.expr) -> str:
    """A variable, or an attribute of self as `self.x`; "" for others."""
    if isinstance(node, ast.Name):
        return node.id
    is_own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return f"self.{node.attr}" if is_own and isinstance(node, ast.Attribute) else ""


def _loop_over(source: Source, name: ast.Name | ast.Attribute) -> ast.For | ast.ListComp | None:
    """The loop whose items are those of a variable."""
    child: ast.AST = name
    for each in source.above(name):
        if isinstance(each, ast.Call) and name_of(each.func) in _PASSED_THROUGH:
            child = each
        elif isinstance(each, ast.comprehension) and each.iter is child:
            loop = source.parents[each]
            return loop if isinstance(loop, ast.ListComp) and len(loop.generators) == 1 else None
        elif isinstance(each, ast.For):
            return each if each.iter is child else None
        else:
            return None
    return None


def _only_sent(source: Source, loop: ast.For | ast.ListComp) -> bool:
    """Whether what a loop goes over is used as an argument of `.remote(…)` itself, and nowhere else."""
    target = loop.target if isinstance(loop, ast.For) else loop.generators[0].target
    own = {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}
    parts: list[ast.AST] = (
        list(loop.body) if isinstance(loop, ast.For) else [loop.elt, *loop.generators[0].ifs]
    )
    arguments = {
        id(each)
        for part in parts
        for call in source.remotes(part)
        for each in (*call.args, *(keyword.value for keyword in call.keywords))
    }
    used = [
        node for part in parts for node in ast.walk(part) if isinstance(node, ast.Name) and node.id in own
    ]
    return bool(used) and all(id(node) in arguments for node in used)


def _without_get(sources: Sources, site: str) -> str:
    found = sources.at(site)
    got = _got(found[0], found[1].line) if found is not None else None
    if got is None or found is None:
        return ""
    source = found[0]
    get, statement = got
    refs = get.args[0].value if isinstance(get.args[0], ast.Starred) else get.args[0]
    if not isinstance(refs, ast.List | ast.ListComp | ast.Name):
        return ""  # what a generator gives can be passed on once only
    line = source.replaced(statement.value, source.segment(refs), statement)
    return source.diff([(statement.lineno, statement.lineno, [line])]) if line is not None else ""


# ---------------------------------------------------------------------- polling
def polling(run: Run, sources: Sources) -> Iterator[Draft]:
    """The program sleeps in a loop until results are there: it wakes up later than they are."""
    lines: dict[str, str] = {}  # the sleep behind each step
    for program in run.programs:
        sent: list[int] = []
        before, line = "", ""
        ops: list[Op] = []
        late, slept, often = 0.0, 0.0, 0
        for op in program.ops:
            before = op.site or before
            if op.kind == SUBMIT:
                sent.append(op.node)
            end = op.at_s + op.seconds
            is_long = op.kind == COMPUTE and op.seconds >= _LEAST_POLL_S
            if is_long and before not in lines:
                lines[before] = _poll_line(sources, before)
            at = lines[before] if is_long else ""
            ended = [key for key in sent if op.at_s < run.nodes[key].end_s <= end] if at else []
            if ended:
                late += end - max(run.nodes[key].end_s for key in ended)
                slept, often, line = slept + op.seconds, often + 1, at
                ops.append(Op(WAIT, nodes=tuple(ended), at_s=op.at_s, waited_s=op.seconds))
                ops.append(op_with(op, seconds=0.0))
            else:
                ops.append(op)
        if often:
            yield Draft(
                "polling",
                "the program sleeps until it looks again whether results are there",
                line,
                often,
                late,
                f"{often} times, {slept:.2f} s in all; the results were there {late:.2f} s before it looked",
                "Wait for them instead: get(refs), or wait(refs, num_returns=..., timeout=...), ends as soon as they "
                "are there.",
                run.with_ops(program, ops),
                sites=frozenset({before}),
            )


def _poll_line(sources: Sources, site: str) -> str:
    """The sleep of the loop that looks for results behind a step; "" if there is none."""
    found = sources.at(site)
    if found is None:
        return ""
    source, place = found
    scope = _function_at(source, place.line)
    for loop in _loops_behind(source, scope, place.line):
        if not _looks(source, loop):
            continue
        if source.remotes(loop):
            continue  # a loop that submits may sleep on purpose, so as not to submit too fast
        sleeps = [
            node for node in ast.walk(loop) if isinstance(node, ast.Call) and name_of(node.func) == "sleep"
        ]
        if sleeps:
            return f"{source.file}:{sleeps[0].lineno}"
    return ""


def _loops_behind(source: Source, scope: ast.AST | None, line: int) -> Iterator[ast.While]:
    """The while loops of a function that do not end before a line; and those of the functions called from there on."""
    called: list[ast.AST] = []
    for node in ast.walk(scope or source.tree):
        if not isinstance(node, ast.While | ast.Call) or (node.end_lineno or node.lineno) < line:
            continue
        if source.function_of(node) is not scope:
            continue
        if isinstance(node, ast.While):
            yield node
        else:
            definition = source.definition(name_of(node.func) or "?")
            called += [definition] if definition is not None and definition is not scope else []
    for function in called:
        yield from (node for node in ast.walk(function) if isinstance(node, ast.While))


def _function_at(source: Source, line: int) -> ast.AST | None:
    inner = [node for node in source.on(line) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return max(inner, key=lambda node: node.lineno) if inner else None


def _looks(source: Source, loop: ast.While) -> bool:
    """Whether a loop, or a function of the program that it calls, asks for results, also a queue or a pool."""
    parts: list[ast.AST] = [loop]
    for node in ast.walk(loop):
        if (
            isinstance(node, ast.Call)
            and (definition := source.definition(name_of(node.func) or "?")) is not None
        ):
            parts.append(definition)
    return any(
        source.is_verb(node, "wait", "get") or _asks(node) for part in parts for node in ast.walk(part)
    )


def _asks(node: ast.AST) -> bool:
    """Whether this asks an object, in a condition's words, if something is there: `queue.empty()`, `result.ready()`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _ASKING
        and not node.args
    )
