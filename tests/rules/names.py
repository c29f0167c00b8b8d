"""Rules about names that are counted: classes that share a name, units of constants, names of the two clocks.

Owns the finders, and says which list of known breaches (`*.txt` beside this file) belongs to which. Pure but for
reading our own files.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.rules.breaches import PACKAGE, ROOT, sources

# Words for a unit, and how a name says it. The unit stands at the end: `_RESET_S`, `LINE_MAX_BYTES`.
_UNIT_WORDS = {"SECONDS": "S", "SECS": "S", "SEC": "S", "MILLIS": "MS", "MSEC": "MS", "MILLISECONDS": "MS"}
_LAST = {"BYTES", "S", "MS", "US", "NS"}
_WALL = {"time.time", "_time"}
_NOW = {"now", "now_s"}
# Whether a source is worth parsing.
_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
_UNIT = re.compile(rf"^_?[A-Z0-9_]*({'|'.join(_UNIT_WORDS)}|(BYTES|S|MS|US|NS)_)[A-Z0-9_]* = ", re.MULTILINE)
_READS_NOW = re.compile(r"\bnow(_s)? = .*time\(")


def doubled_classes(files: dict[str, str]) -> dict[str, list[str]]:
    """Names of classes that stand at the top of more than one module, with these modules."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, source in files.items():
        for each in _CLASS.findall(source):
            found[each].append(name)
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def odd_units(source: str) -> Iterator[tuple[str, int]]:
    """Constants of a module that are numbers, and do not say their unit as the others do."""
    if not _UNIT.search(source):
        return  # parsing takes long
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id.isupper() and _is_odd(target.id):
                    yield target.id, node.lineno


def _is_odd(name: str) -> bool:
    words = name.strip("_").split("_")
    if any(word in _UNIT_WORDS for word in words):
        return True
    return "PER" not in words and any(word in _LAST for word in words[:-1])


def wall_clocks_called_now(source: str) -> Iterator[tuple[str, int]]:
    """Functions with a variable `now` that is read from the wall clock: such a variable is called `wall_s`."""

    def look(body: list[ast.stmt], scope: str) -> Iterator[tuple[str, int]]:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield from look(node.body, f"{scope}.{node.name}" if scope else node.name)
            else:
                for each in ast.walk(node):
                    if isinstance(each, ast.Assign) and _reads_wall(each.value) and _is_now(each.targets):
                        yield scope, each.lineno

    if _READS_NOW.search(source):  # parsing takes long
        yield from look(ast.parse(source).body, "")


def _reads_wall(value: ast.expr) -> bool:
    return any(isinstance(each, ast.Call) and ast.unparse(each.func) in _WALL for each in ast.walk(value))


def _is_now(targets: list[ast.expr]) -> bool:
    return any(isinstance(target, ast.Name) and target.id in _NOW for target in targets)


@functools.cache
def doubled() -> set[str]:
    """Every class name of ours that stands twice, as `Counter`."""
    paths = PACKAGE.rglob("*.py")
    return set(doubled_classes({path.relative_to(PACKAGE).as_posix(): path.read_text() for path in paths}))


@functools.cache
def units() -> set[str]:
    """Every constant of ours with an odd unit, as `src/sundog/api.py:_SECONDS`."""
    return {
        f"{path.relative_to(ROOT)}:{name}"
        for path in sources("src", "tests", "benchmarks")
        for name, _ in odd_units(path.read_text())
    }


@functools.cache
def walls() -> set[str]:
    """Every function of ours that calls the wall clock `now`, as `src/sundog/api.py:init`."""
    return {
        f"{path.relative_to(ROOT)}:{scope}"
        for path in sources("src")
        for scope, _ in wall_clocks_called_now(path.read_text())
    }


CHECKS = {"doubled_classes": doubled, "odd_units": units, "wall_clocks": walls}
