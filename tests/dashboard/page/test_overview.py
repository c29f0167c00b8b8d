"""The first view as HTML: figures in words, and nothing of a user's that a browser would run."""

from __future__ import annotations

from sundog.dashboard.page.overview import cards_html, functions_html, status_text, troubles_html
from sundog.observe.activity import Activity, Function
from sundog.observe.troubles import Trouble

STATUS = {"uptime_s": 65.0, "workers": {"idle": 2}, "pending": [{"waited_s": 2.0, "why": "CPU", "count": 4}]}
MEMORY = {"used_bytes": 1 << 30, "total_bytes": 4 << 30}
STORE = {"used_bytes": 1 << 20, "limit_bytes": 1 << 30, "spilled_bytes": 5 << 20}


def test_figures_of_a_running_session_are_shown() -> None:
    function = Function("f", done=1234, failed=2, running=3, waiting=4, rate=10.0, left_s=0.5)
    activity = Activity(1.0, [function], [], 0.5, 2, MEMORY, STORE, STATUS)
    text = cards_html(activity, True)
    for part in ("1,234", "50% of 2", "1.0 GiB of 4.0 GiB", "1 min 5 s", "wait 2.0 s: CPU"):
        assert part in text
    assert status_text(activity, True) == "live · 3 running · 4 waiting"
    assert status_text(activity, False) == "ended"
    assert "state=failed" in functions_html([function])


def test_without_tasks_the_page_says_what_to_do() -> None:
    assert ".remote()" in functions_html([])
    assert "None" in troubles_html([])


def test_names_are_escaped() -> None:
    evil = "<script>alert(1)</script>'\""
    text = functions_html([Function(evil, failed=1)]) + troubles_html([Trouble(evil, evil)])
    assert "<script" not in text and "'\"" not in text
