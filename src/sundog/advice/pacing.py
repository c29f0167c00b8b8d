"""Waits that are meant: loops that keep to a clock, and calls that wait for other calls of their actor.

Owns what the text of the program says of them: no finding is to be made of such a wait. Pure.
"""

from __future__ import annotations

import ast

from sundog.advice.turns import Turns, name_of, names_in, targets_of

_ROUNDS = 3  # passes of the analysis, enough for a function of usual size
_FOR_OTHERS = frozenset({"get", "wait", "acquire", "join"})  # without arguments: of a queue, event, lock
_CLOCKS = frozenset(
    {"time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "perf_counter_ns", "now"}
)


def waits_for_other_calls(definition: ast.AST) -> bool:
    """Whether a method of an asyncio actor waits for what other calls of the actor do: `await self.items.get()`."""
    for node in ast.walk(definition):
        if not isinstance(node, ast.Await | ast.AsyncWith | ast.While):
            continue
        parts = [each.context_expr for each in node.items] if isinstance(node, ast.AsyncWith) else [node]
        if isinstance(node, ast.While) and not any(isinstance(each, ast.Await) for each in ast.walk(node)):
            continue
        if isinstance(node, ast.While):  # until there is something: `while not self.items: await sleep(…)`
            if any(name.startswith("self.") for name in names_in(node.test)):
                return True
            continue
        for part in parts:
            for call in ast.walk(part):
                if isinstance(call, ast.Call) and name_of(call.func) in _FOR_OTHERS and not call.args:
                    if any(name.startswith("self.") for name in names_in(call.func)):
                        return True
    return False


def is_paced(turns: Turns) -> bool:
    """Whether a loop sleeps until it may go on, by a clock: a limit of calls per second, which is kept on purpose."""
    parts: list[ast.AST] = [*turns.inner]
    for node in ast.walk(turns.loop) if turns.loop is not None else ():
        definition = (
            turns.source.definition(name_of(node.func) or "?") if isinstance(node, ast.Call) else None
        )
        parts += [definition] if definition is not None else []
    own = turns.source.function_of(turns.loop) if turns.loop is not None else None
    if turns.loop is not None:
        parts.append(turns.loop)
    return any(_sleeps_by_clock(part, own if part is turns.loop else part) for part in parts)


def _sleeps_by_clock(part: ast.AST, scope: ast.AST | None) -> bool:
    """Whether code sleeps for as long as follows from a reading of the clock, somewhere in its function."""
    read: set[str] = set()
    for _ in range(_ROUNDS):
        for node in ast.walk(scope or part):
            if isinstance(node, ast.Assign | ast.AugAssign) and _is_by_clock(node.value, read):
                read |= targets_of(node)
    return any(
        isinstance(node, ast.Call)
        and name_of(node.func) == "sleep"
        and any(_is_by_clock(each, read) for each in node.args)
        for node in ast.walk(part)
    )


def _is_by_clock(node: ast.AST, read: set[str]) -> bool:
    return bool(names_in(node) & read) or any(
        isinstance(each, ast.Call) and name_of(each.func) in _CLOCKS for each in ast.walk(node)
    )
