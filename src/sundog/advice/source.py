"""The user's own lines: what stands at a call site, and which loop it is in.

Owns the reading of source files (only to look: nothing in them is run) and the questions that findings ask of them. A
file that is gone, too large or not Python answers every question with "not known". Runs where it is called.
"""

from __future__ import annotations

import ast
import difflib
import os
import re
from collections.abc import Iterable, Iterator

from sundog.plain import plain

_BYTES_MAX = 2 << 20
_SITE = re.compile(r"^(?P<file>.+):(?P<line>\d+)(?: in (?P<function>.+))?$")
_MODULES = frozenset({"ray", "sundog"})

Loop = ast.For | ast.AsyncFor | ast.While | ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
LOOPS = (ast.For, ast.AsyncFor, ast.While, *COMPREHENSIONS)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@plain(frozen=True)
class CodePlace:
    """A line of the user's program."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def place_of(site: str) -> CodePlace | None:
    """The place that a call site names; None if it is none.

    >>> place_of("/home/me/a.py:12 in main")
    CodePlace(file='/home/me/a.py', line=12, function='main')
    """
    found = _SITE.match(site)
    if found is None:
        return None
    return CodePlace(found["file"], int(found["line"]), found["function"] or "")


class Sources:
    """The files of a program, each read once."""

    def __init__(self) -> None:
        self._files: dict[str, Source | None] = {}

    def of(self, file: str) -> Source | None:
        """A file, parsed; None if that cannot be."""
        if file not in self._files:
            self._files[file] = _read(file)
        return self._files[file]

    def read(self) -> list[Source]:
        """The files that have been asked for and could be parsed."""
        return [source for source in self._files.values() if source is not None]

    def at(self, site: str) -> tuple[Source, CodePlace] | None:
        """The file and place of a call site."""
        place = place_of(site)
        source = self.of(place.file) if place is not None else None
        return (source, place) if source is not None and place is not None else None


def _read(file: str) -> Source | None:
    try:
        if os.path.getsize(file) > _BYTES_MAX:
            return None
        with open(file, encoding="utf-8", errors="replace") as opened:
            text = opened.read()
        return Source(file, text)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


class Source:
    """One file of the program."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self.lines = text.splitlines(keepends=True)
        self.tree = ast.parse(text)
        self.parents: dict[ast.AST, ast.AST] = {
            child: parent for parent in ast.walk(self.tree) for child in ast.iter_child_nodes(parent)
        }
        self.module, self.modules, self.verbs = _imports(self.tree)
        self.ours = _imported(self.tree)

    # ------------------------------------------------------------------ what is what
    def is_verb(self, node: ast.AST, *verbs: str) -> bool:
        """Whether this is a call of `get`, `wait`, `put` … of sundog or Ray."""
        if not isinstance(node, ast.Call):
            return False
        function = node.func
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            return function.attr in verbs and function.value.id in self.modules
        return isinstance(function, ast.Name) and self.verbs.get(function.id) in verbs

    def calls(self, line: int, *verbs: str) -> list[ast.Call]:
        """Calls of these verbs that a line has a part of."""
        found = [node for node in self.on(line) if isinstance(node, ast.Call) and self.is_verb(node, *verbs)]
        return sorted(found, key=lambda node: (node.lineno != line, node.col_offset))

    def remotes(self, where: ast.AST | Iterable[ast.AST]) -> list[ast.Call]:
        """Calls of `.remote(…)` in some code."""
        parts = [where] if isinstance(where, ast.AST) else list(where)
        return [
            node
            for part in parts
            for node in ast.walk(part)
            if isinstance(node, ast.Call) and is_remote(node)
        ]

    def on(self, line: int) -> Iterator[ast.AST]:
        """Whatever has a part on a line."""
        for node in ast.walk(self.tree):
            first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0) or 0
            if first <= line <= last:
                yield node

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node stands in, from the inside out."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def function_of(self, node: ast.AST) -> ast.AST | None:
        """The function that a node stands in."""
        return next((each for each in self.above(node) if isinstance(each, _FUNCTIONS)), None)

    def loop_of(self, node: ast.AST) -> Loop | None:
        """The innermost loop that runs a node again and again, within its function."""
        child: ast.AST = node
        for each in self.above(node):
            if isinstance(each, _FUNCTIONS):
                return None
            if isinstance(each, LOOPS) and not _is_head(each, child):
                return each
            child = each
        return None

    def takes_from_stream(self, line: int) -> bool:
        """Whether a loop around a line gets its items from a task: each turn may wait for the next one, unrecorded."""
        for node in self.on(line):
            if isinstance(node, ast.For | ast.AsyncFor):
                items = [node.iter]
            elif isinstance(node, COMPREHENSIONS):
                items = [each.iter for each in node.generators]
            else:
                continue
            if any(self._is_stream(part) for each in items for part in (each, *getattr(each, "args", ()))):
                return True
        return False

    def _is_stream(self, items: ast.AST) -> bool:
        """Whether a loop over this is one over a generator of refs: the result of one `.remote(…)`."""
        if not isinstance(items, ast.Name):
            return is_remote(items)
        scope = self.function_of(items)
        return any(
            is_remote(node.value)
            for node in ast.walk(scope or self.tree)
            if isinstance(node, ast.Assign) and self.function_of(node) is scope
            for target in node.targets
            if isinstance(target, ast.Name) and target.id == items.id
        )

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """The statement that a node is a part of."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def definition(self, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | None:
        """Where a function or class of this (qualified) name is defined."""
        wanted = [part for part in name.split(".") if part != "<locals>"]
        best: tuple[int, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef] | None = None
        for node in ast.walk(self.tree):
            if (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                and node.name == wanted[-1]
            ):
                outer = [
                    each.name
                    for each in self.above(node)
                    if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                ]
                score = sum(part in outer for part in wanted[:-1])
                if best is None or score > best[0]:
                    best = (score, node)
        return best[1] if best is not None else None

    def segment(self, node: ast.AST) -> str:
        """The text of a node."""
        return ast.get_source_segment(self.text, node) or ""

    # ------------------------------------------------------------------ changing
    def diff(self, edits: list[tuple[int, int, list[str]]]) -> str:
        """A unified diff of edits: each replaces lines from one to another (counted from 1) by others."""
        lines = list(self.lines)
        for first, last, new in sorted(edits, reverse=True):
            lines[first - 1 : last] = [line if line.endswith("\n") else line + "\n" for line in new]
        name = os.path.basename(self.file)
        return "".join(difflib.unified_diff(self.lines, lines, name, name, n=2))

    def replaced(self, node: ast.AST, new: str, inside: ast.stmt) -> str | None:
        """The text of a one-line statement with a part of it replaced; None if it has several lines."""
        if inside.lineno != inside.end_lineno:
            return None
        line = self.lines[inside.lineno - 1].rstrip("\n")
        raw = line.encode()
        start, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 0)
        return (raw[:start] + new.encode() + raw[end:]).decode()

    def indent(self, node: ast.stmt) -> str:
        """What a statement's line begins with."""
        line = self.lines[node.lineno - 1]
        return line[: len(line) - len(line.lstrip())]


def _is_head(loop: ast.AST, child: ast.AST) -> bool:
    """Whether a child of a loop is evaluated once only: what it iterates over."""
    if isinstance(loop, ast.For | ast.AsyncFor):
        return child is loop.iter or child in loop.orelse
    if isinstance(loop, COMPREHENSIONS):
        return child is loop.generators[0].iter or child is loop.generators[0]
    return False


def is_remote(node: ast.AST) -> bool:
    """Whether this is a call of `something.remote(…)`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "remote"


def _imported(tree: ast.Module) -> frozenset[str]:
    """What a file has from modules of sundog or Ray: placement groups, strategies, queues."""
    return frozenset(
        each.asname or each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in _MODULES
        for each in node.names
    )


def _imports(tree: ast.Module) -> tuple[str, frozenset[str], dict[str, str]]:
    """What sundog or Ray is called in a file, all names it may have there, and those of its verbs."""
    own = []
    verbs = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            own += [each.asname or each.name for each in node.names if each.name in _MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module in _MODULES:
            verbs.update({each.asname or each.name: each.name for each in node.names})
    return own[0] if own else "sundog", frozenset({*own, *_MODULES}), verbs
