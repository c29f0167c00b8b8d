"""Routes of jobs and packages, over a session that has ended: its jobs can still be looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog.jobs.records import JobFolder
from sundog.jobs.rows import JobRecord
from sundog.observe.sessions import Opened
from tests.head.conftest import Ask


@pytest.fixture
def job(ended: Opened) -> JobFolder:
    folder = JobFolder(ended.path, "a")
    folder.create(JobRecord("a", "echo hi", status="SUCCEEDED", message="over", start_time=1, end_time=2))
    return folder


def test_a_job_is_listed_shown_and_forgotten(ask: Ask, job: JobFolder) -> None:
    (row,) = ask("/api/jobs/").json()
    assert (row["submission_id"], row["type"], row["session_name"]) == ("a", "SUBMISSION", "session_1")
    assert ask("/api/jobs/a").json() == row
    assert ask("/api/jobs/a/stop", "POST").json() == {"stopped": False}
    assert ask("/api/jobs/a", "DELETE").json() == {"deleted": True}
    assert ask("/api/jobs/a").status_code == 404


@pytest.mark.parametrize("path", ["nothing", "..%2f..%2fetc", "%2e%2e", "a%00b"])
def test_a_job_that_is_not_there_is_404_whatever_its_name(ask: Ask, path: str) -> None:
    for method, more in (
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/stop"),
        ("GET", "/logs"),
        ("GET", "/logs/follow"),
    ):
        assert ask(f"/api/jobs/{path}{more}", method).status_code in (404, 405)


def test_output_of_any_bytes_is_one_json_string(ask: Ask, job: JobFolder) -> None:
    text = 'two "lines"\nand é — \N{SNOWMAN} \\ \t\n' * 40_000
    Path(job.log).write_bytes(text.encode() + b"\xff")
    Path(job.log).chmod(0o600)
    assert ask("/api/jobs/a/logs").json() == {"logs": text + "\N{REPLACEMENT CHARACTER}"}
    assert ask("/api/jobs/a/logs/follow").text == text + "\N{REPLACEMENT CHARACTER}"


def test_a_job_without_output_has_none(ask: Ask, job: JobFolder) -> None:
    assert ask("/api/jobs/a/logs").json() == {"logs": ""}


def test_an_ended_session_takes_no_jobs(ask: Ask) -> None:
    answer = ask("/api/jobs/", "POST", json={"entrypoint": "true"})
    assert answer.status_code == 400 and "has ended" in answer.text


def test_a_package_is_kept_under_its_name(ask: Ask, ended: Opened) -> None:
    assert ask("/api/packages/gcs/_ray_pkg_1.zip").status_code == 404
    assert ask("/api/packages/gcs/_ray_pkg_1.zip", "PUT", content=b"zip").status_code == 200
    assert ask("/api/packages/gcs/_ray_pkg_1.zip").status_code == 200
    kept = Path(ended.path, "runtime_resources", "packages", "_ray_pkg_1.zip")
    assert kept.read_bytes() == b"zip" and kept.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in kept.parent.iterdir()] == [kept.name]


@pytest.mark.parametrize("path", ["gcs/..%2fx", "gcs/%2e%2e", "s3/x.zip", "gcs/.hidden", "gcs/a..b"])
def test_a_package_cannot_be_put_elsewhere(ask: Ask, ended: Opened, path: str) -> None:
    assert ask(f"/api/packages/{path}", "PUT", content=b"x").status_code in (400, 404, 405)
    assert not Path(ended.path, "runtime_resources").exists()
