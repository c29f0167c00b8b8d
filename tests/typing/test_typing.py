"""The types of the public verbs, as users' type checkers see them: mypy and pyright on files of examples.

`examples/right.py` must pass; in the others, the lines marked `# wrong` are errors and no other line is one. pyright is
the one of the package basedpyright, which brings its JavaScript along; its own additional rules are off.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = Path(__file__).parent / "examples"
MARK = re.compile(r"# wrong(?:: (\w+))?$")


def marked(path: Path, checker: str) -> set[tuple[str, int]]:
    """The lines that a checker must refuse."""
    return {
        (path.name, number)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (mark := MARK.search(line)) and mark[1] in (None, checker)
    }


def refused_by_mypy(*paths: Path) -> dict[tuple[str, int], str]:
    """The lines with errors, and the errors. Shares the cache of `make types`."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", *map(str, paths)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(r"^(\S+?):(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    return {(Path(name).name, int(line)): message for name, line, message in found}


def refused_by_pyright(tmp_path: Path, *paths: Path) -> dict[tuple[str, int], str]:
    """The lines with errors, and the errors."""
    settings = {
        "include": [str(path) for path in paths],
        "extraPaths": [str(ROOT / "src")],
        "pythonVersion": "3.11",
        "typeCheckingMode": "standard",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--project", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["summary"]["filesAnalyzed"] == len(paths), told["summary"]
    return {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1): each["message"]
        for each in told["generalDiagnostics"]
        if each["severity"] == "error"
    }


@pytest.fixture(scope="module")
def paths() -> list[Path]:
    return sorted(EXAMPLES.glob("*.py"))


def test_mypy_accepts_right_calls_and_refuses_wrong_ones(paths: list[Path]) -> None:
    seen = [path for path in paths if path.stem != "decorated_classes"]

    refused = refused_by_mypy(*seen)

    assert refused.keys() == {line for path in seen for line in marked(path, "mypy")}, refused


def test_pyright_accepts_right_calls_and_refuses_wrong_ones(paths: list[Path], tmp_path: Path) -> None:
    refused = refused_by_pyright(tmp_path, *paths)

    assert refused.keys() == {line for path in paths for line in marked(path, "pyright")}, refused


def test_there_are_wrong_calls_to_refuse(paths: list[Path]) -> None:
    """Guards the tests above: without marks they would only ask whether nothing is refused."""
    assert len({line for path in paths for line in marked(path, "mypy")}) > 20
