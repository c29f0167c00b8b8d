"""`make smoke`: a few quick tests on every other Python that sundog supports and this machine has.

Owns one small environment per interpreter, `.venv-3.12` and so on, made anew when pyproject.toml changes. An
interpreter that is not there, or whose packages cannot be had, is named and left out; a test that fails fails it all.
`make test PYTHON=python3.13` in a fresh clone runs the whole suite on one of them.

Run by make, with the Python of `.venv`.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
MINORS = (11, 12, 13)
TOOLS = ("numpy", "pytest", "pytest-timeout")
# Where versions of Python differ: bytecode and pickles, flags, the end of the interpreter, asyncio, tracebacks.
TESTS = (
    "tests/integration/worker/test_async_actor.py",
    "tests/integration/test_isolation.py",
    "tests/integration/test_logs.py",
    "tests/integration/test_versions.py",
    "tests/serialize",
    "tests/test_exception_transport.py",
    "tests/test_isolation.py",
    "tests/worker",
)
TIMEOUT_S = 600


def find(minor: int) -> str | None:
    """An interpreter of a minor version, from the path or from pyenv."""
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    places = [
        shutil.which(f"python3.{minor}"),
        *sorted(glob.glob(f"{pyenv}/versions/3.{minor}.*/bin/python")),
    ]
    for python in places:
        if python:
            asked = [python, "-c", "import sys, venv, ensurepip; print(sys.version_info[1])"]
            said = subprocess.run(asked, capture_output=True, text=True)
            # pyenv has a command for each version that it knows, whether or not it may be run here.
            if said.returncode == 0 and said.stdout.strip() == str(minor):
                return python
    return None


def prepare(minor: int, python: str) -> str | None:
    """Make the environment of a minor version, unless it is there; returns why it cannot be made."""
    folder = ROOT / f".venv-3.{minor}"
    stamp, project = folder / ".installed", ROOT / "pyproject.toml"
    if stamp.exists() and stamp.stat().st_mtime >= project.stat().st_mtime:
        return None
    asked = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["optional-dependencies"]["dev"]
    tools = [each for each in asked if each.split(">")[0].split("[")[0] in TOOLS]
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([python, "-m", "venv", str(folder)], [*pip, "--editable", str(ROOT), *tools]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
            return f"its packages cannot be installed ({lines[-1]})"
    stamp.touch()
    return None


def run(minor: int) -> tuple[bool, str]:
    """Test one minor version; whether nothing failed, and what to say of it."""
    python = find(minor)
    if python is None:
        return True, f"Python 3.{minor}: not found"
    trouble = prepare(minor, python)
    if trouble is not None:
        return True, f"Python 3.{minor} ({python}): left out, {trouble}"
    command = [f".venv-3.{minor}/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:
        return False, f"Python 3.{minor}: FAILED: {' '.join(command)}\n{done.stdout}{done.stderr}"
    return True, f"Python 3.{minor} ({python}): {done.stdout.strip().splitlines()[-1]}"


def main() -> int:
    """Test all others at the same time: much of it is waiting."""
    others = [minor for minor in MINORS if minor != sys.version_info[1]]
    with ThreadPoolExecutor(len(others)) as pool:
        results = list(pool.map(run, others))
    for _, said in results:
        print(f"smoke: {said}")
    return 0 if all(ok for ok, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
