"""The change to make, as a diff of the user's own lines where their shape is one that can be rewritten safely.

Owns the rewriting. A statement of a form that it does not know gives no diff, and the change is said in words. Nothing
is written to a file. Pure but for the source files.
"""

from __future__ import annotations

import ast

from sundog.advice.source import Loop, Source, Sources, is_remote
from sundog.advice.turns import is_of_library, waits_at


def get_in_loop_words(sources: Sources, site: str) -> str:
    """What to do about a get in a loop."""
    found = sources.at(site)
    waits = waits_at(found[0], found[1].line) if found is not None else []
    if waits and found is not None and is_of_library(found[0], waits[0]):
        return "Hand out all of the work first (a pool's map, apply_async, or submit), then take the results."
    if waits and isinstance(waits[0], ast.Await):
        return "Submit all of them first, then await them together: await asyncio.gather(*refs)."
    return "Submit all of them first, then get once: refs = [f.remote(x) for x in xs]; results = get(refs)."


def get_in_loop_diff(sources: Sources, site: str) -> str:
    """The diff for a get in a loop; "" if its shape is not known."""
    found = sources.at(site)
    if found is None:
        return ""
    source, place = found
    calls = source.calls(place.line, "get")
    if not calls:
        return ""
    get = calls[0]
    loop = source.loop_of(get)
    if len(get.args) != 1 or get.keywords or loop is None:
        return ""
    if isinstance(loop, ast.ListComp | ast.SetComp | ast.GeneratorExp):
        return _comprehension(source, loop, get)
    if isinstance(loop, ast.For):
        return _append(source, loop, get) or _two_loops(source, loop, get)
    return ""


def _comprehension(source: Source, loop: ast.ListComp | ast.SetComp | ast.GeneratorExp, get: ast.Call) -> str:
    """`[get(f.remote(x)) for x in xs]` becomes `get([f.remote(x) for x in xs])`."""
    statement = source.statement_of(loop)
    if loop.elt is not get or not is_remote(get.args[0]) or statement.lineno != statement.end_lineno:
        return ""
    rest = (
        source.segment(loop)[1:-1]
        if not isinstance(loop, ast.GeneratorExp)
        else source.segment(loop).strip("()")
    )
    if isinstance(loop, ast.GeneratorExp):
        raw = source.segment(loop)
        rest = raw[1:-1] if raw.startswith("(") and raw.endswith(")") else raw
    inner = rest.strip().replace(source.segment(get), source.segment(get.args[0]), 1)
    new = f"{source.segment(get.func)}([{inner}])"
    if isinstance(loop, ast.SetComp):
        new = f"set({new})"
    parent = source.parents[loop]
    if (
        isinstance(loop, ast.GeneratorExp)
        and isinstance(parent, ast.Call)
        and source.segment(loop).startswith("(")
    ):
        new = f"({new})"
    line = source.replaced(loop, new, statement)
    return source.diff([(statement.lineno, statement.lineno, [line])]) if line is not None else ""


def _append(source: Source, loop: ast.For, get: ast.Call) -> str:
    """`out.append(get(f.remote(x)))` becomes `out.append(f.remote(x))`, and `out = get(out)` after the loop."""
    statement = source.statement_of(get)
    parent = source.parents[get]
    if not (
        isinstance(statement, ast.Expr)
        and parent is statement.value
        and isinstance(parent, ast.Call)
        and isinstance(parent.func, ast.Attribute)
        and parent.func.attr == "append"
        and isinstance(parent.func.value, ast.Name)
        and statement.lineno == statement.end_lineno
    ):
        return ""
    target = parent.func.value.id
    body = [each for each in loop.body if each is not statement]
    if any(isinstance(node, ast.Name) and node.id == target for each in body for node in ast.walk(each)):
        return ""  # the get is examined within its loop
    line = source.replaced(get, source.segment(get.args[0]), statement)
    if line is None:
        return ""
    after = loop.end_lineno or loop.lineno
    last = f"{source.indent(loop)}{target} = {source.segment(get.func)}({target})"
    return source.diff([(statement.lineno, statement.lineno, [line]), (after + 1, after, [last])])


