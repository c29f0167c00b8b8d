"""Home: pushes of processes become an ordinary session folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sundog import events
from sundog.config import Config
from sundog.observe.index import opened
from sundog.observe.records import read_session
from sundog.ray_engine import pushes
from sundog.ray_engine.home import ClusterChronicle, node_row, unfinished_row
from sundog.ray_engine.matches import Submission
from sundog.ray_engine.process import ClusterProcess
from sundog.ray_engine.pushes import Clock, Push, read_push
from sundog.ray_engine.told import Told
from tests.ray_engine.fakes import FakeIdentity, FakeRef

HERE, THERE = "aa" * 28, "bb" * 28
TASK = bytes.fromhex("0102030405060708" + "ff" * 12 + "01000000")


class Recorded:
    """A process with a ring, and how far it was pushed."""

    def __init__(self, folder: Path, process_id: bytes, node: str, role: str) -> None:
        made = ClusterProcess.__new__(ClusterProcess)
        made.identity = FakeIdentity(process_id, node=node, session_dir=str(folder), role=role, pid=7)
        made.config, made.pusher, made._places = Config(), None, {}
        os.makedirs(f"{folder}/sundog-{os.geteuid()}/01000000/{node}", exist_ok=True)
        with open(f"{folder}/sundog-{os.geteuid()}/01000000/{node}/{pushes.HERE}", "w"):
            pass
        made.record()
        self.process, self.at = made, (0, 0)

    def push(self) -> Push:
        assert self.process.ring is not None
        found = read_push(self.process.ring.path, *self.at)
        assert found is not None
        self.at = (found.first - 1 + len(found.data) // events.EVENT_BYTES, self.at[1] + len(found.names))
        return found

    def submit(self, submit_s: float) -> None:
        self.process.submitted(FakeRef(TASK), "square", submit_s)

    def run(self, start_s: float, end_s: float, error: bool = False) -> None:
        ring = self.process.ring
        assert ring is not None
        task = bytes(8) + TASK[:8]
        flags = events.FAILED if error else 0
        ring.started(task, start_s, ring.name("square"))
        ring.write(events.TASK, task, ring.name("square"), 0.0, start_s, end_s, flags, 0, 0.5, 1000.0)
        if error:
            ring.note(
                "error", task=task.hex(), attempt=0, type="TASK_EXECUTION_EXCEPTION", message="ValueError: x"
            )


@dataclass
class RecordedJob:
    """A driver here and a worker there, and their records at Home."""

    chronicle: ClusterChronicle
    driver: Recorded
    worker: Recorded
    path: str


@pytest.fixture
def job(tmp_path: Path) -> Iterator[RecordedJob]:
    session = tmp_path / "session_x"
    (session / "rings").mkdir(parents=True)
    chronicle = ClusterChronicle(str(session), HERE, Config())
    driver = Recorded(tmp_path, b"driver-1", HERE, "driver")
    worker = Recorded(tmp_path, b"worker-1", THERE, "worker")
    yield RecordedJob(chronicle, driver, worker, str(session))
    chronicle.finish()
    driver.process.close()
    worker.process.close()


def test_a_task_is_one_row_with_its_owner_its_node_and_its_place(job: RecordedJob) -> None:
    job.driver.submit(10.0)
    job.worker.run(11.0, 12.0)
    job.chronicle.take(job.worker.push())
    job.chronicle.take(job.driver.push())
    (row,) = read_session(job.path).tasks
    assert (row.task_id, row.owner_id) == (b"driver-1" + TASK[:8], b"driver-1")
    assert (row.submit_s, row.start_s, row.end_s, row.cpu_s) == (10.0, 11.0, 12.0, 0.5)
    assert (row.name, row.worker_id, row.node_id.hex(), row.ok) == ("square", b"worker-1", THERE, True)


def test_a_clock_that_is_100_s_ahead_is_corrected(job: RecordedJob) -> None:
    job.driver.submit(10.0)
    job.worker.run(111.0, 112.0)
    job.chronicle.clock(THERE, Clock(0.5, 99.0))
    job.chronicle.clock(THERE, Clock(0.01, 100.0))  # the shorter way tells more
    job.chronicle.take(job.driver.push())
    job.chronicle.take(job.worker.push())
    (row,) = read_session(job.path).tasks
    assert (row.start_s, row.end_s) == (11.0, 12.0)


def test_what_comes_twice_by_push_and_sweep_is_one_row(job: RecordedJob) -> None:
    job.driver.submit(10.0)
    job.worker.run(11.0, 12.0)
    job.chronicle.take(job.driver.push())
    again = job.worker.push()
    job.chronicle.take(again)
    job.chronicle.take(again)
    assert len(read_session(job.path).tasks) == 1


def test_what_an_idle_process_told_is_not_written_again(job: RecordedJob) -> None:
    job.worker.run(11.0, 12.0)
    job.chronicle.take(job.worker.push())
    ring = Path(job.path) / "rings" / f"{b'worker-1'.hex()}.ring"
    first = ring.stat().st_ino
    job.chronicle.take(job.worker.push())
    assert ring.stat().st_ino == first
    job.worker.run(13.0, 14.0)
    job.chronicle.take(job.worker.push())
    assert events.started_last_at(str(ring)) == 13.0


def test_an_error_has_its_text_although_the_owner_is_known_later(job: RecordedJob) -> None:
    job.worker.run(11.0, 12.0, error=True)
    job.chronicle.take(job.worker.push())
    job.driver.submit(10.0)
    job.chronicle.take(job.driver.push())
    job.chronicle.finish()
    found = read_session(job.path)
    assert [row.ok for row in found.tasks] == [False]
    assert [each["message"] for each in found.errors] == ["ValueError: x"]


def test_a_run_that_was_lost_with_its_node_is_told_by_ray_counted_and_marked(job: RecordedJob) -> None:
    job.driver.submit(10.0)
    job.chronicle.take(job.driver.push())
    facts = {"process": b"worker-9".hex(), "node": THERE, "job": "01000000", "pid": 9, "role": "worker"}
    lost = Told(TASK[:8], 0, events.TASK, "square", 11.0, 12.0, "NODE_DIED", "its node died", False, facts)
    done = lost._replace(attempt=1, error="", message="", start_s=13.0, end_s=14.0)
    assert job.chronicle.close_with([lost, done]) == 2
    assert job.chronicle.close_with([lost, done]) == 0
    job.chronicle.finish()
    first, second = read_session(job.path).tasks
    assert (first.ok, first.attempt, first.node_id.hex()) == (False, 0, THERE)
    assert (second.ok, second.start_s) == (True, 13.0)
    with opened(job.path) as index:
        assert index.missed() == 2
        assert index.rows("SELECT flags & ? FROM attempts", events.TOLD) == [(64,), (64,)]


def test_a_task_that_runs_is_seen_in_the_ring_with_its_owner(job: RecordedJob) -> None:
    job.driver.submit(10.0)
    job.chronicle.take(job.driver.push())
    ring = job.worker.process.ring
    assert ring is not None
    ring.started(bytes(8) + TASK[:8], 111.0, ring.name("square"))
    job.chronicle.clock(THERE, Clock(0.01, 100.0))
    job.chronicle.take(job.worker.push())
    begun = read_session(job.path).begun
    assert begun == {b"driver-1" + TASK[:8]: (b"worker-1", os.getpid(), 11.0)}


def test_a_node_that_the_autoscaler_ended_is_told_apart_from_one_that_was_lost() -> None:
    told: dict[str, Any] = {"NodeID": THERE, "Alive": False, "DeathReason": 4, "DeathReasonMessage": "drain"}
    idle = node_row(told)
    assert idle["is_ended"] and idle["state_message"] == "The autoscaler ended it: it was idle."
    lost = node_row({**told, "DeathReason": 2, "DeathReasonMessage": "health check failed"})
    assert not lost["is_ended"] and lost["state_message"] == "health check failed"
    assert not node_row({**told, "Alive": True})["is_ended"]


def test_a_task_that_has_not_ended_is_told_as_its_owner_would() -> None:
    for name, kind in (
        ("square", "task"),
        ("Counter.add", "actor_task"),
        ("Counter.__init__", "actor_creation"),
    ):
        row = unfinished_row(b"\1" * 8, Submission(b"\2" * 8, 5.0, name))
        assert (row["name"], row["kind"], row["submit_s"]) == (name, kind, 5.0)
        assert row["task"] == "02" * 8 + "01" * 8
