"""Rules of the house that are counted: long functions, separators of another style, modules without a test.

Also: fakes in tests that have no class of their own, lines of code with `Any`, and public functions that return it;
the number of these is bounded in `tests/test_architecture.py`. Owns the finders and the lists of known breaches
(`*.txt` beside this file: one name in a line, only ever fewer). `python -m tests.rules` removes from the lists what is
mended; it adds nothing. Pure but for reading our own files.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "sundog"
LISTS = Path(__file__).parent
MAX_FUNCTION_LINES = 60
# A line of dashes up to a column, then the title: `    # ------ titles`.
SEPARATOR_COLUMN = 72
_SEPARATOR = re.compile(r"^(\s*)# ?[-=*#─~]{2,}( .*)?$")


_ANY = re.compile(r"\bAny\b")
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


def sources(*folders: str) -> list[Path]:
    """Our own Python files below these folders of the project."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def long_functions(source: str) -> Iterator[tuple[str, int]]:
    """Functions that are too long, by their qualified names, and their lines; a decorator does not count."""

    def look(body: list[ast.AST], scope: str) -> Iterator[tuple[str, int]]:
        for child in body:
            name = scope
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = f"{scope}.{child.name}" if scope else child.name
                lines = (child.end_lineno or child.lineno) - child.lineno + 1
                if not isinstance(child, ast.ClassDef) and lines > MAX_FUNCTION_LINES:
                    yield name, lines
            for part in _BODIES:  # a function stands in the body of a statement, never in an expression
                yield from look(getattr(child, part, []), name)

    yield from look([ast.parse(source)], "")


def odd_separators(source: str) -> Iterator[int]:
    """The lines of separators that are not written as all others are."""
    for number, line in enumerate(source.splitlines(), 1):
        found = _SEPARATOR.match(line)
        if found is not None and line != separator(len(found[1]), (found[2] or "").strip(" -=*#─~")):
            yield number


def separator(indent: int, title: str) -> str:
    """A separator as it has to be."""
    return " " * indent + "# " + "-" * (SEPARATOR_COLUMN - indent - 2) + f" {title}"


def has_logic(source: str) -> bool:
    """Whether a module has a function that does something: names, constants and rows need no test of their own."""
    if "def " not in source:
        return False
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = [each for each in node.body if not _says_nothing(each)]
            if body:
                return True
    return False


def _says_nothing(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def any_lines(source: str) -> set[int]:
    """The lines of code that name `Any`, its import included; a docstring or a comment may begin with the word."""
    return _lines_with(source, {"Any"})


def nameless_fakes(source: str) -> set[int]:
    """The lines of code that use an object of no class in place of one that has a class."""
    return _lines_with(source, {"SimpleNamespace", "Mock", "MagicMock", "AsyncMock"})


def _lines_with(source: str, words: set[str]) -> set[int]:
    if not any(word in source for word in words):
        return set()  # splitting into tokens takes long
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {each.start[0] for each in tokens if each.type == tokenize.NAME and each.string in words}


def returns_any(source: str) -> Iterator[str]:
    """Public functions and methods that return plain `Any`, by their qualified names."""

    def look(body: list[ast.stmt], scope: str) -> Iterator[str]:
        for child in body:
            if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
                yield from look(child.body, f"{scope}{child.name}.")
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                gives_any = isinstance(child.returns, ast.Name) and child.returns.id == "Any"
                if gives_any and not child.name.startswith("_"):
                    yield scope + child.name

    if _ANY.search(source):
        yield from look(ast.parse(source).body, "")


@functools.cache
def untested_modules() -> set[str]:
    """Modules with logic that have no test file of their name: `owner/awaits.py` wants `tests/owner/test_awaits.py`.

    A test with real processes counts too: `tests/integration/owner/test_awaits.py`, or for a module directly below
    the package `tests/integration/test_api.py`.
    """
    missing = set()
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE)
        if path.name.startswith("__") or not has_logic(path.read_text()):
            continue
        wanted = name.parent / f"test_{path.name}"
        if not any((ROOT / "tests" / folder / wanted).exists() for folder in ("", "integration")):
            missing.add(name.as_posix())
    return missing


@functools.cache
def too_long() -> set[str]:
    """Every function of ours that is too long, as `src/sundog/api.py:init`."""
    return {
        f"{path.relative_to(ROOT)}:{name}"
        for path in sources("src", "tests", "benchmarks", "examples")
        for name, _ in long_functions(path.read_text())
    }


def known(which: str) -> set[str]:
    """The names in one of the lists."""
    lines = (LISTS / f"{which}.txt").read_text().splitlines()
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


CHECKS = {"long_functions": too_long, "untested_modules": untested_modules}
