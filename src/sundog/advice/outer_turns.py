"""A loop within a loop whose turns need each other: how many turns the inner one has in each of the outer one.

::

    while not converged:                        needs what its turn before gave
        for client in clients:                  does not: all of a round can run at a time, and no more
            updates.append(get(train.remote(client, weights)))

The records have the gets one after the other. Where a turn of the outer loop ends is told by the text of the program,
where that says how many items the inner loop has; else by the program's own time, which is longer between two turns of
the outer loop than between two of the inner one. Pure but for the source files.
"""

from __future__ import annotations

import ast
from itertools import pairwise
from statistics import median

from sundog.advice.run import COMPUTE, WAIT, Op
from sundog.advice.source import COMPREHENSIONS, Source, Sources
from sundog.advice.turns import Turns, loop_at, name_of, outer_of, turns_need_each_other

_LONGER = 1.5  # the shortest time between two outer turns, by the usual one between inner turns
_DEPTH = 3


def turns_of_outer(ops: list[Op], sites: tuple[str, ...], sources: Sources) -> int:
    """How many gets each turn of the outer loop has; 0 if there is none that needs its turns, or it is not known."""
    found = loop_at(sources, sites[0])
    outer = outer_of(sources, found) if found is not None else None
    if found is None or outer is None or not turns_need_each_other(outer):
        return 0
    waits = [position for position, op in enumerate(ops) if op.kind == WAIT and op.site in sites]
    inner, around = _items_of(found), _items_of(outer)
    if inner and len(waits) % (inner * len(sites)) == 0:
        return inner * len(sites)
    if around and len(waits) % around == 0:
        return len(waits) // around
    return _by_pauses(ops, waits)


def _items_of(turns: Turns) -> int:
    """How many items a loop has, if the text says so; else 0."""
    loop = turns.loop
    if isinstance(loop, ast.For | ast.AsyncFor):
        return length_of(turns.source, loop.iter, loop)
    if isinstance(loop, COMPREHENSIONS) and len(loop.generators) == 1 and not loop.generators[0].ifs:
        return length_of(turns.source, loop.generators[0].iter, loop)
    return 0


def length_of(source: Source, items: ast.expr, at: ast.AST, depth: int = _DEPTH) -> int:
    """How many items an expression has: of a literal, a range of numbers, a list made of one, or a name for those."""
    if isinstance(items, ast.List | ast.Tuple | ast.Set):
        return len(items.elts) if not any(isinstance(each, ast.Starred) for each in items.elts) else 0
    if isinstance(items, ast.Dict):
        return len(items.keys)
    if isinstance(items, ast.ListComp) and len(items.generators) == 1 and not items.generators[0].ifs:
        return length_of(source, items.generators[0].iter, at, depth)
    if isinstance(items, ast.Call) and name_of(items.func) in ("enumerate", "list", "sorted", "zip", "items"):
        inner = [items.func.value] if isinstance(items.func, ast.Attribute) else items.args[:1]
        return length_of(source, inner[0], at, depth) if inner else 0
    if isinstance(items, ast.Call) and name_of(items.func) == "range":
        numbers = [each for given in items.args if (each := _number_of(source, given, at)) is not None]
        return len(range(*numbers)) if 0 < len(numbers) == len(items.args) else 0
    if isinstance(items, ast.Name) and depth:
        value = _assigned(source, items.id, at)
        return length_of(source, value, at, depth - 1) if value is not None else 0
    return 0


def _number_of(source: Source, node: ast.expr, at: ast.AST) -> int | None:
    value: ast.expr | None = _assigned(source, node.id, at) if isinstance(node, ast.Name) else node
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, int) else None


def _assigned(source: Source, name: str, at: ast.AST) -> ast.expr | None:
    """What a variable is made of, if it is assigned once only in its function, or once in the file."""
    own = source.function_of(at)
    for scope in (own, None):
        values = [
            node.value
            for node in ast.walk(scope or source.tree)
            if isinstance(node, ast.Assign)
            and source.function_of(node) is scope
            and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
        ]
        if values:
            return values[0] if len(values) == 1 else None
    return None


def _by_pauses(ops: list[Op], waits: list[int]) -> int:
    """The number of gets after which the program's own time is always longer than usual; 0 if there is none."""
    pauses = [
        sum(op.seconds for op in ops[first:second] if op.kind == COMPUTE) for first, second in pairwise(waits)
    ]
    for count in range(2, len(waits) // 2 + 1):
        if len(waits) % count:
            continue
        between = pauses[count - 1 :: count]
        within = [each for position, each in enumerate(pauses) if (position + 1) % count]
        if min(between) > _LONGER * median(within) and min(between) > sorted(within)[int(0.9 * len(within))]:
            return count
    return 0
