"""Rows of the view of jobs: submitted ones that wait, those that run, programs that joined by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sundog.dashboard.page.jobs import job_rows
from sundog.jobs.records import JobFolder
from sundog.jobs.rows import JobRecord


@dataclass
class _Listing:
    rows: list[dict[str, Any]]


@dataclass
class _Source:
    """A session whose rows the test gives."""

    path: str
    drivers: list[dict[str, Any]]
    tenant_rows: list[dict[str, Any]]

    def listing(self, _kind: str, _wanted: object) -> _Listing:
        return _Listing(self.drivers)

    def tenants(self) -> list[dict[str, Any]]:
        return self.tenant_rows


def test_waiting_and_running_jobs_and_programs_are_rows_with_their_totals(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    records = [
        JobRecord("waits", "python a.py", message="It waits to be started.", start_time=3000),
        JobRecord("runs", "python b.py", "RUNNING", start_time=2000),
        JobRecord("over", "python c.py", "FAILED", "exit code 3", start_time=1000, end_time=1500),
    ]
    for record in records:
        JobFolder(str(tmp_path), record.submission_id).create(record)
    drivers: list[dict[str, Any]] = [
        {"job_id": "01000000", "submission_id": "runs", "status": "RUNNING"},
        {
            "job_id": "02000000",
            "submission_id": None,
            "status": "RUNNING",
            "start_time": 500,
            "entrypoint": "d.py",
        },
    ]
    totals = {"cpus": 2.0, "cpu_limit": 2.0, "waiting": 5, "object_store": 0, "object_store_limit": 0}
    tenant = {"tenant": "runs", "memory": 1 << 20, "memory_limit": 1 << 30, **totals}
    source = _Source(str(tmp_path), drivers, [tenant])
    waits, runs, over, joined = job_rows(cast(Any, source), 4.0)
    assert (waits["id"], waits["status"], waits["cpus"], waits["job_id"]) == ("waits", "PENDING", "", None)
    assert (runs["job_id"], runs["cpus"], runs["memory"]) == ("01000000", "2 of 2", "1.0 MiB of 1.0 GiB")
    assert runs["file"] == "job-driver-runs.log" and runs["took"] == 2.0 and runs["waiting"] == 5
    assert (over["took"], over["message"]) == (0.5, "exit code 3")
    assert (joined["id"], joined["entrypoint"], joined["took"], joined["file"]) == (
        "02000000",
        "d.py",
        3.5,
        None,
    )
