"""`sundog profile attach`: which process is meant, and Ctrl-C."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sundog.cli import exits, profile
from sundog.util import state
from tests.cli.fakes import FakeSession


@dataclass
class _ActorRow:
    """A row of the state API, as far as the command reads it."""

    actor_id: str
    name: str
    class_name: str
    pid: int


@dataclass
class _TaskRow:
    task_id: str
    name: str
    worker_pid: int
    state: str


class _Profile:
    """A profile that runs."""

    def end(self) -> str:
        return "measured"


ACTOR = _ActorRow("ac01", "", "Model", 12)
TASKS = [_TaskRow("aa01", "resize", 11, "FINISHED"), _TaskRow("aa02", "resize", 13, "RUNNING")]


@pytest.mark.parametrize(
    ("target", "pid"), [("14", 14), ("ac01", 12), ("Model", 12), ("aa02", 13), ("resize", 13)]
)
def test_a_process_is_meant_by_its_pid_its_actor_or_what_runs_there(
    monkeypatch: pytest.MonkeyPatch, target: str, pid: int
) -> None:
    monkeypatch.setattr(state, "list_actors", lambda *_, **__: [ACTOR])
    monkeypatch.setattr(state, "list_tasks", lambda *_, **__: TASKS)
    assert profile._pid_of(FakeSession(path="/x"), target)[0] == pid  # type: ignore[arg-type]


def test_what_runs_nowhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "list_actors", lambda *_, **__: [])
    monkeypatch.setattr(state, "list_tasks", lambda *_, **__: TASKS[:1])
    with pytest.raises(exits.CommandError, match="resize is neither a pid, nor the id, name or class"):
        profile._pid_of(FakeSession(path="/x"), "resize")  # type: ignore[arg-type]


def test_only_tasks_that_run_are_asked_for_as_a_session_may_have_had_very_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []

    def list_tasks(*_: object, filters: object = (), **__: object) -> list[object]:
        asked.append(filters)
        return list(TASKS)

    monkeypatch.setattr(state, "list_actors", lambda *_, **__: [])
    monkeypatch.setattr(state, "list_tasks", list_tasks)
    profile._pid_of(FakeSession(path="/x"), "resize")  # type: ignore[arg-type]
    assert asked == [[("state", "=", "RUNNING")]]


def test_a_profile_that_is_interrupted_shows_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended: list[object] = []

    def interrupted(_seconds: float, _what: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(profile, "_wait", interrupted)
    monkeypatch.setattr(profile, "show_profile", ended.append)
    profile._measure(_Profile(), 5.0, "cpu profile of pid 1")  # type: ignore[arg-type]
    assert ended == ["measured"]
    assert "Ended early" in capsys.readouterr().out
