"""Asking a driver on another engine, seen from the command. What the driver answers: tests/ray_engine/test_desk.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sundog.observe import desks
from sundog.ray_engine.desk import Desk


def test_a_driver_that_can_be_asked_is_known_by_its_folder(tmp_path: Path) -> None:
    desk = Desk(str(tmp_path), {})
    assert desks.has_desk(str(tmp_path))
    desk.close()
    assert not desks.has_desk(str(tmp_path))


def test_a_driver_that_is_gone_does_not_answer(tmp_path: Path) -> None:
    with pytest.raises(desks.Unanswered, match="does not answer"):
        desks.ask(str(tmp_path), "stacks")


def test_unfinished_tasks_are_told_by_the_driver_and_none_without_it(tmp_path: Path) -> None:
    assert desks.unfinished(str(tmp_path)) == []
    desk = Desk(str(tmp_path), {"tasks": lambda: [{"task": "ab"}]})
    assert desks.unfinished(str(tmp_path)) == [{"task": "ab"}]
    desk.close()


def test_a_socket_that_a_killed_driver_left_is_no_desk(tmp_path: Path) -> None:
    desk = Desk(str(tmp_path), {})
    left = tmp_path / desks.SOCKET
    os.link(left, tmp_path / "kept")
    desk.close()
    os.rename(tmp_path / "kept", left)
    assert left.exists() and not desks.has_desk(str(tmp_path))
