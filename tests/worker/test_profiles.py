"""Profiles of single calls: what is measured, and that a call that is interrupted leaves nothing running."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from sundog.profiling.rows import LineTimes
from sundog.worker.profiles import Profiler, make_profiler

R = TypeVar("R")


def traced(function: Callable[[int], R]) -> Callable[[int], R]:
    @functools.wraps(function)
    def wrapper(number: int) -> R:
        return function(number)

    return wrapper


@traced
def total(number: int) -> int:
    found = 0
    for each in range(number):
        found += each
    return found


@traced
async def total_later(number: int) -> int:
    await asyncio.sleep(0)
    found = number + 1
    return found


@pytest.fixture
def session(tmp_path: Path) -> str:
    (tmp_path / "profiles").mkdir(mode=0o700)
    return str(tmp_path)


def _lines(profiler: Profiler) -> dict[str, list[int]]:
    """Hits of each function's lines."""
    lines: list[LineTimes] = profiler.part().lines or []
    return {each.name: [hits for _, (hits, _) in sorted(each.lines.items())] for each in lines}


def test_of_a_decorated_function_its_own_lines_are_measured_and_not_the_wrapper(session: str) -> None:
    pytest.importorskip("line_profiler")  # not in the small environments of other Pythons (make smoke)
    profiler = make_profiler("line", session)
    for _ in range(2):
        assert profiler.call(total, "total", (3,), {}) == 3
    assert _lines(profiler) == {"total": [2, 8, 6, 2]}


def test_of_a_decorated_coroutine_all_lines_are_measured(session: str) -> None:
    pytest.importorskip("line_profiler")  # not in the small environments of other Pythons (make smoke)
    profiler = make_profiler("line", session)

    async def main() -> object:
        result = profiler.call(total_later, "total_later", (3,), {})
        assert isinstance(result, Awaitable)
        return await result

    assert asyncio.run(main()) == 4
    assert _lines(profiler) == {"total_later": [1, 1, 1]}


def test_a_call_that_is_interrupted_before_it_begins_leaves_no_sampler(session: str) -> None:
    profiler = make_profiler("cpu", session)
    enter = profiler._enter

    def interrupted(entered: list[object], name: str) -> None:
        enter(entered, name)
        raise KeyboardInterrupt  # where a cancel that came meanwhile is raised

    profiler._enter = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        profiler.call(total, "total", (3,), {})
    assert "sundog-profile" not in {each.name for each in threading.enumerate()}
