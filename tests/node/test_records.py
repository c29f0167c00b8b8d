"""Rings copied into segments: each event once, holes waited for, the dead emptied, learnt admission told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sundog import events
from sundog.config import Config
from sundog.node.records import Records
from sundog.observe.index import opened

WORKER, DRIVER = b"\xcd" * 8, b"\xef" * 8
TASK_ID = bytes(range(16))


class FakeNode:
    """What `Records` sees of a node."""

    def __init__(self, folder: Path, most: int = 16_000_000) -> None:
        (folder / "rings").mkdir()
        self.session = {"path": str(folder)}
        self.node_id = b"n" * 16
        self.config = Config(record_enabled=True, record_events_max=most, record_age_s=0.0)
        self.processes: dict[bytes, None] = {WORKER: None, DRIVER: None}
        self.logged: list[str] = []
        self.log = self.logged.append


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


@pytest.fixture
def records(node: FakeNode) -> Any:
    fake: Any = node
    made = Records(fake)
    yield made
    made.close()


def make(node: FakeNode, process: bytes = WORKER, role: str = "worker") -> events.Ring:
    return events.Ring(f"{node.session['path']}/rings/{process.hex()}.ring", 64, role)


def task(ring: events.Ring, name: str = "f", flags: int = 0, peak: float = 1e6, count: int = 1) -> None:
    for _ in range(count):
        ring.write(events.TASK, TASK_ID, ring.name(name), 0.0, 1.0, 2.0, flags, 0, 0.5, peak)


def rows(node: FakeNode) -> tuple[int, int]:
    """How many tasks are known, and how many events are missed."""
    with opened(node.session["path"]) as index:
        return index.one("SELECT count(*) FROM tasks"), index.missed()


def test_history_is_longer_than_the_ring(node: FakeNode, records: Records) -> None:
    ring = make(node)
    for _ in range(10):
        task(ring, count=50)
        records.drain()
    ring.close()
    assert rows(node) == (500, 0)


def test_what_was_overwritten_before_it_was_copied_is_counted(node: FakeNode, records: Records) -> None:
    ring = make(node)
    task(ring, count=200)
    records.drain()
    task(ring, count=10)
    records.drain()
    ring.close()
    assert rows(node) == (74, 136)


def test_an_event_in_the_making_is_waited_for_once(node: FakeNode, records: Records) -> None:
    ring = make(node)
    task(ring, count=3)
    at = events.HEADER_BYTES + 2 * events.EVENT_BYTES - 8
    with open(ring.path, "r+b", buffering=0) as file:
        file.seek(at)
        file.write(bytes(8))
        records.drain()
        file.seek(at)
        file.write((2).to_bytes(8, "little"))
        records.drain()
        assert rows(node) == (3, 0)
        task(ring, count=2)
        file.seek(at + 2 * events.EVENT_BYTES)
        file.write(bytes(8))
        for _ in range(3):
            records.drain()
    os.unlink(ring.path)
    ring.close()
    assert rows(node) == (4, 1)


def test_a_dead_process_leaves_its_events_its_names_and_what_it_was_doing(
    node: FakeNode, records: Records
) -> None:
    ring = make(node)
    ring.note("error", task=TASK_ID.hex(), attempt=0, type="T", message="m")
    task(ring, "last", events.FAILED)
    ring.started(b"t" * 16, 5.0, ring.name("running"))
    ring.sample(b"t" * 16, 5.5, 4096, "a.py:3 f")
    ring.close()
    del node.processes[WORKER]
    records.process_died(WORKER)
    assert records.reads(WORKER)
    records.drain()
    assert not records.reads(WORKER)
    for end in ("", ".names"):
        os.unlink(ring.path + end)
    with opened(node.session["path"]) as index:
        assert index.rows("SELECT name, state FROM tasks") == [("last", "FAILED")]
        assert index.rows("SELECT type, message FROM failed") == [("T", "m")]
        [row] = index.rows(
            "SELECT p.begun, p.begun_s, p.line, n.text FROM processes p JOIN names n ON n.id = begun_name"
        )
        assert row == (b"t" * 16, 5.0, "a.py:3 f", "running")


def test_observers_hear_of_measured_tasks_and_of_the_lost_that_were_seen(
    node: FakeNode, records: Records
) -> None:
    seen: list[tuple[str, int]] = []
    records.observers.append(lambda name, peak: seen.append((name, peak)))
    worker, driver = make(node), make(node, DRIVER, "driver")
    task(worker, "short")
    task(worker, "long", flags=events.MEASURED, peak=5e6)
    for peak in (0.0, 2.0**30):
        driver.write(
            events.LOST, TASK_ID, driver.name("f", WORKER.hex()), 0.0, 1.0, 2.0, events.FAILED, 0, 0.0, peak
        )
    records.drain()
    assert seen == [("long", 5_000_000), ("f", 2**30)]
    worker.become_actor(TASK_ID)
    task(worker, "long", flags=events.MEASURED)
    records.drain()
    assert len(seen) == 2
    worker.close()
    driver.close()


def test_facts_of_the_node_are_there_at_once(node: FakeNode, records: Records) -> None:
    records.fact("machine", cpu=0.5, memory_used=10)
    records.fact("kill", subject="cd", why="memory")
    records.write_early()
    with opened(node.session["path"]) as index:
        assert index.rows("SELECT cpu, memory_used FROM machines") == [(0.5, 10)]
        assert index.rows("SELECT kind, subject FROM events") == [("kill", "cd")]


def test_a_full_disk_costs_events_and_nothing_else(
    node: FakeNode, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = make(node)
    task(ring, count=10)
    real = os.pwrite
    monkeypatch.setattr("os.pwrite", lambda fd, data, at: real(fd, data[: len(data) // 2], at))
    records.drain()
    records.fact("kill", subject="cd")
    task(ring, count=100)
    records.drain()
    assert len(node.logged) == 1
    monkeypatch.undo()
    records.drain()
    ring.close()
    assert rows(node) == (64, 46)


def test_a_ring_in_which_nothing_is_new_is_not_mapped(
    node: FakeNode, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    read_slots = events.read_slots

    def reading(path: str, after: int, most: int) -> events.Slots | None:
        read.append(path)
        return read_slots(path, after, most)

    monkeypatch.setattr(events, "read_slots", reading)
    ring, quiet = make(node), make(node, DRIVER, "driver")
    task(ring, count=3)
    records.drain()
    assert set(read) == {ring.path}
    read.clear()
    records.drain()
    assert read == []
    task(ring)
    records.drain()
    assert set(read) == {ring.path}
    assert rows(node) == (4, 0)
    ring.close()
    quiet.close()
