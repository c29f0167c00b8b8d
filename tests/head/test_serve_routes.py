"""Serve's REST interface: each request is a program of its own."""

from __future__ import annotations

import asyncio

import pytest

from sundog.head import serve_routes
from sundog.observe.sessions import Opened
from tests.head.conftest import Ask


def test_an_ended_session_serves_nothing(ask: Ask) -> None:
    for method in ("GET", "PUT", "DELETE"):
        assert ask("/api/serve/applications/", method).status_code == 400


def test_a_program_that_fails_says_why(ended: Opened) -> None:
    code, answer, text = asyncio.run(serve_routes._operate("details", ended.path, b""))
    assert code == 1 and answer == b"" and "ConnectionError" in text


def test_a_wrong_verb_reaches_nobody(ask: Ask) -> None:
    assert ask("/api/serve/applications/", "POST").status_code == 405


@pytest.fixture
def live(ended: Opened, monkeypatch: pytest.MonkeyPatch) -> Opened:
    monkeypatch.setattr(Opened, "is_live", True)
    return ended


@pytest.mark.parametrize(("code", "status"), [(0, 200), (3, 400), (1, 500)])
def test_the_exit_code_becomes_the_status(
    live: Opened, ask: Ask, monkeypatch: pytest.MonkeyPatch, code: int, status: int
) -> None:
    async def operate(verb: str, session: str, body: bytes) -> tuple[int, bytes, str]:
        return code, b"{}", f"{verb} {body!r}"

    monkeypatch.setattr(serve_routes, "_operate", operate)
    answer = ask("/api/serve/applications/", "PUT", content=b'{"applications": []}')
    assert answer.status_code == status
    assert code == 0 or answer.text == """apply b'{"applications": []}'"""


@pytest.mark.parametrize("body", [b"", b"config", b"[]", b"\xff"])
def test_what_is_no_config_starts_no_program(
    live: Opened, ask: Ask, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setattr(serve_routes, "_operate", None)
    answer = ask("/api/serve/applications/", "PUT", content=body)
    assert answer.status_code == 400 and "JSON object" in answer.text
