"""What a word means to `why`, and the facts that are found for it in an ended session."""

from __future__ import annotations

import json

import pytest

from sundog.observe import segments
from sundog.observe.index import opened
from sundog.observe.sessions import Opened
from sundog.observe.why import TaskFacts, explain
from sundog.observe.why_facts import Gatherer, Unknown
from sundog.ray_engine.desk import Desk
from tests.observe.conftest import WORKER, task_id


def test_words_mean_tasks_processes_and_functions(session: Opened) -> None:
    with opened(session.path) as index:
        gatherer = Gatherer(session, index)
        failed = gatherer.find("f")
        assert isinstance(failed, TaskFacts) and failed.task_id == task_id(3).hex()
        assert "ValueError: no" in " ".join(explain(failed).because)
        left = gatherer.find("g()")
        assert isinstance(left, TaskFacts) and "running when its session ended" in str(
            left.attempts[0].message
        )
        assert gatherer.find(task_id(2).hex()).name == "f"  # type: ignore[union-attr]
        assert explain(gatherer.find(WORKER.hex())).subject.startswith("process")
        for word in ("nothing", "00" * 16, "abcdef01"):
            with pytest.raises(Unknown, match="is called"):
                gatherer.find(word)
        with pytest.raises(Unknown, match="ids begin with"):
            gatherer.find("efefefef")


def test_an_actor_of_a_job_that_runs_on_a_ray_cluster_lives(session: Opened) -> None:
    actor = {"actor_id": task_id(7).hex(), "class_name": "A", "state": "ALIVE", "name": "a", "pid": 7}
    line = json.dumps({"fact": "actor", "s": 1.0, "subject": actor["actor_id"], "row": actor}) + "\n"
    writer = segments.Writer(session.path, b"n" * 16, 1000, 0.0)
    writer.append(segments.FACTS, line.encode(), b"n" * 8)
    writer.close()
    desk = Desk(session.path, {"tasks": list, "status": dict})
    try:
        with opened(session.path) as index:
            assert Gatherer(session, index).actor(task_id(7).hex()).state == "ALIVE"
    finally:
        desk.close()
    with opened(session.path) as index:
        assert Gatherer(session, index).actor(task_id(7).hex()).state == "DEAD"
