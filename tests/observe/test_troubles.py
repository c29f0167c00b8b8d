"""The troubles of a session, in the order of how interesting they are, and the facts behind them."""

from __future__ import annotations

import json
from pathlib import Path

from sundog.observe import troubles
from sundog.observe.index import opened
from sundog.observe.sessions import Opened
from sundog.observe.why import explain
from sundog.observe.why_facts import Gatherer
from sundog.ray_engine.desk import Desk
from tests.observe.conftest import DRIVER, task_id


def test_what_was_running_comes_before_what_failed(session: Opened) -> None:
    with opened(session.path) as index:
        found = troubles.find(Gatherer(session, index))
    assert [each.text for each in found] == ["g() was running when the session ended", "f() failed 1 time"]
    assert [each.id for each in found] == [task_id(9).hex(), task_id(3).hex()]


def test_a_session_without_trouble_says_so(tmp_path: Path) -> None:
    (tmp_path / "rings").mkdir()
    session = Opened("session_1", str(tmp_path))
    with opened(session.path) as index:
        gatherer = Gatherer(session, index)
        assert troubles.find(gatherer) == []
        assert "no trouble found" in troubles.story_of_nothing(gatherer).verdict


def test_a_process_that_died_without_a_task_comes_after_what_failed(session: Opened) -> None:
    with opened(session.path) as index:
        for pid, last in ((7, "ab" * 16), (8, "")):
            row = {
                "row": {"pid": pid, "exit_type": "SYSTEM_ERROR", "worker_type": "WORKER"},
                "last_task": last,
            }
            index.db.execute(
                "INSERT INTO facts VALUES(1.0, 'worker', x'', ?, ?)", (str(pid), json.dumps(row))
            )
        found = [each.text for each in troubles.find(Gatherer(session, index))]
    assert found[1:] == [
        "the process with pid 7 died under its task",
        "f() failed 1 time",
        "the process with pid 8 died",
    ]


def test_a_task_that_runs_on_a_ray_cluster_neither_waits_nor_was_left_running(session: Opened) -> None:
    told = {"owner": DRIVER.hex(), "attempt": 0, "kind": "task", "actor": "", "resources": {}, "pg": ""}
    told |= {"submit_s": 20.0, "state": "PENDING_NODE_ASSIGNMENT", "missing": []}
    tasks = [
        {**told, "task": task_id(number).hex(), "name": name, "function": name}
        for number, name in ((9, "g"), (10, "waits"))
    ]
    desk = Desk(session.path, {"tasks": lambda: tasks, "status": dict})
    try:
        with opened(session.path) as index:
            gatherer = Gatherer(session, index)
            found = [each.text for each in troubles.find(gatherer)]
            assert [text for text in found if text.startswith("waits() has waited")]
            assert not [text for text in found if text.startswith("g() ")]
            assert explain(gatherer.find("g")).verdict.startswith("has run for")
    finally:
        desk.close()
