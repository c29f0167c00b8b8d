"""Cycles of imports, those for types alone included: a reader of any module of a cycle has to know all of them.

Owns the finder. import-linter forbids cycles between layers at load; nothing else looks within a package, and under
`TYPE_CHECKING`. Pure but for reading our own files.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

from tests.rules.breaches import PACKAGE


def cycles_of(folder: str) -> list[list[str]]:
    """The cycles among the modules of one package of ours, the largest first: names of modules, in order."""
    files = {_module(path): path for path in sorted((PACKAGE / folder).rglob("*.py"))}
    graph = {name: imports(path.read_text(), files) - {name} for name, path in files.items()}
    found = [sorted(part) for part in components(graph) if len(part) > 1]
    return sorted(found, key=lambda part: (-len(part), part))


def imports(source: str, known: Mapping[str, object]) -> set[str]:
    """Which of these modules a source imports: at the top, in a function, or for types alone."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names if name.name in known}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                if inner in known:
                    found.add(inner)
                elif node.module in known:
                    found.add(node.module)
    return found


def components(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """The strongly connected parts of a graph, each vertex in one of them (after Tarjan)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(vertex: str) -> None:
        order[vertex] = low[vertex] = len(order)
        stack.append(vertex)
        for other in graph[vertex]:
            if other not in order:
                visit(other)
                low[vertex] = min(low[vertex], low[other])
            elif other in stack:
                low[vertex] = min(low[vertex], order[other])
        if low[vertex] == order[vertex]:
            part = set(stack[stack.index(vertex) :])
            del stack[stack.index(vertex) :]
            found.append(part)

    for vertex in graph:
        if vertex not in order:
            visit(vertex)
    return found


def _module(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


if __name__ == "__main__":
    for child in sorted(PACKAGE.iterdir()):
        if child.is_dir():
            for cycle in cycles_of(child.name):
                print(f"{child.name}: {len(cycle)} modules: {', '.join(cycle)}")
