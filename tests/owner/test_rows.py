"""Rows of tasks stay small and fast, however a program begins."""

from __future__ import annotations

import gc
import importlib.util
from types import ModuleType

from sundog.owner import rows


def _anew() -> ModuleType:
    """The module as a new process has it: its classes have had no instance yet."""
    assert rows.__spec__ is not None
    module = importlib.util.module_from_spec(rows.__spec__)
    assert rows.__spec__.loader is not None
    rows.__spec__.loader.exec_module(module)
    return module


def test_a_burst_at_the_start_leaves_no_task_with_a_dict_of_its_own() -> None:
    new = _anew()
    fn = new.Fn(0, "f")
    waiting = [new.Task(b"", fn, None, 0.0) for _ in range(1000)]
    task = waiting[0]
    task.lane = task.parent = task.deps = None
    task.estimate_s, task.missing = 0.1, 1
    assert not [held for held in gc.get_referents(task) if type(held) is dict]
