"""`sundog health-check`: an exit code, and nothing printed when all is well."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import Result

from sundog.cli import exits
from tests.cli.conftest import FakeInfo, FakeSessions

Sundog = Callable[..., Result]


@pytest.fixture
def resolved(sessions: FakeSessions, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that are asked for; there is a session at each but "nowhere"."""
    from sundog.engines import sessions as module

    asked: list[str] = []

    def resolve(address: str) -> FakeInfo:
        asked.append(address)
        if address == "nowhere":
            raise ConnectionError
        return FakeInfo()

    monkeypatch.setattr(module, "resolve", resolve)
    return asked


def test_a_session_that_answers_is_healthy(sundog: Sundog, resolved: list[str]) -> None:
    for words in ((), ("--address", "here", "--skip-version-check"), ("--session", "s1")):
        done = sundog("health-check", *words)
        assert (done.exit_code, done.output) == (exits.OK, "")
    assert resolved == ["auto", "here", "s1"]


def test_no_session_and_one_that_does_not_answer_are_told_apart(
    sundog: Sundog, resolved: list[str], sessions: FakeSessions
) -> None:
    assert sundog("health-check", "--address", "nowhere").exit_code == exits.NO_SESSION
    sessions.failure = TimeoutError("it does not answer")
    assert sundog("health-check").exit_code == exits.NO_ANSWER
