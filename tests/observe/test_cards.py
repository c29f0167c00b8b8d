"""The card of a session in a notebook."""

from __future__ import annotations

import threading
from typing import Any, cast

from sundog.observe import cards
from sundog.observe.activity import Activity, Function, Watcher
from sundog.observe.cards import LiveCard

STATUS = {"pending": [{"waited_s": 2.0, "why": "<CPU>"}]}
MEMORY = {"used_bytes": 1 << 30, "total_bytes": 4 << 30}
STORE = {"used_bytes": 1 << 20, "limit_bytes": 1 << 30, "spilled_bytes": 5 << 20}


def look(running: int) -> Activity:
    function = Function("<f>", done=6, failed=1, running=running, waiting=2)
    return Activity(1.0, [function], [], 0.5, 2, MEMORY, STORE, STATUS)


def test_a_card_tells_what_a_session_does_now() -> None:
    text = cards.card({"Session": "s"}, look(3))
    for part in (
        "3 running, 2 waiting, 6 finished, 1 failed",
        "50% of 2 cores",
        "5.0 MiB spilled",
        "7 of 12",
    ):
        assert part in text
    assert "&lt;f&gt;" in text and "&lt;CPU&gt;" in text and "<f>" not in text
    assert "Tasks" not in cards.card({"Session": "s"}, None)


class Looks:
    """A session that is looked at some times, and then ends."""

    def __init__(self, looks: list[Activity]) -> None:
        self.looks = looks

    def look(self) -> Activity:
        return self.looks.pop(0)


def test_a_live_card_is_drawn_until_its_session_ends(monkeypatch: Any) -> None:
    monkeypatch.setattr(cards, "EVERY_S", 0.001)
    shown: list[str] = []
    ended = threading.Event()

    def display(text: str) -> Any:
        shown.append(text)
        return shown.append

    def draw(activity: Activity | None) -> str:
        if activity is None:
            ended.set()
            return "ended"
        return f"{activity.functions[0].running} running"

    live = LiveCard(cast("Watcher", Looks([look(1), look(2), look(2), look(3)])), draw, lambda: True, display)
    assert ended.wait(60)
    live.stop()
    assert shown == ["1 running", "2 running", "3 running", "ended"]


def test_outside_of_a_notebook_nothing_is_displayed() -> None:
    assert not cards.in_notebook()
