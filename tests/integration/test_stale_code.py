"""Modules edited on disk while a session runs: workers that imported the old text are replaced."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sundog.observe.records import read_session
from sundog.serialize.fingerprint import fingerprint
from tests.integration import drivers

Start = Callable[..., ModuleType]
_numbers = iter(range(1_000_000))


class Helper:
    """A module of the user's, which the test rewrites."""

    def __init__(self, folder: Path) -> None:
        self.name = f"stale_helper_{os.getpid()}_{next(_numbers)}"
        self.path = folder / f"{self.name}.py"

    def write(self, value: int) -> None:
        """Change what `value()` returns."""
        self.path.write_text(f"def value():\n    return {value}\n\ndef twice():\n    return 2 * value()\n")


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Helper]:
    monkeypatch.syspath_prepend(str(tmp_path))
    # A file rewritten within the second that its bytecode was made has the same time in it, for Python.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    found = Helper(tmp_path)
    found.write(1)
    yield found
    sys.modules.pop(found.name, None)


def settle(ray: ModuleType) -> None:
    """Have the leases given back, as a pause of 20 ms does: workers look at their modules at a new one."""
    ray.available_resources()


def test_tasks_run_the_edited_module(ray_session: Start, helper: Helper) -> None:
    ray = ray_session(num_cpus=1)
    name = helper.name

    @ray.remote
    def call() -> tuple[int, int]:
        return importlib.import_module(name).value(), os.getpid()

    value, before = ray.get(call.remote(), timeout=120)
    assert value == 1
    settle(ray)
    assert ray.get(call.remote(), timeout=120) == (1, before)  # nothing changed: the same worker
    settle(ray)
    helper.write(2)
    value, after = ray.get(call.remote(), timeout=120)
    assert value == 2 and after != before
    drivers.await_true(lambda: not Path(f"/proc/{before}").exists(), "the stale worker's end")


def test_functions_of_the_edited_module_itself_are_new(ray_session: Start, helper: Helper) -> None:
    ray = ray_session(num_cpus=2)
    module: Any = importlib.import_module(helper.name)
    twice = ray.remote(module.twice)
    assert ray.get([twice.remote() for _ in range(4)], timeout=120) == [2] * 4
    for value in (5, 7):
        settle(ray)
        helper.write(value)
        assert ray.get([twice.remote() for _ in range(4)], timeout=120) == [2 * value] * 4


def test_a_stale_worker_stays_while_others_need_what_it_owns(ray_session: Start, helper: Helper) -> None:
    ray = ray_session(num_cpus=1)
    name = helper.name

    @ray.remote
    def make() -> list[Any]:
        return [ray.put(importlib.import_module(name).value())]

    (old,) = ray.get(make.remote(), timeout=120)
    settle(ray)
    helper.write(2)
    (new,) = ray.get(make.remote(), timeout=120)
    assert ray.get([old, new], timeout=120) == [1, 2]


def test_a_new_actor_runs_the_edited_module_and_an_old_one_stays(ray_session: Start, helper: Helper) -> None:
    ray = ray_session(num_cpus=2)
    name = helper.name

    @ray.remote
    def value() -> int:
        return int(importlib.import_module(name).value())

    @ray.remote
    class Actor:
        def __init__(self) -> None:
            self.value = importlib.import_module(name).value()

        def read(self) -> int:
            return int(self.value)

    old = Actor.remote()
    assert ray.get([old.read.remote(), value.remote()], timeout=120) == [1, 1]
    settle(ray)
    helper.write(2)
    new = Actor.remote()
    assert ray.get([new.read.remote(), old.read.remote()], timeout=120) == [2, 1]


def test_switched_off_it_warns_instead(
    ray_session: Start, helper: Helper, capfd: pytest.CaptureFixture[str]
) -> None:
    ray = ray_session(num_cpus=1, _system_config={"reload_changed_modules": False})
    name = helper.name

    @ray.remote
    def call() -> int:
        return int(importlib.import_module(name).value())

    assert ray.get(call.remote(), timeout=120) == 1
    settle(ray)
    helper.write(2)
    assert ray.get(call.remote(), timeout=120) == 1
    shown: list[str] = []

    def warned() -> bool:
        shown.append(capfd.readouterr().err)
        return f"{name}.py changed on disk" in "".join(shown)

    drivers.await_true(warned, "the warning")


def test_records_carry_the_fingerprint_of_the_code_that_ran(ray_session: Start, helper: Helper) -> None:
    ray = ray_session(num_cpus=1)
    module: Any = importlib.import_module(helper.name)
    value = ray.remote(module.value)

    @ray.remote
    class Actor:
        def hello(self) -> int:
            return 1

    prints = [fingerprint(module.value)]
    ray.get(value.remote(), timeout=120)
    settle(ray)
    helper.write(2)
    ray.get(value.remote(), timeout=120)
    prints.append(fingerprint(importlib.reload(module).value))
    ray.get(Actor.remote().hello.remote(), timeout=120)
    path = ray.init(ignore_reinit_error=True)["session_dir"]
    tasks = read_session(path).tasks
    assert [row.code for row in tasks if row.name == "value"] == prints
    assert prints[0] != prints[1]
    calls = {row.name: row.code for row in tasks if row.kind != "task"}
    assert all(len(code) == 16 for code in calls.values()) and len(calls) == 2
