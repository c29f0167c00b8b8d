"""Stories, and where they lead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.dashboard.page.reasons import attempts_html, attempts_of, links_html, pauses_html, story_html
from sundog.observe.why import Story
from sundog.wire.pauses import Pause

if TYPE_CHECKING:
    from sundog.dashboard.page.reasons import AttemptRow

ATTEMPT: AttemptRow = {
    "attempt": 1,
    "state": "FAILED",
    "start_s": 10.0,
    "end_s": 12.0,
    "queued_s": None,
    "duration_s": 2.0,
    "cpu_s": 1.0,
    "peak_bytes": 2048,
    "pid": 7,
    "name": "f",
}


def test_a_story_is_told_step_by_step_and_escaped() -> None:
    text = story_html(Story("task f", "failed", ("<i>x</i>", "second"), ("sundog logs",)))
    assert text.count("because") == 2 and "&lt;i&gt;" in text and "sundog logs" in text
    assert "nobody" in story_html("nobody")


def test_a_task_leads_to_its_logs_timeline_process_and_stack() -> None:
    text = links_html("ab", [ATTEMPT])
    for part in (
        "/logs?id=ab",
        "/timeline?start=9.000000&amp;end=13.000000",
        "/workers?text=7",
        "/stacks?text=7",
    ):
        assert part in text
    assert "FAILED" in attempts_html([ATTEMPT]) and attempts_html([]) == ""


def test_what_is_no_id_has_no_attempts() -> None:
    assert attempts_of("/nowhere", "resize") == attempts_of("/nowhere", "ab") == []


def test_a_task_in_a_debugger_comes_with_the_command_that_attaches() -> None:
    pause = Pause("x", "ab", "f", 0, "a.py", 3, "g", "breakpoint()", 0.0, 7, "w", number=4)
    assert "sundog debug 4" in pauses_html([pause]) and "a.py:3" in pauses_html([pause])
    assert "breakpoint()" in pauses_html([])
