"""What messages promise is there: commands that exist, no documents that an installed package does not have."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import sundog
from sundog.cli import COMMANDS

SOURCE = Path(sundog.__file__).parent
# A command as messages and help name it: after these words, or in backquotes.
COMMAND = re.compile(r"(?:See|Try|with|waits|it|this|then|too|or|script|instead)(?::|,)? `?sundog ([a-z]+)")
QUOTED = re.compile(r"`sundog ([a-z]+)")
# Words that follow the name of the project in ordinary sentences.
PROSE = {
    "is",
    "as",
    "runs",
    "and",
    "has",
    "in",
    "from",
    "inside",
    "needs",
    "stands",
    "gives",
    "nor",
    "are",
    "never",
}
PROSE |= {"makes", "did", "does"}


@functools.cache
def texts() -> list[tuple[str, str]]:
    """Every string of the package that may reach a user: all but docstrings, with the place it is at."""
    return list(_texts())


def _texts() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        documents = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
                yield f"{path.relative_to(SOURCE)}:{node.lineno}", node.value


def test_a_command_that_a_message_names_exists() -> None:
    unknown = [
        f"{place}: sundog {found}"
        for place, text in texts()
        for pattern in (COMMAND, QUOTED)
        for found in pattern.findall(text)
        if found not in COMMANDS and found not in PROSE
    ]
    assert unknown == []


def test_no_message_sends_the_user_to_a_file_that_is_not_installed() -> None:
    assert [f"{place}: {text!r}" for place, text in texts() if re.search(r"\bdocs/|\w\.md\b", text)] == []


def test_the_test_itself_would_notice() -> None:
    assert COMMAND.findall("is gone. See: sundog nonsense") == ["nonsense"]
    assert any("sundog status" in text for _, text in texts())
