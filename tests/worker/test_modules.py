"""Modules that are edited on disk: found by the times of their files, also when the clock is set."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sundog.worker.modules import ModuleWatch

HOUR_NS = 3600 * 10**9


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, int], Path]]:
    """Import a new module whose file was changed at a moment, relative to now."""
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def load_one(name: str, changed_ns: int) -> Path:
        path = tmp_path / f"{name}.py"
        path.write_text("value = 1\n")
        moment = time.time_ns() + changed_ns
        os.utime(path, ns=(moment, moment))
        importlib.import_module(name)
        names.append(name)
        return path

    yield load_one
    for name in names:
        sys.modules.pop(name, None)


def test_a_module_that_is_edited_after_its_import_is_found(load: Callable[[str, int], Path]) -> None:
    watch = ModuleWatch()
    path = load("watched_edited", -HOUR_NS)
    assert watch.changed() == []
    path.write_text("value = 2\n")
    assert watch.changed() == [str(path)]


def test_a_module_whose_file_is_of_tomorrow_is_not_taken_for_an_edited_one(
    load: Callable[[str, int], Path],
) -> None:
    """The clock was set back after it was saved: each worker that imports it would be replaced, for ever."""
    watch = ModuleWatch()
    load("watched_tomorrow", 24 * HOUR_NS)
    assert watch.changed() == []


def test_a_module_that_takes_the_place_of_another_is_looked_at(load: Callable[[str, int], Path]) -> None:
    load("watched_removed", -HOUR_NS)
    watch = ModuleWatch()
    del sys.modules["watched_removed"]  # as many modules as before, once the next is imported
    path = load("watched_instead", -HOUR_NS)
    assert watch.changed() == []
    path.write_text("value = 2\n")
    assert watch.changed() == [str(path)]


def test_a_file_that_is_edited_before_a_worker_begins_has_not_changed(
    load: Callable[[str, int], Path],
) -> None:
    watch = ModuleWatch()
    watch._looked_ns -= HOUR_NS  # it was made in the zygote, long before the worker was forked
    watch.begin()
    load("watched_begun", -HOUR_NS // 2)
    assert watch.changed() == []
