"""Pauses and triggers in words."""

from __future__ import annotations

from sundog.wire.pauses import Pause, Trigger


def test_a_trigger_says_all_that_was_asked() -> None:
    assert (
        Trigger(1, "f.py", 3, "x > 1", "ValueError", 2).text()
        == "f.py:3 when x > 1 on ValueError in attempt 2"
    )
    assert Trigger(1, exception="KeyError").text() == "anywhere on KeyError"


def test_a_pause_says_where_it_is() -> None:
    assert Pause("1", "ab", "f", 0, "/f.py", 3, "f", "", 0.0, 7, "cd").place == "/f.py:3"
