"""The files of jobs: ids that stay inside, one writer at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sundog.jobs.records import JobFolder, all_jobs
from sundog.jobs.rows import JobRecord


@pytest.fixture
def session(tmp_path: Path) -> str:
    tmp_path.chmod(0o700)
    (tmp_path / "logs").mkdir()
    return str(tmp_path)


@pytest.mark.parametrize(
    "wrong", ["", "..", "../x", "a/b", ".hidden", "a\0b", "a" * 129, "ä", "-x", "a\n", "/etc/passwd"]
)
def test_an_id_cannot_lead_out_of_the_folder(session: str, wrong: str) -> None:
    with pytest.raises(ValueError, match="submission id"):
        JobFolder(session, wrong)


def test_a_job_is_made_once_read_and_forgotten(session: str) -> None:
    folder = JobFolder(session, "raysubmit_a-1")
    record = JobRecord("raysubmit_a-1", "echo hi")
    folder.create(record)
    assert folder.read() == record and folder.changed_at()
    with pytest.raises(FileExistsError):
        folder.create(record)
    assert [each.submission_id for each in all_jobs(session)] == ["raysubmit_a-1"]
    Path(folder.log).write_text("hi")
    assert folder.remove()
    assert folder.read() is None and not os.path.exists(folder.log) and all_jobs(session) == []


def test_only_one_process_has_the_lock_and_is_found_by_it(session: str) -> None:
    folder = JobFolder(session, "a")
    folder.create(JobRecord("a", "echo"))
    assert folder.open_holder() is None
    lock = folder.take_lock()
    assert lock is not None
    folder.say_pid(lock)
    with folder.locked() as is_ours:
        assert not is_ours
    holder = folder.open_holder()
    assert holder is not None
    os.close(holder)
    os.close(lock)
    with folder.locked() as is_ours:
        assert is_ours


def test_a_damaged_file_is_no_job(session: str) -> None:
    folder = JobFolder(session, "a")
    folder.create(JobRecord("a", "echo"))
    Path(folder.path, "job.json").write_text("{")
    assert folder.read() is None


def test_a_session_without_jobs_has_none(session: str) -> None:
    assert all_jobs(session) == []
    assert JobFolder(session, "a").take_lock() is None
