"""Questions to an ended session: rows that its node recorded, and what is said of who lived at its end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sundog import event_facts, events
from sundog.observe import segments
from sundog.ray_engine.desk import Desk
from sundog.util import state
from sundog.util.state import questions
from sundog.util.state.source import StateSource


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    writer = segments.Writer(str(tmp_path), b"n" * 16, 1000, 0.0)
    facts = [
        ("actor", "a1", {"actor_id": "a1", "class_name": "A", "state": "PENDING_CREATION", "job_id": "01"}),
        ("actor", "a1", {"actor_id": "a1", "class_name": "A", "state": "ALIVE", "job_id": "01"}),
        ("actor", "a2", {"actor_id": "a2", "class_name": "A", "state": "DEAD", "job_id": "01"}),
        ("job", "01", {"job_id": "01", "status": "RUNNING", "type": "DRIVER"}),
        (
            "worker",
            "ab" * 8,
            {"worker_id": "ab" * 8, "is_alive": False, "exit_type": "SYSTEM_ERROR", "pid": 7},
        ),
    ]
    for kind, subject, row in facts:
        line = json.dumps({"fact": kind, "s": 1.0, "subject": subject, "row": row}) + "\n"
        writer.append(segments.FACTS, line.encode(), b"n" * 8)
    writer.close()
    (tmp_path / "rings").mkdir()
    ring = events.Ring(str(tmp_path / "rings" / f"{'cd' * 8}.ring"), 64, "driver", b"\1\0\0\0")
    ring.write(events.PUT, b"o" * 16, ring.name("a.py:1 in f"), 1.0, 1.0, 2.0, 0, 0, 0.0, 8192.0)
    ring.close()

    def ask(_request: object) -> Any:
        return None

    source = StateSource(ask, str(tmp_path), is_live=False)
    for module in ("questions", "api"):
        monkeypatch.setattr(f"sundog.util.state.{module}.find_source", lambda address: source)
    return tmp_path


def test_nobody_lives_in_an_ended_session(ended: Path) -> None:
    assert {row.actor_id: row.state for row in state.list_actors()} == {"a1": "DEAD", "a2": "DEAD"}
    [job] = state.list_jobs()
    assert (job.status, job.job_id) == ("FAILED", "01")
    workers = {row.worker_id: row.exit_type for row in state.list_workers()}
    assert workers == {"ab" * 8: "SYSTEM_ERROR", "cd" * 8: "SYSTEM_ERROR"}


def test_objects_that_were_put_are_told(ended: Path) -> None:
    [row] = state.list_objects()
    assert (row.object_size, row.call_site, row.reference_type) == (8192, "a.py:1 in f", "FREED")


def test_what_was_not_recorded_is_empty(ended: Path) -> None:
    assert state.list_runtime_envs() == [] and state.list_tasks() == []
    assert questions.count_tasks(None, True) == []
    assert state.summarize_actors()["cluster"]["total_actors"] == 2


def test_results_in_shared_memory_are_told_and_a_session_in_order_ended_its_workers(ended: Path) -> None:
    ring = events.Ring(str(ended / "rings" / f"{'ef' * 8}.ring"), 64, "worker", b"\1\0\0\0")
    event_facts.made(ring, events.RESULT, b"t" * 16, 1, ("aa-bb-3", 1, [(0, 5000)]), 1.0, 2.0)
    ring.close()
    assert {row.object_size for row in state.list_objects()} == {8192, 5000}
    writer = segments.Writer(str(ended), b"n" * 16, 1000, 0.0)
    writer._number = 1
    row = {"job_id": "01", "status": "SUCCEEDED", "type": "DRIVER"}
    line = json.dumps({"fact": "job", "s": 2.0, "subject": "01", "row": row}) + "\n"
    writer.append(segments.FACTS, line.encode(), b"n" * 8)
    writer.close()
    workers = {row.worker_id: row.exit_type for row in state.list_workers()}
    assert (workers["ab" * 8], workers["ef" * 8]) == ("SYSTEM_ERROR", "INTENDED_SYSTEM_EXIT")


def test_of_a_job_that_runs_on_a_ray_cluster_its_driver_tells_what_has_not_ended(ended: Path) -> None:
    ring = events.Ring(str(ended / "rings" / f"{'ef' * 8}.ring"), 64, "worker", b"\1\0\0\0")
    runs, waits = b"driver-1" + b"runs----", b"driver-1" + b"waits---"
    ring.started(runs, 3.0, ring.name("slow"))
    ring.close()
    told = {"owner": b"driver-1".hex(), "attempt": 0, "kind": "task", "actor": "", "resources": {}, "pg": ""}
    told |= {"submit_s": 2.0, "state": "PENDING_NODE_ASSIGNMENT", "missing": []}
    unfinished = [
        {**told, "task": task.hex(), "name": name, "function": name}
        for task, name in ((runs, "slow"), (waits, "never"))
    ]
    looks: list[str] = []
    desk = Desk(str(ended), {"tasks": lambda: unfinished, "look": lambda: looks.append("look")})
    try:
        states = {row.name: row.state for row in state.list_tasks()}
        assert states == {"slow": "RUNNING", "never": "PENDING_NODE_ASSIGNMENT"}
        workers = {row.worker_id: row.is_alive for row in state.list_workers()}
        assert workers == {"ab" * 8: False, "cd" * 8: True, "ef" * 8: True}
        assert {row.actor_id: row.state for row in state.list_actors()} == {"a1": "ALIVE", "a2": "DEAD"}
        assert looks == ["look", "look"]
    finally:
        desk.close()
    assert {row.name: row.state for row in state.list_tasks()} == {"slow": "FAILED"}