def _two_loops(source: Source, loop: ast.For, get: ast.Call) -> str:
    """`for x in xs: r = get(f.remote(x)); use(r)` becomes a list of refs, and a loop over them."""
    statement = source.statement_of(get)
    submitted = get.args[0]
    if (
        loop.body[0] is not statement
        or not is_remote(submitted)
        or statement.lineno != statement.end_lineno
        or loop.lineno == statement.lineno
        or loop.lineno + 1 != statement.lineno
        or loop.orelse
    ):
        return ""
    indent, variable, values = source.indent(loop), source.segment(loop.target), source.segment(loop.iter)
    refs = "refs"
    line = source.replaced(submitted, "ref", statement)
    if line is None or "refs" in source.text:
        return ""
    used = {node.id for each in loop.body[1:] for node in ast.walk(each) if isinstance(node, ast.Name)}
    used |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)} - {
        node.id for node in ast.walk(get) if isinstance(node, ast.Name)
    }
    over = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    head = f"{indent}for ref in {refs}:"
    if used & over:
        head = f"{indent}for {variable}, ref in zip({values}, {refs}):"
    new = [f"{indent}{refs} = [{source.segment(submitted)} for {variable} in {values}]", head, line]
    return source.diff([(loop.lineno, statement.lineno, new)])


def get_in_order_diff(sources: Sources, site: str) -> str:
    """`for ref in refs: use(get(ref))` becomes a loop over what `wait` says is ready."""
    found = sources.at(site)
    if found is None:
        return ""
    source, place = found
    calls = source.calls(place.line, "get")
    loop: Loop | None = source.loop_of(calls[0]) if calls else None
    if (
        not isinstance(loop, ast.For)
        or not isinstance(loop.iter, ast.Name)
        or not isinstance(loop.target, ast.Name)
        or loop.orelse
    ):
        return ""
    verb = source.segment(calls[0].func)
    wait = f"{verb[:-3]}wait" if verb.endswith("get") else "wait"
    indent, refs = source.indent(loop), loop.iter.id
    head = [
        f"{indent}left = {refs}",
        f"{indent}while left:",
        f"{indent}    [{loop.target.id}], left = {wait}(left, num_returns=1)",
    ]
    if loop.body[0].lineno == loop.lineno:
        return ""
    return source.diff([(loop.lineno, loop.lineno, head)])


def put_once_diff(sources: Sources, site: str) -> str:
    """`f.remote(big, x)` in a loop becomes `big_ref = put(big)` before it, and `f.remote(big_ref, x)`."""
    found = sources.at(site)
    if found is None:
        return ""
    source, place = found
    calls = [node for node in source.on(place.line) if is_remote(node) and isinstance(node, ast.Call)]
    if not calls:
        return ""
    call = calls[-1]
    loop = source.loop_of(call)
    if loop is None:
        return ""
    own = {
        node.id for target in _loop_targets(loop) for node in ast.walk(target) if isinstance(node, ast.Name)
    }
    own |= {
        node.id
        for each in getattr(loop, "body", ())
        for node in ast.walk(each)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    names = [each for each in call.args if isinstance(each, ast.Name) and each.id not in own]
    statement = source.statement_of(loop)
    inside = source.statement_of(call)
    if len(names) != 1:
        return ""
    big = names[0]
    line = source.replaced(big, f"{big.id}_ref", inside)
    if line is None:
        return ""
    verb = next((name for name, verb in source.verbs.items() if verb == "put"), f"{source.module}.put")
    new = f"{source.indent(statement)}{big.id}_ref = {verb}({big.id})"
    if statement is inside:
        return source.diff([(statement.lineno, statement.lineno, [new, line])])
    return source.diff(
        [(statement.lineno, statement.lineno - 1, [new]), (inside.lineno, inside.lineno, [line])]
    )


def _loop_targets(loop: Loop) -> list[ast.expr]:
    if isinstance(loop, ast.For | ast.AsyncFor):
        return [loop.target]
    if isinstance(loop, ast.While):
        return []
    return [each.target for each in loop.generators]
