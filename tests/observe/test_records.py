"""Rows made from rings: whose they are, also when their process wrote nothing but its own death."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog import events
from sundog.observe.records import read_session

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
    worker.started(TASK_ID, 5.0, 0)
    name = driver.name("f", WORKER.hex())
    driver.write(events.LOST, TASK_ID, name, 1.0, 5.0, 6.0, events.FAILED, 0, 0.0, 100.0)
    [row] = read_session(str(rings.parent)).tasks
    assert (row.worker_id, row.name, row.status, row.lost) == (WORKER, "f", "FAILED", True)
    assert row.pid > 0
    worker.close()
    driver.close()


def test_what_a_process_is_stands_in_its_header_and_notes(rings: Path) -> None:
    ring = events.Ring(str(rings / f"{WORKER.hex()}.ring"), 64, "worker", b"\x01\0\0\0")
    ring.become_actor(b"a" * 16)
    ring.note("actor", actor=(b"a" * 16).hex(), repr="me", name="n", concurrent=True)
    ring.note("error", task=TASK_ID.hex(), attempt=1, type="T", message="m")
    ring.note("failed", task=TASK_ID.hex(), attempt=0)
    rows = read_session(str(rings.parent))
    process = rows.processes[WORKER]
    assert (process.job_id, process.actor_id, process.role) == (b"\x01\0\0\0", b"a" * 16, "worker")
    assert (process.repr_name, process.actor_name, process.concurrent) == ("me", "n", True)
    assert rows.errors[0]["message"] == "m" and rows.failures[0]["attempt"] == 0
    ring.close()


def test_a_task_belongs_to_the_lease_before_it(rings: Path) -> None:
    ring = make(rings, WORKER, "worker")
    for number, lease in enumerate(('{"resources": {"CPU": 1}}', '{"resources": {"CPU": 2}}')):
        ring.write(events.LEASE, b"", ring.name(lease, "lease"), 1.0, 1.0, 1.0)
        ring.write(events.TASK, TASK_ID, ring.name("f"), 1.0, 2.0 + number, 3.0 + number)
    rows = read_session(str(rings.parent))
    assert [row.lease for row in rows.tasks] == ['{"resources": {"CPU": 1}}', '{"resources": {"CPU": 2}}']
    assert not rows.spans
    ring.close()


def test_a_lease_whose_record_is_overwritten_is_known_if_there_was_only_that_kind(rings: Path) -> None:
    ring = make(rings, WORKER, "worker")
    ring.write(events.LEASE, b"", ring.name("{}", "lease"), 1.0, 1.0, 1.0)
    for _ in range(100):
        ring.write(events.TASK, TASK_ID, ring.name("f"), 1.0, 2.0, 3.0)
    assert {row.lease for row in read_session(str(rings.parent)).tasks} == {"{}"}
    ring.close()


def test_samples_and_sizes_of_puts_are_kept(rings: Path) -> None:
    ring = make(rings, WORKER, "worker")
    ring.write(events.SAMPLE, TASK_ID, ring.name("a.py:3 f"), 1.0, 1.0, 1.0, 0, 0, 0.25, 4096.0)
    ring.write(events.PUT, TASK_ID, ring.name("put"), 1.0, 1.0, 2.0, 0, 0, 0.0, 8192.0)
    rows = read_session(str(rings.parent))
    assert [(row.line, row.own_bytes, row.worker_id) for row in rows.samples] == [("a.py:3 f", 4096, WORKER)]
    assert [(span.kind, span.size_bytes) for span in rows.spans] == [("put", 8192)]
    ring.close()
