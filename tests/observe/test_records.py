"""Rows made from rings: whose they are, also when their process wrote nothing but its own death."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog import events
from sundog.observe.records import finished_tasks, read_session

WORKER, DRIVER = b"\xcd" * 8, b"\xef" * 8
TASK_ID = DRIVER + bytes(8)


@pytest.fixture
def rings(tmp_path: Path) -> Path:
    folder = tmp_path / "rings"
    folder.mkdir()
    return folder


def make(rings: Path, process: bytes, role: str) -> events.Ring:
    return events.Ring(str(rings / f"{process.hex()}.ring"), 64, role)


def test_a_process_that_died_in_its_first_task_is_named(rings: Path) -> None:
    worker, driver = make(rings, WORKER, "worker"), make(rings, DRIVER, "driver")
    worker.started(TASK_ID, 5.0)
    name = driver.name("f", WORKER.hex())
    driver.write(events.LOST, TASK_ID, name, 1.0, 5.0, 6.0, events.FAILED, 0, 0.0, 100.0)
    [row] = read_session(str(rings.parent)).tasks
    assert (row.worker_id, row.name, row.status, row.lost) == (WORKER, "f", "FAILED", True)
    assert row.pid > 0
    worker.close()
    driver.close()


def test_a_task_that_runs_gets_its_worker_and_an_earlier_attempt_its_row(rings: Path) -> None:
    worker = make(rings, WORKER, "worker")
    worker.write(events.TASK, TASK_ID, worker.name("f"), 1.0, 2.0, 3.0, events.FAILED, 0, 0.5, 100.0)
    worker.started(TASK_ID, 5.0)
    unfinished = [{"task_id": TASK_ID.hex(), "attempt_number": 1, "state": "SUBMITTED_TO_WORKER"}]
    [ended] = finished_tasks(str(rings.parent), "node", unfinished)
    assert (ended["attempt_number"], ended["state"], ended["cpu_s"]) == (0, "FAILED", 0.5)
    [running] = unfinished
    assert (running["state"], running["worker_id"]) == ("RUNNING", WORKER.hex())
    worker.close()


def test_a_call_is_the_actors_that_was_made_there(rings: Path) -> None:
    worker = make(rings, WORKER, "worker")
    worker.write(events.CREATE, b"a" * 16, worker.name("A.__init__"), 1.0, 1.0, 2.0)
    worker.write(events.CALL, TASK_ID, worker.name("A.m"), 1.0, 3.0, 4.0)
    created, called = finished_tasks(str(rings.parent), "node", [])
    assert created["actor_id"] == called["actor_id"] == (b"a" * 16).hex()
    assert (created["type"], called["type"]) == ("ACTOR_CREATION_TASK", "ACTOR_TASK")
    worker.close()


def test_samples_and_sizes_of_puts_are_kept(rings: Path) -> None:
    ring = make(rings, WORKER, "worker")
    ring.write(events.SAMPLE, TASK_ID, ring.name("a.py:3 f"), 1.0, 1.0, 1.0, 0, 0, 0.25, 4096.0)
    ring.write(events.PUT, TASK_ID, ring.name("put"), 1.0, 1.0, 2.0, 0, 0, 0.0, 8192.0)
    rows = read_session(str(rings.parent))
    assert [(row.line, row.own_bytes, row.worker_id) for row in rows.samples] == [("a.py:3 f", 4096, WORKER)]
    assert [(span.kind, span.size_bytes) for span in rows.spans] == [("put", 8192)]
    ring.close()
