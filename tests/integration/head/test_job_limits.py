"""Limits of a job's memory and of its part of the object store, under real pressure, on one session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog.engines import sessions
from sundog.job_submission import JobDetails, JobSubmissionClient
from sundog.wire.requests import Status
from tests.integration.gates import await_true
from tests.integration.head.conftest import Head, Sundog, start

GROW = """
import time
import ray
ray.init()

@ray.remote(max_retries=0)
def grow(megabytes):
    kept = [b"1" * (1 << 20) for _ in range(megabytes)]
    while megabytes > 100:
        time.sleep(0.01)  # until it is ended: however late the monitor looks, it finds this
    return len(kept)

print("small:", ray.get(grow.remote(20)), flush=True)
ray.get(grow.remote(300))
"""
EAT = "x = [b'1' * (1 << 20) for _ in range(300)]\nimport time\nwhile True: time.sleep(0.1)"
FILL = """
import os, time
import numpy as np
import ray
ray.init()
refs = [ray.put(np.full(8 << 20, number, np.uint8)) for number in range(12)]
assert [int(ray.get(ref)[7]) for ref in refs] == list(range(12))
print("all right", flush=True)
while not os.path.exists({gate!r}):
    time.sleep(0.01)
kept = []
try:
    for ref in refs:
        kept.append(ray.get(ref))  # what is looked at cannot leave memory
        ray.put(np.zeros(8 << 20, np.uint8))
except ray.exceptions.ObjectStoreFullError as error:
    print("refused:", error, flush=True)
"""


@pytest.fixture
def head(leak_check: Path) -> Iterator[Head]:
    """A session whose puts fail where they find no room, instead of going to disk."""
    made = start(system_config={"store_fallback_to_disk": False})
    yield made
    made.stop()


def _over(client: JobSubmissionClient, job: str) -> JobDetails:
    await_true(lambda: client.get_job_status(job).is_terminal(), f"the end of job {job}")
    return client.get_job_info(job)


def _row(head: Head, job: str) -> dict[str, Any]:
    rows = sessions.request(head.session, Status())["jobs"]
    return next((each for each in rows if each["tenant"] == job), {})


def test_a_job_is_held_to_its_limits_and_told_by_one_cause(
    head: Head, leak_check: Path, sundog: Sundog
) -> None:
    client = JobSubmissionClient(head.info.url)
    gate, scripts = leak_check / "gate", {"grow": GROW, "eat": EAT, "fill": FILL}
    for name, text in scripts.items():
        (leak_check / f"{name}.py").write_text(text.replace("{gate!r}", repr(str(gate))))

    def submit(name: str, **limits: Any) -> str:
        return client.submit_job(entrypoint=f"python {leak_check}/{name}.py", submission_id=name, **limits)

    # Its objects are spilled beyond its limit, and are right when they come back.
    fill = submit("fill", object_store="40MB")
    await_true(lambda: "all right" in client.get_job_logs(fill), "the values to be read")
    row = _row(head, fill)
    assert row["object_store_limit"] == 40_000_000 and row["object_store"] <= 40_000_000
    assert (
        "Job fill has reached its limit in the object store, 40.0 MB (--object-store)"
        in client.get_job_logs(fill)
    )
    shown = sundog("status").stdout
    assert "Jobs that share the session" in shown and "38.1 MiB" in shown

    # A worker that passes the limit of its job is ended, and nothing of another job is.
    grow = submit("grow", metadata={"sundog_memory": "150MB"})
    found = _over(client, grow)
    logs = client.get_job_logs(grow)
    assert "small: 20" in logs and "OutOfMemoryError" in logs, logs
    assert "when job grow used" in logs and "more than its limit of 150.0 MB" in logs and "grow()" in logs
    assert found.status == "FAILED" and found.message is not None
    assert "exit code 1. 1 of its workers was ended because the job used" in found.message, found.message
    assert found.memory == 150_000_000 and found.memory_guard
    assert "It may use: memory 143.1 MiB" in sundog("job", "status", grow).stdout

    # The command alone, without sundog: no worker could be ended for it.
    eat = _over(client, submit("eat", memory=100_000_000))
    # By the supervisor; or by the kernel, if the supervisor was late.
    assert eat.message is not None and "its limit of 100 MB (--memory)" in eat.message, eat.message
    assert eat.status == "FAILED" and eat.driver_exit_code in (-9, 137)

    # What is in use cannot be spilled: the put fails by the job's limit.
    gate.touch()
    done = _over(client, fill)
    assert done.status == "SUCCEEDED", client.get_job_logs(fill)
    assert "refused: Job fill has reached its limit" in client.get_job_logs(fill)
    for job in (grow, eat.submission_id or ""):
        path = client.get_job_info(job).memory_guard.removeprefix("control group ")
        await_true(lambda path=path: not os.path.exists(path), f"the control group of {job} to be removed")
    refused = sundog("job", "submit", "--memory", "much", "--", "true")
    assert refused.returncode == 2 and "--memory must be an amount of memory" in refused.stderr
