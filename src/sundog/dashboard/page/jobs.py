"""The view of jobs: submitted ones, waiting ones too, and programs that joined; what each has, may have and waits for.

Owns the rows, which put together the records of submitted jobs, the drivers of the state API and the node's totals for
each tenant. Runs in the head process' event loop; the rows are made in a thread.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sundog.dashboard.page.frame import PageFrame
from sundog.dashboard.page.tables import Column, DataTable, clock, number, seconds
from sundog.dashboard.source import PageSource, TablePage, Wanted, page_of
from sundog.jobs.records import all_jobs
from sundog.jobs.rows import JobRecord
from sundog.observe.words import in_units

if TYPE_CHECKING:
    from typing import TypedDict

    from sundog.dashboard.source import Cells
    from sundog.wire.status import JobFigures

    class JobCells(TypedDict):
        """What the table of jobs shows of one; its totals come with `shown_totals`."""

        key: object
        id: object
        tenant: object
        job_id: object
        status: object
        entrypoint: object
        began: float
        took: float | None
        message: object
        log: str
        file: str | None


_MS = 1000.0
_WHY = "/why?id="

JOBS = (
    Column("id", "id", link=_WHY, link_key="job_id"),
    Column("status", "state", state=True),
    Column("entrypoint", "program", wraps=True),
    Column("cpus", "CPUs", right=True, sortable=False),
    Column("waiting", "waiting", right=True),
    Column("memory", "memory", right=True, sortable=False),
    Column("objects", "objects", right=True, sortable=False),
    Column("began", "began", clock),
    Column("took", "took", seconds, right=True),
    Column("log", "log", link="/logs?file=", link_key="file", sortable=False),
    Column("message", "told", wraps=True),
)


def draw(frame: PageFrame, wanted: Wanted) -> None:
    """All jobs."""
    empty = "No job and no program has joined yet. Submit one: sundog job submit -- python x.py"

    def fetch(what: Wanted) -> TablePage:
        return page_of(job_rows(frame.source, time.time()), what)

    DataTable(frame, "/jobs", JOBS, fetch, wanted, empty=empty)


def job_rows(source: PageSource, now: float) -> list[Cells]:
    """The jobs of a session, the newest first."""
    drivers = source.listing("jobs", Wanted(most=10_000)).rows
    by_submission = {row["submission_id"]: row for row in drivers if row.get("submission_id")}
    submitted = [record for folder in all_jobs(source.path) if (record := folder.read()) is not None]
    known = {record.submission_id for record in submitted}
    totals = {row["tenant"]: row for row in source.tenants()}
    rows = [_submitted(record, by_submission.get(record.submission_id), now) for record in submitted]
    rows += [_joined(row, now) for row in drivers if row.get("submission_id") not in known]
    rows.sort(key=lambda row: -row["began"])
    return [{**row, **shown_totals(totals.get(str(row["tenant"])))} for row in rows]


def _submitted(record: JobRecord, driver: Cells | None, now: float) -> JobCells:
    began = record.start_time / _MS
    return {
        "key": record.submission_id,
        "id": record.submission_id,
        "tenant": record.submission_id,
        "job_id": driver["job_id"] if driver else None,
        "status": record.status,
        "entrypoint": record.entrypoint,
        "began": began,
        "took": (record.end_time / _MS if record.end_time else now) - began,
        "message": record.message,
        "log": "output",
        "file": f"job-driver-{record.submission_id}.log",
    }


def _joined(row: Cells, now: float) -> JobCells:
    began, ended = (number(row.get("start_time")) or 0) / _MS, (number(row.get("end_time")) or 0) / _MS
    return {
        "key": row["job_id"],
        "id": row["job_id"],
        "tenant": row["job_id"],
        "job_id": row["job_id"],
        "status": row.get("status"),
        "entrypoint": row.get("entrypoint"),
        "began": began,
        "took": (ended or now) - began if began else None,
        "message": row.get("message"),
        "log": "",
        "file": None,
    }


def shown_totals(row: JobFigures | None) -> Cells:
    """What a job has of what it may have, in cells; empty for one that has no part in the session.

    >>> shown_totals({"cpus": 2.0, "cpu_limit": 0.0, "waiting": 3, "memory": 0, "memory_limit": 2**30,
    ...               "object_store": 0, "object_store_limit": 0})
    {'cpus': '2', 'waiting': 3, 'memory': '0 B of 1.0 GiB', 'objects': '0 B'}
    """
    if row is None:
        return {"cpus": "", "waiting": None, "memory": "", "objects": ""}

    def of(used: str, limit: str, is_limited: object) -> str:
        return f"{used} of {limit}" if is_limited else used

    return {
        "cpus": of(f"{row['cpus']:g}", f"{row['cpu_limit']:g}", row["cpu_limit"]),
        "waiting": row["waiting"],
        "memory": of(in_units(row["memory"]), in_units(row["memory_limit"]), row["memory_limit"]),
        "objects": of(
            in_units(row["object_store"]), in_units(row["object_store_limit"]), row["object_store_limit"]
        ),
    }
