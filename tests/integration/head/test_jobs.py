"""Jobs on a real head process: run, queued, stopped, followed, and what survives the death of the head."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import websockets

from sundog.engines import sessions
from sundog.job_submission import JobDetails, JobSubmissionClient
from sundog.jobs.records import JobFolder
from sundog.wire.requests import Status
from tests.integration.gates import await_true
from tests.integration.head.conftest import Head, Sundog, await_end, start

PROGRAM = """
import os
import ray
import helper
ray.init()
@ray.remote
def where():
    return helper.NAME, os.environ["COLOUR"], os.getcwd()
name, colour, folder = ray.get(where.remote())
print((name, colour, folder == os.getcwd()), os.environ["COLOUR"], flush=True)
raise SystemExit(3)
"""


def _await_over(client: JobSubmissionClient, job: str) -> JobDetails:
    await_true(lambda: client.get_job_status(job).is_terminal(), f"the end of job {job}", 50)
    return client.get_job_info(job)


def test_a_job_runs_in_its_environment_and_is_told_by_its_end(
    head: Head, tmp_path: Path, sundog: Sundog
) -> None:
    (tmp_path / "x.py").write_text(PROGRAM)
    (tmp_path / "helper.py").write_text("NAME = 'helper'")
    client = JobSubmissionClient(head.info.url)
    job = client.submit_job(
        entrypoint="python x.py",
        runtime_env={"working_dir": str(tmp_path), "env_vars": {"COLOUR": "red"}},
        metadata={"k": "v"},
    )
    found = _await_over(client, job)
    assert (found.status, found.driver_exit_code) == ("FAILED", 3), client.get_job_logs(job)
    assert "('helper', 'red', True) red" in client.get_job_logs(job)
    assert found.message == "The entrypoint ended with exit code 3." and found.metadata == {"k": "v"}
    assert found.session_name == head.session.name
    # The driver that it started is known by the submission.
    assert found.job_id and found.driver_info is not None
    assert client.get_job_info(found.job_id).submission_id == job
    listed = sundog("job", "list", "--address", head.info.url)
    assert job in listed.stdout and "FAILED" in listed.stdout, listed.stderr
    assert job in sundog("list", "jobs").stdout
    assert client.delete_job(job) and client.list_jobs()[0].submission_id == job  # its driver's row stays


def test_jobs_and_their_queue_survive_a_killed_head(leak_check: Path) -> None:
    head = start(system_config={"max_running_jobs": 1})
    try:
        client = JobSubmissionClient(head.info.url)
        gate = leak_check / "gate"
        jobs = [client.submit_job(entrypoint=f"until test -e {gate}; do sleep 0.05; done; echo over")]
        jobs += [client.submit_job(entrypoint="echo next") for _ in range(2)]
        await_true(lambda: client.get_job_status(jobs[0]) == "RUNNING", "the first job to run")
        assert client.get_job_status(jobs[1]) == "PENDING"
        os.kill(head.pid(), signal.SIGKILL)
        assert client.get_job_status(jobs[0]) == "RUNNING"  # asked of the next head process
        gate.touch()
        for job in jobs:
            assert _await_over(client, job).status == "SUCCEEDED"
        assert client.get_job_logs(jobs[0]) == "over\n"
        ends = [client.get_job_info(job) for job in jobs]
        assert [each.end_time for each in ends] == sorted(each.end_time or 0 for each in ends)
    finally:
        head.stop()


def test_a_job_is_stopped_with_all_that_it_started(head: Head) -> None:
    client = JobSubmissionClient(head.info.url)
    job = client.submit_job(entrypoint="setsid sleep 1000 & echo $!; exec sleep 1000")
    await_true(lambda: client.get_job_logs(job).endswith("\n"), "the job to begin")
    left = int(client.get_job_logs(job))
    assert client.stop_job(job)
    assert _await_over(client, job).status == "STOPPED"
    await_end(left)
    assert not client.stop_job(job)
    # A supervisor that is killed takes its job along.
    job = client.submit_job(entrypoint="exec sleep 1000")
    await_true(lambda: client.get_job_info(job).entrypoint_pid, "the second job to begin")
    holder = JobFolder(head.session.path, job).open_holder()
    assert holder is not None
    pid = client.get_job_info(job).entrypoint_pid
    signal.pidfd_send_signal(holder, signal.SIGKILL)
    os.close(holder)
    assert _await_over(client, job).error_type == "JOB_SUPERVISOR_ACTOR_DIED"
    assert pid is not None
    await_end(pid)


def test_resources_of_the_entrypoint_are_reserved_while_it_runs(head: Head, leak_check: Path) -> None:
    client = JobSubmissionClient(head.info.url)
    gate = leak_check / "gate"
    first = client.submit_job(entrypoint=f"until test -e {gate}; do sleep 0.05; done", entrypoint_num_cpus=2)
    await_true(lambda: client.get_job_status(first) == "RUNNING", "the first job to run", 50)
    second = client.submit_job(entrypoint="true", entrypoint_num_cpus=1)
    await_true(
        lambda: "waits for its resources" in (client.get_job_info(second).message or ""), "it to wait", 50
    )
    gate.touch()
    assert _await_over(client, first).status == "SUCCEEDED"
    assert _await_over(client, second).status == "SUCCEEDED"


async def _follow(head: Head, job: str, upto: int) -> str:
    """What a follower is sent, until the job ends; one that has enough vanishes without a word."""
    url = f"ws://127.0.0.1:{head.info.port}/api/jobs/{job}/logs/tail"
    heard = ""
    bearer = {"authorization": f"Bearer {head.info.token}"}
    async with websockets.connect(url, additional_headers=bearer, open_timeout=60) as socket:
        async for text in socket:
            assert isinstance(text, str)
            heard += text
            if len(heard) >= upto:
                socket.transport.abort()
                break
    return heard


def test_followers_hear_everything_and_may_vanish(head: Head, leak_check: Path) -> None:
    client = JobSubmissionClient(head.info.url)
    gate = leak_check / "gate"
    script = leak_check / "print.py"
    script.write_text(
        "import os, time\n"
        "print('first', flush=True)\n"
        f"while not os.path.exists({str(gate)!r}):\n"
        "    time.sleep(0.05)\n"
        "print('x' * 1_000_000)\n"
    )
    job = client.submit_job(entrypoint=f"python {script}")

    async def all_of_them() -> list[Any]:
        followers = [asyncio.create_task(_follow(head, job, 6 if n % 4 == 0 else 1 << 30)) for n in range(40)]
        vanished = [each for n, each in enumerate(followers) if n % 4 == 0]
        await asyncio.wait(vanished)
        gate.touch()
        return await asyncio.gather(*followers)

    heard = asyncio.run(all_of_them())
    assert _await_over(client, job).status == "SUCCEEDED", client.get_job_logs(job)
    whole = client.get_job_logs(job)
    assert len(whole) == 1_000_007
    assert all(text == whole for n, text in enumerate(heard) if n % 4)
    assert "".join(client.follow_logs(job)) == whole
    assert head.get("/api/version") and "Traceback" not in head.log()


def test_a_session_that_ends_ends_its_jobs(head: Head) -> None:
    client = JobSubmissionClient(head.info.url)
    job = client.submit_job(entrypoint="exec sleep 1000")
    await_true(lambda: client.get_job_info(job).entrypoint_pid, "the job to begin")
    pid = client.get_job_info(job).entrypoint_pid
    assert pid is not None
    sessions.stop_session(head.session)
    await_end(pid)


HOLD = """
import os, time
import ray
ray.init()
@ray.remote
def hold():
    while not os.path.exists({gate!r}):
        time.sleep(0.05)
ray.get([hold.remote() for _ in range(4)])
"""


def test_a_job_uses_no_more_cpus_than_it_may(head: Head, leak_check: Path) -> None:
    client = JobSubmissionClient(head.info.url)
    gate, script = leak_check / "gate", leak_check / "hold.py"
    script.write_text(HOLD.format(gate=str(gate)))
    job = client.submit_job(entrypoint=f"python {script}", cpus=1, weight=2)

    def row() -> dict[str, Any]:
        rows = sessions.request(head.session, Status())["jobs"]
        return next((each for each in rows if each["tenant"] == job), {})

    await_true(lambda: row().get("leases") and row().get("waiting"), "one task to run and others to wait", 50)
    found = row()
    assert (found["cpus"], found["cpu_limit"], found["weight"]) == (1.0, 1.0, 2.0)
    gate.touch()
    assert _await_over(client, job).status == "SUCCEEDED", client.get_job_logs(job)
