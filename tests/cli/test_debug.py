"""`sundog debug`: which paused task comes next when one is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from click.testing import Result

from sundog.cli import debug, exits
from sundog.debugging import client
from sundog.util.state import source
from sundog.util.state.exception import ServerUnavailable
from sundog.wire.pauses import Pause
from tests.cli.fakes import FakeSession

Run = Callable[..., Result]


def _pause(number: int, port: int = 0) -> Pause:
    made = Pause(f"id{number}", f"task{number}", "step", 0, "/p.py", 7, "step", "breakpoint()", 1.0, 1, "00")
    return made._replace(number=number, port=port)


@dataclass
class _Channel:
    """A connection to a paused task."""

    number: int

    def close(self) -> None: ...


@pytest.fixture
def visited(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Plays a node that answers with one list of pauses after the other; returns the numbers that are visited."""

    def play(*answers: list[Pause], ends: tuple[str, ...] = ()) -> list[int]:
        visits: list[int] = []
        left = list(ends)

        def visit(channel: _Channel, _history: str) -> str:
            visits.append(channel.number)
            return left.pop(0) if left else client.END

        fake = FakeSession([*answers, AssertionError("asked once more")])
        monkeypatch.setattr(source, "find_source", lambda _address: fake)
        monkeypatch.setattr(debug, "_elsewhere", lambda _address: None)
        monkeypatch.setattr(debug, "_connect", lambda _path, pause: _Channel(pause.number))
        monkeypatch.setattr(client, "visit", visit)
        monkeypatch.setattr(client, "is_terminal", lambda: True)
        return visits

    return play


def _starts_later(looks: int) -> Callable[[object], object]:
    """A look for the session that finds none so many times."""
    left = [ServerUnavailable("no session")] * looks

    def find(_address: object) -> object:
        if left:
            raise left.pop()
        return found

    found = source.find_source(None)
    return find


def test_a_session_that_has_not_started_is_waited_for_as_its_tasks_are(
    visited: Callable[..., list[int]], sundog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits = visited([_pause(1)], [])
    monkeypatch.setattr(source, "find_source", _starts_later(2))
    assert sundog("debug").exit_code == exits.NO_SESSION
    assert visits == []
    assert sundog("debug", "--wait", "60").exit_code == exits.OK
    assert visits == [1]


def test_a_task_that_was_left_is_not_waited_for_though_its_node_lists_it_still(
    visited: Callable[..., list[int]], sundog: Run
) -> None:
    visits = visited([_pause(1)], [_pause(1)])
    assert sundog("debug", "--wait", "1000").exit_code == 0
    assert visits == [1]


def test_the_command_goes_on_to_the_next_task_that_stands(
    visited: Callable[..., list[int]], sundog: Run
) -> None:
    visits = visited([_pause(1)], [_pause(1), _pause(2)], [_pause(2)])
    assert sundog("debug").exit_code == 0
    assert visits == [1, 2]


def test_a_task_that_ran_when_its_visitor_left_and_stands_again_is_offered_again(
    visited: Callable[..., list[int]], sundog: Run
) -> None:
    visits = visited([_pause(1)], [_pause(1)], [], ends=(client.LEFT, client.END))
    assert sundog("debug").exit_code == 0
    assert visits == [1, 1]


def test_a_task_that_waits_for_an_editor_is_shown_once(
    visited: Callable[..., list[int]], sundog: Run
) -> None:
    visits = visited([_pause(1, port=5678)], [_pause(1, port=5678)])
    result = sundog("debug")
    assert result.output.count("127.0.0.1:5678") == 1 and visits == []


def test_the_last_task_of_a_program_may_end_the_session(
    visited: Callable[..., list[int]], sundog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits = visited([_pause(1)])
    ending = FakeSession([[_pause(1)], ConnectionError("gone")])
    monkeypatch.setattr(source, "find_source", lambda _address: ending)
    assert sundog("debug").exit_code == 0
    assert visits == [1]


def test_an_empty_list_is_no_failure(visited: Callable[..., list[int]], sundog: Run) -> None:
    visited([], [])
    done = sundog("debug", "--list")
    assert (done.exit_code, done.output) == (0, "No task is paused.\n")
    assert sundog("debug").exit_code == 1
