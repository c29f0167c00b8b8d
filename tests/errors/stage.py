"""Scenes: programs that make one error happen, each run in a driver process of its own.

Owns how a scene becomes a program, how it is run, and which parts of a message differ from run to run. A scene is
a module in `scenes/`, named after its class, with a docstring for people ("When it happens: …" and "What to do:
…"), `RAISES`, and `happen()`, whose body is a whole program that ends by raising `RAISES`. That body is what runs,
and what docs/errors.md shows: the page cannot say something else than the code.

A scene may have `VARIES = [(pattern, replacement), …]` for what else differs between two runs of it.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from sundog import exceptions

ROOT = Path(__file__).parent.parent.parent
SCENES = Path(__file__).parent / "scenes"
PROGRAM = "example.py"
TIMEOUT_S = 180.0

_SIZE = r"(?:bytes|[kKMGT]i?B|%)"
# In this order: what stands first would be torn apart by what follows.
_VARIES = [
    (r"(/python)3\.\d+(/[^\"\n]*\.py\", line )\d+", r"\1<version>\2<n>"),  # of the standard library
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "<time>"),
    (r"/dev/shm/sundog-[\w-]+", "<shm>"),
    (r"\S*/session_[\w-]+", "<session>"),
    (r"session_[\w-]+", "<session>"),
    (r"0x[0-9a-f]+", "<address>"),
    (r"\b\d{1,3}(?:\.\d{1,3}){3}\b", "<ip>"),
    (r"\b(?=\w*[a-f])(?=\w*\d)[0-9a-f]{8,}\b|\b\d{16,}\b", "<id>"),
    (r"\b(pid[ =:]+)\d+", r"\1<pid>"),
    (rf"\b\d[\d,]*(?:\.\d+)?( ?{_SIZE})", r"<n>\1"),
    (r"\b\d+\.\d+\b", "<n>"),
    (r"\b\d{6,}\b", "<n>"),
]
_UNDERLINES = re.compile(r"^[ ^~]*[\^~][ ^~]*\n", re.MULTILINE)  # which Python writes them differs by version


@dataclass(frozen=True)
class Outcome:
    """What a scene's program raised, with what differs from run to run made alike."""

    type: str
    bases: list[str]
    message: str
    facts: dict[str, str]
    pickles: bool


def names() -> list[str]:
    """The scenes, by the names of their modules."""
    return sorted(path.stem for path in SCENES.glob("*.py"))


def load(name: str) -> ModuleType:
    """A scene's module; loading it starts nothing."""
    return importlib.import_module(f"tests.errors.scenes.{name}")


def snake(class_name: str) -> str:
    """The module name of a class.

    >>> snake("OutOfMemoryError")
    'out_of_memory_error'
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", class_name).lower()


def public_errors() -> dict[str, type[BaseException]]:
    """The classes that `sundog.exceptions` defines for users, in the order of their definition."""
    return {
        name: value
        for name, value in vars(exceptions).items()
        if inspect.isclass(value)
        and issubclass(value, BaseException)
        and value.__module__ == exceptions.__name__
        and not name.startswith("_")
    }


def program_of(source: str) -> str:
    """The program of a scene: its own definitions, then the body of `happen`, as a user would write it."""
    parts = []
    for node in ast.parse(source).body:
        match node:
            case ast.FunctionDef(name="happen"):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                lines = source.splitlines()[body[0].lineno - 1 - _decorators(body[0]) : node.end_lineno]
                parts.append(textwrap.dedent("\n".join(lines)))
            case ast.ImportFrom(module="__future__" | "sundog.exceptions") | ast.Expr():
                continue
            case ast.Assign(targets=[ast.Name(id="RAISES" | "VARIES")]):
                continue
            case _:
                parts.append(ast.get_source_segment(source, node) or "")
    return "\n".join(parts) + "\n"


def _decorators(node: ast.stmt) -> int:
    """How many lines of decorators stand above a definition's own line."""
    first: list[ast.expr] = getattr(node, "decorator_list", [])
    return node.lineno - first[0].lineno if first else 0


def alike(text: str, varies: Iterable[tuple[str, str]] = ()) -> str:
    """`text` without what differs from run to run, machine to machine."""
    for pattern, replacement in [*varies, *_VARIES]:
        text = re.sub(pattern, replacement, text)
    return _UNDERLINES.sub("", text)


def play(name: str, environ: dict[str, str] | None = None) -> Outcome:
    """Run a scene in a driver of its own.

    Raises:
        AssertionError: it raised nothing, or did not end.
    """
    module = load(name)
    with tempfile.TemporaryDirectory(prefix="scene-") as folder:
        program, answer = Path(folder) / PROGRAM, Path(folder) / "answer.json"
        program.write_text(program_of((SCENES / f"{name}.py").read_text(encoding="utf-8")), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "tests.errors.play", str(program), str(answer)],
            cwd=ROOT,
            env={**os.environ, **(environ or {}), "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert answer.exists(), (
            f"{name} raised nothing (exit code {done.returncode}):\n{done.stdout}{done.stderr}"
        )
        found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    varies = [(re.escape(f"{folder}/"), ""), *getattr(module, "VARIES", [])]
    varies += [(re.escape(f"{ROOT}/"), ""), (re.escape(sys.prefix), "<python>")]
    varies.append((re.escape(sys.base_prefix), "<python>"))
    return Outcome(
        found["type"],
        found["bases"],
        alike(found["message"], varies),
        {fact: alike(value, varies) for fact, value in found["facts"].items()},
        found["pickles"],
    )
