"""The rules of the house that no linter knows, checked on the syntax trees of our own files.

Import directions are import-linter's (see pyproject.toml). Here: who reads the environment, which modules say
what they are for, how long a file may grow, and names that say nothing. Each finder is first shown a breach.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "sundog"
MAX_LINES = 600
EMPTY_NAMES = {"utils", "helpers", "common", "manager", "misc"}
# Paths that Ray programs import: their names are not ours to choose.
RAY_PATHS = {"src/sundog/util/helpers.py", "src/sundog/util/state/common.py"}
ENVIRONMENT_NAMES = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}


def our_files() -> list[Path]:
    folders = [PACKAGE, ROOT / "tests", ROOT / "benchmarks", ROOT / "examples"]
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def environment_uses(source: str) -> Iterator[int]:
    """Yield the line of every use of the process environment, however ``os`` is spelled."""
    tree = ast.parse(source)
    modules = {"os", "posix"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {name.asname for name in node.names if name.name in modules and name.asname}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=("os" | "posix"), names=names):
                if any(name.name in ENVIRONMENT_NAMES for name in names):
                    yield node.lineno
            case ast.Attribute(value=ast.Name(id=module), attr=attribute):
                if module in modules and attribute in ENVIRONMENT_NAMES:
                    yield node.lineno


def docstring_problem(source: str) -> str | None:
    """Say what is wrong with a module's docstring; an empty file needs none."""
    if not source.strip():
        return None
    return None if ast.get_docstring(ast.parse(source)) else "has no docstring"


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.environ['HOME']",
        "import os\nos.getenv('HOME')",
        "import os as _os\n_os.environ.get('HOME')",
        "from os import environ\n",
        "from os import path, getenv as look\n",
        "def f():\n    import os\n    return dict(os.environ)",
        "import os\nos.putenv('A', 'b')",
    ],
)
def test_a_reader_of_the_environment_is_found_however_it_is_spelled(source: str) -> None:
    assert list(environment_uses(source))


@pytest.mark.parametrize("source", ["import os\nos.getpid()", "from os import path", "config.environ = {}"])
def test_other_uses_of_os_are_left_alone(source: str) -> None:
    assert not list(environment_uses(source))


def test_only_config_reads_the_environment() -> None:
    breaches = [
        f"{named(path)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path not in (PACKAGE / "config.py", PACKAGE / "early.py")  # early.py: config is too slow for it
        for line in environment_uses(path.read_text())
    ]

    assert not breaches, (
        f"ask sundog.config instead (config.load, user_environ, set_child_environ): {breaches}"
    )


def test_a_module_without_a_docstring_is_found() -> None:
    assert docstring_problem("import os\n") == "has no docstring"
    assert docstring_problem('""""""\nimport os\n') == "has no docstring"
    assert docstring_problem('"""What it owns."""\n') is None


def test_every_module_opens_with_what_it_is_for() -> None:
    problems = [
        f"{named(path)} {problem}" for path in our_files() if (problem := docstring_problem(path.read_text()))
    ]

    assert not problems, f"say what it owns, what it refuses, and which process runs it: {problems}"


def test_no_file_grows_past_six_hundred_lines() -> None:
    lengths = {named(path): len(path.read_text().splitlines()) for path in our_files()}

    too_long = {name: lines for name, lines in lengths.items() if lines > MAX_LINES}
    assert not too_long, f"split them by noun: {too_long}"


def test_no_module_has_a_name_that_says_nothing() -> None:
    empty = {named(path) for path in our_files() if EMPTY_NAMES & {path.stem, path.parent.name}} - RAY_PATHS

    assert not empty, f"name them after what they hold: {empty}"


def test_every_file_of_the_package_is_seen() -> None:
    """Guards the tests above: with a wrong root they would pass on nothing at all."""
    assert PACKAGE / "config.py" in our_files()
    assert Path(__file__) in our_files()
