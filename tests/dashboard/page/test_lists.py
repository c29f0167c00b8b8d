"""Rows of lists: processes with what they do now, and events in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.dashboard.facts import Fact
from sundog.dashboard.page.lists import _cause, event_row, short_line, worker_rows
from sundog.observe.activity import Activity, WorkerActivity
from sundog.wire.looks import RunningCall, Who

if TYPE_CHECKING:
    from sundog.dashboard.facts import FactData


def test_a_worker_shows_what_it_runs_and_its_memory(tmp_path: object) -> None:
    who = Who(12, "ab", "worker", "leased", "01", 0.0)
    seen = WorkerActivity(who, (RunningCall("t1", "f", 5.0),), core_share=0.5, rss_bytes=100, own_bytes=60)
    listed = [
        {
            "worker_id": "cd",
            "is_alive": False,
            "worker_type": "WORKER",
            "pid": 13,
            "exit_detail": "it crashed",
        },
        {"worker_id": "ab", "is_alive": True, "worker_type": "WORKER", "pid": 12, "state": "leased"},
    ]
    living, dead = worker_rows(listed, Activity(7.0, [], [seen]), str(tmp_path))
    assert (living["runs"], living["task"], living["for"], living["shared"]) == ("f", "t1", 2.0, 40)
    assert (dead["state"], dead["told"], dead["cpu"]) == ("DEAD", "it crashed", None)


def test_the_line_that_a_worker_runs_is_shown_without_its_folder() -> None:
    assert short_line("/a/b c/train.py:12 resize") == "train.py:12 resize"
    assert short_line("") == "" and short_line("<string>:3 f") == "<string>:3 f"


def test_events_are_told_in_words() -> None:
    death: FactData = {
        "row": {"worker_type": "WORKER", "pid": 7, "exit_detail": "killed"},
        "last_line": "a.py:3",
    }
    assert event_row(0, Fact(1.0, "worker", "ab", death))["text"] == "pid 7: killed · last seen at a.py:3"
    spill = event_row(1, Fact(1.0, "spill", "file", {"count": 2, "bytes": 2048, "seconds": 0.5}))
    assert (spill["kind"], spill["text"], spill["subject"]) == ("spilled", "2 objects, 2.0 KiB in 500 ms", "")
    actor: FactData = {
        "row": {"state": "DEAD", "class_name": "A", "death_cause": {"x": {"error_message": "gone\nmore"}}}
    }
    assert event_row(2, Fact(1.0, "actor", "cd", actor))["text"] == "A: gone"
    assert (
        event_row(3, Fact(1.0, "job", "01", {"row": {"status": "RUNNING", "entrypoint": "x.py"}}))["kind"]
        == "job running"
    )
    assert (
        event_row(4, Fact(1.0, "node", "n", {"row": {"state": "ALIVE", "resources_total": {"CPU": 2.0}}}))[
            "text"
        ]
        == "CPU 2"
    )


def test_no_cause_is_no_text() -> None:
    assert _cause(None) == _cause({}) == ""
