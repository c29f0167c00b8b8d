"""Stalls told apart: a session that lacks processors, one that computes, one in which nobody will ever answer."""

from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path

import pytest

from tests.chaos import stalls
from tests.chaos.stalls import Span, Tick, Watch


def ticks(count: int, ran_s: float, waited_s: float) -> list[Tick]:
    return [Tick(float(number), 1.0, ran_s, waited_s) for number in range(count)]


def test_a_session_in_which_nobody_wants_a_processor_is_stuck() -> None:
    span = Span.of([*ticks(5, 1.0, 3.0), *ticks(30, 0.01, 0.0), *ticks(4, 1.5, 0.1)])
    assert span == (30.0, 4.0, 5.0)
    assert not span.starved() and "stuck: " in span.text()


def test_a_session_whose_processes_wait_for_a_processor_is_starved() -> None:
    span = Span.of([*ticks(30, 0.1, 0.9), *ticks(9, 0.0, 0.0)])
    assert span.starved() and "starved of processors" in span.text()


def test_a_session_that_has_its_processors_is_busy() -> None:
    span = Span.of(ticks(30, 1.0, 0.0))
    assert not span.starved() and "busy without an end" in span.text()


@pytest.mark.parametrize("tool", ["as installed", "none"])
def test_a_program_that_makes_no_step_is_shown_with_its_stacks(
    monkeypatch: pytest.MonkeyPatch, leak_check: Path, tool: str
) -> None:
    monkeypatch.setattr(stalls, "STALL_S", 0.05)
    monkeypatch.setattr(stalls, "_TICK_S", 0.01)
    if tool == "none":
        monkeypatch.setattr(stalls, "_tool", lambda: None)
    told = threading.Event()

    class Found(list[str]):
        def append(self, text: str) -> None:
            super().append(text)
            told.set()

    steps = itertools.count(1)
    watch = Watch({"getting on": lambda: next(steps), "not": lambda: 7})
    watch.found = Found()
    watch.start()
    try:
        assert told.wait(50)
    finally:
        watch.stop()
    assert len(watch.found) == 1
    assert "program not made no step" in watch.found[0]
    assert f"-- {os.getpid()}: " in watch.found[0]
    assert "test_a_program_that_makes_no_step_is_shown_with_its_stacks" in watch.found[0]
