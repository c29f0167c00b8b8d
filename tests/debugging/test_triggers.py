"""Breakpoints set from outside: which lines and exceptions stop."""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Any

import pytest

from sundog.debugging import triggers
from sundog.debugging.triggers import TriggerWatch
from sundog.owner import context
from sundog.wire.pauses import Trigger


def work(numbers: list[int]) -> int:
    total = 0
    for number in numbers:
        total += number
    if total > 100:
        raise LookupError(total)
    return total


LINE = work.__code__.co_firstlineno + 3


@pytest.fixture
def hits(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs `work` as a task under triggers; gives the reasons and totals of the stops."""

    def run(trigger: Trigger, numbers: list[int], attempt: int = 0) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []

        def stop(frame: FrameType, why: str) -> None:
            found.append((why, frame.f_locals["total"]))

        watch = TriggerWatch(stop)
        before = sys.gettrace()
        monkeypatch.setattr(context, "main_task", (b"1", "work", attempt, b""))
        watch.set((trigger,))
        watch.arm_thread(None)
        try:
            work(numbers)
        except LookupError:
            pass
        finally:
            watch.set(())
            watch.arm_thread(None)
            sys.settrace(before)
        return found

    return run


def test_a_line_stops_when_its_condition_holds(hits: Any) -> None:
    where = Trigger(1, "test_triggers.py", LINE, "number > 2")
    assert hits(where, [1, 2, 3, 4]) == [
        (f"sundog break {where.text()}", 3),
        (f"sundog break {where.text()}", 6),
    ]
    assert hits(where._replace(path="other.py"), [1, 2, 3]) == []


def test_an_exception_stops_once_by_its_name_or_its_bases(hits: Any) -> None:
    assert hits(Trigger(1, exception="LookupError"), [200]) == [("LookupError: 200", 200)]
    assert hits(Trigger(1, exception="Exception"), [200]) == [("LookupError: 200", 200)]
    assert hits(Trigger(1, exception="ValueError"), [200]) == []


def test_another_attempt_is_passed_over(hits: Any) -> None:
    where = Trigger(1, "test_triggers.py", LINE, attempt=2)
    assert hits(where, [1]) == [] and len(hits(where, [1], attempt=1)) == 1


def test_a_condition_that_raises_counts_as_false_and_is_told_once(
    hits: Any, caplog: Any, capsys: Any
) -> None:
    assert hits(Trigger(1, "test_triggers.py", LINE, "nothing > 2"), [1, 2, 3]) == []
    # A session before this test may have had what is logged shown on stderr, too.
    shown = [caplog.text, capsys.readouterr().err]
    assert max(text.count("raised NameError") for text in shown) == 1
    assert any("sundog break --clear 1" in text for text in shown)


def test_files_of_libraries_are_not_the_users() -> None:
    assert triggers.is_library("<frozen os>") and triggers.is_library("<__array_function__ internals>")
    assert triggers.is_library("<string>"), "methods that dataclasses make"
    assert not triggers.is_library("<ipython-input-3-5d1d>") and not triggers.is_library("<stdin>")
    assert triggers.is_library(os.__file__) and triggers.is_library(triggers.__file__)
    assert triggers.is_library("/x/site-packages/y.py") and not triggers.is_library("/home/me/f.py")
