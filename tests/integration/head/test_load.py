"""Load on the head process: 200 followers of a log, a job that prints 1 GB, 50 jobs in the queue.

Takes a minute or two, so it runs by `make load` alone (`SUNDOG_TEST_LOAD=1`); all traffic stays on loopback.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest
import websockets

from sundog.job_submission import JobSubmissionClient
from tests.integration.gates import await_true
from tests.integration.head.conftest import Head, start

FOLLOWERS = 200
QUEUED = 50
PRINTED_BYTES = 1_000_000_000

pytestmark = [
    pytest.mark.skipif(not os.environ.get("SUNDOG_TEST_LOAD"), reason="by `make load` alone"),
    pytest.mark.timeout(900),
]


async def _count(head: Head, job: str) -> int:
    url = f"ws://127.0.0.1:{head.info.port}/api/jobs/{job}/logs/tail"
    bearer = {"authorization": f"Bearer {head.info.token}"}
    size = 0
    async with websockets.connect(url, additional_headers=bearer, open_timeout=300, max_size=None) as socket:
        async for text in socket:
            size += len(text)
    return size


def test_two_hundred_followers_hear_every_byte(head: Head, leak_check: Path) -> None:
    client = JobSubmissionClient(head.info.url)
    gate = leak_check / "gate"
    command = f"until test -e {gate}; do sleep 0.1; done; yes 0123456789 | head -c 1000000"
    job = client.submit_job(entrypoint=command)

    async def listen() -> list[int]:
        followers = [asyncio.create_task(_count(head, job)) for _ in range(FOLLOWERS)]
        await asyncio.sleep(1)
        gate.touch()
        return await asyncio.gather(*followers)

    assert asyncio.run(listen()) == [1_000_000] * FOLLOWERS
    assert head.get("/api/version")


def test_a_job_that_prints_a_gigabyte_is_kept_and_takes_no_memory(head: Head) -> None:
    client = JobSubmissionClient(head.info.url)
    before = psutil.Process(head.pid()).memory_info().rss
    job = client.submit_job(entrypoint=f"yes 0123456789 | head -c {PRINTED_BYTES}")
    heard = sum(len(text) for text in client.follow_logs(job))
    assert heard == PRINTED_BYTES
    assert client.get_job_status(job) == "SUCCEEDED"
    grown = psutil.Process(head.pid()).memory_info().rss - before
    assert grown < 100_000_000, f"the head process grew by {grown} bytes"
    assert client.delete_job(job)
    assert not list(Path(head.session.path, "logs").glob("job-driver-*"))


def test_fifty_jobs_in_the_queue_outlive_two_deaths_of_the_head(leak_check: Path) -> None:
    head = start(system_config={"max_running_jobs": 4})
    try:
        client = JobSubmissionClient(head.info.url)
        jobs = [client.submit_job(entrypoint=f"echo {number}") for number in range(QUEUED)]
        for _ in range(2):
            os.kill(head.pid(), signal.SIGKILL)
            await_true(lambda: head.pid(), "the next head process")
        await_true(
            lambda: all(each.status.is_terminal() for each in client.list_jobs()), "the end of all", 600
        )
        assert [client.get_job_logs(job) for job in jobs] == [f"{number}\n" for number in range(QUEUED)]
        assert {each.status.value for each in client.list_jobs()} == {"SUCCEEDED"}
    finally:
        head.stop()
