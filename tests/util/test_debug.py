"""`log_once`: once per process and key, until it is reset or a minute is over."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from sundog.util import debug


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(debug, "_once", debug._Once())
    yield


def test_each_key_speaks_once() -> None:
    assert [debug.log_once("a"), debug.log_once("b"), debug.log_once("a")] == [True, True, False]


def test_a_reset_lets_one_key_or_all_speak_again() -> None:
    debug.log_once("a")
    debug.log_once("b")
    debug.reset_log_once("a")
    assert [debug.log_once("a"), debug.log_once("b")] == [True, False]
    debug.reset_log_once()
    assert debug.log_once("b")


def test_disabled_means_never() -> None:
    debug.disable_log_once_globally()
    assert not debug.log_once("a")


def test_in_periodic_mode_a_key_speaks_again_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    debug.enable_periodic_logging()
    assert debug.log_once("a") and not debug.log_once("a")
    now[0] += debug.PERIOD_S + 1
    assert not debug.log_once("a"), "this call only forgets"
    assert debug.log_once("a")
