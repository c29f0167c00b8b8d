"""Where the state API gets its answers."""

from __future__ import annotations

from typing import Any

import pytest

import sundog
from sundog import engines
from sundog.engines import sessions
from sundog.observe.sessions import NoSuchSession
from sundog.owner import context
from sundog.util.state import source
from sundog.util.state.exception import ServerUnavailable
from sundog.util.state.source import StateSource, find_source


class FakeOpened:
    """A session that was opened: one that has ended has no info."""

    def __init__(self, path: str, *, ended: bool) -> None:
        self.path = path
        self.info = None if ended else object()

    def ask(self, _question: object) -> str:
        return f"the records of {self.path}"


class FakeForeign:
    """An engine on a Ray cluster, with a folder of records here."""

    folder = "/records"

    def __init__(self) -> None:
        self.flushed = 0

    def flush(self) -> None:
        self.flushed += 1


def _opens(monkeypatch: pytest.MonkeyPatch, *, ended: bool) -> None:
    monkeypatch.setattr(source, "open_session", lambda name: FakeOpened(name, ended=ended))


def test_a_process_in_a_session_asks_its_own_node(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sundog, "is_initialized", lambda: True)
        patch.setattr(context, "facts", context.ProcessFacts(session={"path": "/mine"}))
        for address in (None, "auto", "local", "", "/mine"):
            assert find_source(address).path == "/mine" and find_source(address).is_live


def test_an_ended_session_is_read_from_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    _opens(monkeypatch, ended=True)
    found = find_source("/ended")
    question: Any = None
    assert (found.path, found.is_live, found.ask(question)) == ("/ended", False, "the records of /ended")


def test_a_program_on_a_ray_cluster_writes_its_records_out_first(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = FakeForeign()
    with monkeypatch.context() as patch:
        patch.setattr(engines, "foreign", foreign)
        _opens(patch, ended=True)
        assert find_source(None).path == "/records" and foreign.flushed == 1


def test_without_a_session_the_next_step_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_name: str) -> Any:
        raise NoSuchSession("none")

    def refuse(_name: str) -> Any:
        raise ConnectionError("no session is running.")

    monkeypatch.setattr(source, "open_session", nothing)
    monkeypatch.setattr(sessions, "resolve", refuse)
    with pytest.raises(ServerUnavailable, match=r"at /gone: no session is running.*sundog start --head"):
        find_source("/gone")


def test_the_node_of_a_session_is_its_first_row() -> None:
    def ask(_question: Any) -> Any:
        return [{"node_id": "ab"}, {"node_id": "cd"}], []

    assert StateSource(ask, "/here").node_id() == "ab"
