"""The queue of jobs, without supervisors: who may start, who is stopped, who has lost its supervisor."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sundog.head.jobs import JobExists, Jobs, NoSuchJob, NotOver, record_of
from sundog.jobs import entrypoint
from sundog.jobs.records import JobFolder
from sundog.jobs.rows import JobRecord


class Queue(Jobs):
    """Starts nothing: a job that would start is noted, and its record says that it runs."""

    def __init__(self, session: str, max_running: int = 0) -> None:
        super().__init__(session, max_running, f"{session}/packages")
        self.locks: dict[str, int] = {}

    def _start(self, record: JobRecord) -> bool:
        folder = JobFolder(self.session, record.submission_id)
        lock = folder.take_lock()
        assert lock is not None
        folder.say_pid(lock)
        self.locks[record.submission_id] = lock
        record.status = "RUNNING"
        folder.write(record)
        return True

    def end(self, submission_id: str, status: str = "SUCCEEDED") -> None:
        folder = JobFolder(self.session, submission_id)
        self._end(folder, self.get(submission_id), status, "over", None)
        os.close(self.locks.pop(submission_id))

    def lose(self, submission_id: str) -> None:
        os.close(self.locks.pop(submission_id))


@pytest.fixture
def session(tmp_path: Path) -> str:
    tmp_path.chmod(0o700)
    (tmp_path / "logs").mkdir()
    return str(tmp_path)


def _submit(queue: Jobs, name: str, **more: Any) -> JobRecord:
    return queue.submit({"entrypoint": "true", "submission_id": name, **more})


def test_jobs_beyond_the_limit_wait_in_turn(session: str) -> None:
    queue = Queue(session, max_running=2)
    for name in ("d", "c", "b", "a"):
        _submit(queue, name)
    assert set(queue.locks) == {"d", "c"}
    assert queue.get("b").status == "PENDING"
    queue.end("d")
    assert queue.tick()
    assert set(queue.locks) == {"c", "b"}
    for name in ("c", "b"):
        queue.end(name)
    queue.tick()
    queue.end("a")
    assert not queue.tick()
    assert [each.status for each in queue.all()] == ["SUCCEEDED"] * 4


def test_a_new_head_goes_on_with_the_queue_of_the_last(session: str) -> None:
    first = Queue(session, max_running=1)
    _submit(first, "a")
    _submit(first, "b")
    second = Queue(session, max_running=1)
    assert second.tick() and not second.locks  # "a" runs under its own supervisor
    first.end("a")
    second.tick()
    assert set(second.locks) == {"b"}
    second.end("b")


def test_a_job_that_waits_is_stopped_before_it_begins(session: str) -> None:
    queue = Queue(session, max_running=1)
    _submit(queue, "a")
    _submit(queue, "b")
    assert queue.stop("b")
    assert queue.get("b").status == "STOPPED"
    assert not queue.stop("b")
    queue.end("a")
    queue.tick()
    assert not queue.locks


def test_a_job_whose_supervisor_was_killed_has_failed(session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    monkeypatch.setattr(entrypoint, "end_marked", lambda folder: ended.append(folder.submission_id))
    queue = Queue(session)
    _submit(queue, "a")
    queue.lose("a")
    queue.tick()
    record = queue.get("a")
    assert (record.status, record.error_type) == ("FAILED", "JOB_SUPERVISOR_ACTOR_DIED")
    assert ended == ["a"]


def test_a_supervisor_that_cannot_be_started_fails_its_job(
    session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: Any, **_how: Any) -> int:
        raise OSError(11, "no processes")

    monkeypatch.setattr(os, "posix_spawn", refuse)
    queue = Jobs(session, 0, session)
    assert _submit(queue, "a").error_type == "JOB_SUPERVISOR_ACTOR_START_FAILURE"


def test_a_supervisor_that_never_began_fails_its_job(session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = os.posix_spawn("/bin/false", ["false"], {})
    monkeypatch.setattr(os, "posix_spawn", lambda *_args, **_how: pid)
    queue = Jobs(session, 0, session)
    _submit(queue, "a")
    while queue.get("a").status == "PENDING":
        queue.tick()
    assert queue.get("a").error_type == "JOB_SUPERVISOR_ACTOR_START_FAILURE"


def test_an_id_is_used_once_and_an_unknown_one_is_said(session: str) -> None:
    queue = Queue(session)
    _submit(queue, "a")
    with pytest.raises(JobExists, match="a already"):
        _submit(queue, "a")
    for unknown in ("b", "../a", ""):
        with pytest.raises(NoSuchJob):
            queue.get(unknown)
    with pytest.raises(NotOver, match="sundog job stop a"):
        queue.delete("a")
    queue.end("a")
    assert queue.delete("a")
    with pytest.raises(NoSuchJob):
        queue.delete("a")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, "entrypoint"),
        ({"entrypoint": "  "}, "entrypoint"),
        ({"entrypoint": 3}, "entrypoint"),
        ({"entrypoint": "x", "colour": "red"}, "colour"),
        ({"entrypoint": "x", "metadata": {"a": 1}}, "metadata"),
        ({"entrypoint": "x", "entrypoint_num_cpus": True}, "entrypoint_num_cpus"),
        ({"entrypoint": "x", "entrypoint_resources": {"a": "b"}}, "entrypoint_resources"),
        ({"entrypoint": "x", "entrypoint_label_selector": {"a": "b"}}, "label_selector"),
    ],
)
def test_what_makes_no_sense_is_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        record_of(asked)


def test_an_id_is_made_if_none_is_given() -> None:
    made = record_of({"entrypoint": "x", "submission_id": None})
    assert made.submission_id.startswith("raysubmit_")
    assert record_of({"entrypoint": "x", "job_id": "old"}).submission_id == "old"


@pytest.mark.parametrize("package", ["gcs://missing.zip", "gcs://../x.zip", "gcs:///etc/passwd"])
def test_a_package_that_was_not_uploaded_is_refused(session: str, package: str) -> None:
    with pytest.raises(ValueError, match="not uploaded"):
        _submit(Queue(session), "a", runtime_env={"working_dir": package})


def test_the_working_dir_is_copied_when_the_job_is_submitted(session: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "x.py").write_text("1")
    queue = Queue(session)
    record = _submit(queue, "a", runtime_env={"working_dir": str(source), "_ray_commit": "x"})
    assert record.runtime_env["working_dir"] == str(source)
    copied = record.resolved_env["working_dir"]
    assert copied.startswith(session) and Path(copied, "x.py").read_text() == "1"
    queue.end("a")
