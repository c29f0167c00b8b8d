"""Which line of the user's program a get or put is charged to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import ParamSpec

import pytest

from sundog import events
from sundog.event_names import read_names
from sundog.owner import call_sites
from sundog.owner.rows import Fn

P = ParamSpec("P")


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[events.Ring]:
    monkeypatch.setattr(call_sites, "_ours", set())  # the modules made here do not stay
    made = events.Ring(str(tmp_path / f"{'ab' * 8}.ring"), 16, "driver")
    yield made
    made.close()


def _as_module(function: Callable[P, int], name: str) -> Callable[P, int]:
    """The same function, as if it stood in another module."""
    assert isinstance(function, FunctionType)
    made: Callable[P, int] = FunctionType(
        function.__code__,
        {**function.__globals__, "__name__": name},
        function.__name__,
        function.__defaults__,
    )
    return made


def _ask(ring: events.Ring, depth: int = 1) -> int:
    return call_sites.of_user(ring, 7, depth)


def _verb(ask: Callable[[events.Ring, int], int], ring: events.Ring, depth: int) -> int:
    return ask(ring, depth)


def _text(ring: events.Ring, number: int) -> str:
    return read_names(ring.path)[number][0]


def test_the_line_outside_of_sundog_is_named_and_keeps_its_number(ring: events.Ring) -> None:
    ask = _as_module(_ask, "sundog.owner.getting")
    numbers = {ask(ring) for _ in range(3)}
    assert len(numbers) == 1
    assert "in test_the_line_outside_of_sundog_is_named_and_keeps_its_number" in _text(ring, numbers.pop())


def test_two_lines_have_two_numbers(ring: events.Ring) -> None:
    ask = _as_module(_ask, "sundog.owner.getting")
    one = ask(ring)
    other = ask(ring)
    assert one != other


def test_frames_that_are_passed_over_lead_to_the_same_line(ring: events.Ring) -> None:
    ask = _as_module(_ask, "sundog.owner.getting")
    verb = _as_module(_verb, "sundog.api")
    by_depth = [verb(ask, ring, depth) for depth in (1, 2, 1, 2)]
    assert len(set(by_depth)) == 1


def test_a_shorter_way_than_usual_is_not_charged_to_the_callers_caller(ring: events.Ring) -> None:
    ask = _as_module(_ask, "sundog.owner.getting")
    number = (lambda: ask(ring, 2))()  # two frames back is this test, but the lambda called
    assert "<lambda>" in _text(ring, number)


def test_without_code_of_the_users_the_other_number_is_given(
    ring: events.Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_sites, "_is_ours", lambda names: True)
    assert call_sites.of_user(ring, 7) == 7


def _note(ring: events.Ring, fn: Fn) -> int:
    call_sites.note(ring, fn, bytes(16), _note.__code__, 0)
    return 0


def test_what_a_pool_submits_is_charged_to_the_line_that_asked_for_it(ring: events.Ring) -> None:
    _as_module(_note, "sundog.util.multiprocessing.pool")(ring, Fn(1, "f"))
    assert any("in test_what_a_pool_submits" in text for text, *_ in read_names(ring.path).values())
