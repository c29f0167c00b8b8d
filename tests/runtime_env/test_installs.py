"""Environments of packages: the steps, their order and how they fail, without pip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sundog.exceptions import RuntimeEnvSetupError
from sundog.runtime_env import installs
from sundog.runtime_env.normal import NormalEnv

SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


class Programs:
    """Stands for venv and pip: notes what is started, and ends as the test says."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.requirements = ""
        self.fails: dict[str, int | None] = {}  # the exit code of a step; None: it takes too long
        self.timeouts: set[float | None] = set()

    def run(self, command: list[str], *, stdout: Any, timeout: float | None, **_how: Any) -> Any:
        assert command[1] == "-P", "modules of the working folder are not imported"
        step = next(word for word in ("venv", "install", "check") if word in command)
        self.begun.append(step)
        self.timeouts.add(timeout)
        if step == "venv":
            os.makedirs(os.path.join(command[-1], SITE))
        elif step == "install":
            self.requirements = Path(command[-1]).read_text()
        stdout.write(f"{step} says this\n".encode())
        stdout.flush()
        code = self.fails.get(step, 0)
        if code is None:
            raise subprocess.TimeoutExpired(command, timeout or 0.0)
        return subprocess.CompletedProcess(command, code)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Programs:
    made = Programs()
    monkeypatch.setattr(subprocess, "run", made.run)
    return made


def wanted(tmp_path: Path, **more: Any) -> NormalEnv:
    return NormalEnv(pip=("six", "attrs>=1"), pip_dir=str(tmp_path / "pip" / "abc"), **more)


def test_packages_are_installed_from_a_file_and_an_environment_is_made_once(
    tmp_path: Path, programs: Programs
) -> None:
    env = wanted(tmp_path)
    installs.prepare(env)
    installs.prepare(env)
    assert programs.begun == ["venv", "install"] and programs.requirements == "six\nattrs>=1\n"
    assert not env.needs_prepare and os.stat(env.pip_dir).st_mode & 0o777 == 0o700
    shared = Path(env.pip_dir, SITE, installs._SHARED).read_text().splitlines()
    assert shared and all(os.path.basename(path) in installs._SITE_FOLDERS for path in shared)


def test_a_check_is_run_if_it_is_asked_for(tmp_path: Path, programs: Programs) -> None:
    installs.prepare(wanted(tmp_path, pip_check=True))
    assert programs.begun == ["venv", "install", "check"]


def test_what_an_unfinished_install_left_is_removed_first(tmp_path: Path, programs: Programs) -> None:
    env = wanted(tmp_path)
    os.makedirs(env.pip_dir)
    Path(env.pip_dir, "half.py").touch()
    installs.prepare(env)
    assert not Path(env.pip_dir, "half.py").exists() and not env.needs_prepare


@pytest.mark.parametrize(("code", "how"), [(3, "ended with exit code 3"), (None, "took longer than 7 s")])
def test_a_step_that_fails_is_told_with_its_last_lines_and_leaves_nothing(
    tmp_path: Path, programs: Programs, code: int | None, how: str
) -> None:
    env = wanted(tmp_path, setup_timeout_s=7)
    programs.fails["install"] = code
    with pytest.raises(RuntimeEnvSetupError, match=how) as caught:
        installs.prepare(env)
    text, facts = str(caught.value), vars(caught.value)
    assert "install says this" in text and "venv says this" not in text and "six, attrs>=1" in text
    assert (facts["exit_code"], facts["packages"]) == (code, ["six", "attrs>=1"])
    assert Path(facts["log_path"]).exists() and not os.path.exists(env.pip_dir)
    assert programs.timeouts == {7}


def test_minus_one_waits_for_ever(tmp_path: Path, programs: Programs) -> None:
    installs.prepare(wanted(tmp_path, setup_timeout_s=-1))
    assert programs.timeouts == {None}


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, programs: Programs) -> None:
    (tmp_path / "pip").write_text("a file")
    with pytest.raises(RuntimeEnvSetupError, match="cannot be installed in"):
        installs.prepare(wanted(tmp_path))
    assert programs.begun == []


@pytest.mark.parametrize(("version", "own"), [("22.3", True), ("22.2.1", False), ("odd", False)])
def test_the_pip_of_this_interpreter_is_used_if_it_can_install_elsewhere(
    monkeypatch: pytest.MonkeyPatch, version: str, own: bool
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _name: version)
    assert installs._venv_options() == (["--without-pip"] if own else [])
    assert installs._pip_of("/env/bin/python")[0] == (sys.executable if own else "/env/bin/python")
