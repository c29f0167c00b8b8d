"""The words for a worker that was ended for its job's limit. The rest is tests/integration/head/test_job_limits.py."""

from __future__ import annotations

from typing import Any, cast

from sundog.node.job_memory import JobMemory, job_arithmetic
from tests.node.fakes import FakeProcess


def test_the_error_names_the_job_its_limit_the_largest_users_and_the_next_command() -> None:
    text = job_arithmetic(
        {
            "job": "train",
            "job_limit_bytes": 150_000_000,
            "used_bytes": 151_000_000,
            "own_bytes": 140_000_000,
            "reason": "it began last",
            "top_users": [(7, 140_000_000, "grow()"), (8, 11_000_000, "python a.py")],
        }
    )
    assert text.startswith(
        "It held 140.0 MB for itself when job train used 151.0 MB, more than its limit of 150.0 MB. It was chosen "
        "because it began last.\n"
    )
    assert "pid 7        grow()" in text and text.endswith("See: sundog status")
    assert "sundog job submit --memory" in text


def test_a_session_without_limits_has_nothing_to_watch() -> None:
    jobs = JobMemory(cast(Any, object()))  # which is asked nothing
    process = cast(Any, FakeProcess(b"p", kind="worker", job_id=b"1"))
    jobs.forked(process)
    jobs.died(process)
    jobs.gone("train")
    assert jobs.figures("train") == {}
    jobs.close()
