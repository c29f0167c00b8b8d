"""Questions to a driver, and its answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog.observe import desks
from sundog.ray_engine.desk import Desk


def test_a_question_is_answered_with_its_arguments(tmp_path: Path) -> None:
    desk = Desk(str(tmp_path), {"double": lambda x: 2 * x})
    assert desks.ask(str(tmp_path), "double", x=21) == 42
    assert desks.ask(str(tmp_path), "double", x="ab") == "abab"
    desk.close()


def test_a_long_path_is_no_hindrance(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    desk = Desk(str(folder), {"double": lambda x: 2 * x})
    assert desks.ask(str(folder), "double", x=1) == 2
    desk.close()


def test_an_unknown_question_and_an_error_are_told(tmp_path: Path) -> None:
    desk = Desk(str(tmp_path), {"fail": lambda: 1 / 0})
    with pytest.raises(desks.Unanswered, match="does not know this question"):
        desks.ask(str(tmp_path), "weather")
    with pytest.raises(desks.Unanswered, match="ZeroDivisionError"):
        desks.ask(str(tmp_path), "fail")
    desk.close()
