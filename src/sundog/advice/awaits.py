"""The user's line of a wait that was recorded inside asyncio.

`asyncio.gather(*refs)` awaits each ref in a task of its own, whose frame is asyncio's. The line that is to be named is
that of the program's `await`: the first one at or behind the last submission, in its function or in a caller of it.
Only the text of the program is read. Pure but for the source files.
"""

from __future__ import annotations

import ast

from sundog.advice.run import SUBMIT, WAIT, Op, Run, op_with
from sundog.advice.source import Source, Sources, is_remote
from sundog.advice.turns import name_of

_ASYNCIO = "asyncio/tasks.py:"
_DEPTH = 3  # the most functions between a submission and its await


def with_awaits(run: Run, sources: Sources) -> Run:
    """The run with the program's own line in the place of asyncio's, wherever it can be told."""
    lines: dict[str, str] = {}

    def change(ops: list[Op]) -> list[Op]:
        out, before = list(ops), ""
        for position, op in enumerate(ops):
            if op.kind == SUBMIT:
                before = run.nodes[op.node].site or before
            elif op.kind == WAIT and _ASYNCIO in op.site and before:
                if before not in lines:
                    lines[before] = await_behind(sources, before)
                out[position] = op_with(op, site=lines[before] or op.site)
        return out

    is_asyncio = any(_ASYNCIO in op.site for _, ops in run.owners() for op in ops)
    return run.with_each_program(change) if is_asyncio else run


def await_behind(sources: Sources, site: str) -> str:
    """The line of the first `await` at or behind a submission; "" if there is none."""
    found = sources.at(site)
    if found is None:
        return ""
    source, place = found
    line = place.line
    for _ in range(_DEPTH):
        scope = _scope(source, line)
        awaits = [
            node.lineno
            for node in ast.walk(scope or source.tree)
            if isinstance(node, ast.Await) and (node.end_lineno or node.lineno) >= line
        ]
        if awaits:
            return f"{source.file}:{min(awaits)}"
        calls = [
            node.lineno
            for node in ast.walk(source.tree)
            if scope is not None
            and isinstance(node, ast.Call)
            and not is_remote(node)
            and name_of(node.func) == getattr(scope, "name", "")
        ]
        if not calls:
            return ""
        line = min(calls)
    return ""


def _scope(source: Source, line: int) -> ast.AST | None:
    inner = [node for node in source.on(line) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return max(inner, key=lambda node: node.lineno) if inner else None


__all__ = ["await_behind", "with_awaits"]
