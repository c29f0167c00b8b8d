"""Submit jobs to a session's head process, and watch them: Ray's `job_submission`.

>>> from sundog.job_submission import JobStatus
>>> JobStatus("FAILED").is_terminal()
True

Owns the public names. `JobSubmissionClient` talks HTTP to the head process of `sundog start --head`; docs/head.md.
"""

from __future__ import annotations

from sundog.job_submission.client import DriverInfo, JobDetails, JobInfo, JobSubmissionClient
from sundog.jobs.rows import JobErrorType, JobStatus, JobType

__all__ = [
    "JobSubmissionClient",
    "JobStatus",
    "JobErrorType",
    "JobInfo",
    "JobDetails",
    "JobType",
    "DriverInfo",
]
