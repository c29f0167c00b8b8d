"""The command of a job: its variables, its process group, its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sundog.jobs import entrypoint
from sundog.jobs.records import JobFolder
from sundog.jobs.rows import JobRecord


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    tmp_path.chmod(0o700)
    (tmp_path / "logs").mkdir()
    made = JobFolder(str(tmp_path), "a")
    made.create(JobRecord("a", "echo"))
    return made


def test_the_command_joins_the_session_with_its_own_environment(folder: JobFolder) -> None:
    record = JobRecord("a", "echo", resolved_env={"env_vars": {"X": "1"}}, metadata={"m": "n"})
    environ = entrypoint.environment(folder, record)
    assert environ["RAY_ADDRESS"] == environ["SUNDOG_ADDRESS"] == folder.session
    assert environ["PATH"].split(os.pathsep)[0] == os.path.dirname(sys.executable)
    job = json.loads(environ["_SUNDOG_JOB"])
    assert (job["submission_id"], job["runtime_env"]) == ("a", {"env_vars": {"X": "1"}})


def test_import_ray_in_a_job_is_sundog(folder: JobFolder) -> None:
    code = "import ray, ray.util.queue, sundog; print(ray.remote is sundog.remote)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": entrypoint.make_shim(folder)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "True\n", done.stderr


def test_what_the_command_prints_is_kept_and_its_group_can_be_ended(folder: JobFolder) -> None:
    child = entrypoint.start("echo out; echo err >&2; exec sleep 1000", dict(os.environ), folder.log)
    assert os.getpgid(child.pid) == child.pid
    while Path(folder.log).read_text() != "out\nerr\n":
        assert child.poll() is None
    entrypoint.signal_group(child.pid, signal.SIGTERM)
    assert child.wait() == -signal.SIGTERM
    entrypoint.signal_group(child.pid, signal.SIGKILL)  # harmless
    assert Path(folder.log).stat().st_mode & 0o777 == 0o600


def _await_variables(process: subprocess.Popen[bytes]) -> None:
    """Wait until a process is the program that it was started for, with that program's variables."""
    while b"_SUNDOG_SUBMISSION" not in Path(f"/proc/{process.pid}/environ").read_bytes():
        assert process.poll() is None


def test_processes_of_a_job_are_found_by_their_mark_and_those_of_other_sessions_are_left(
    folder: JobFolder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("session")
    same_id, longer_id = JobFolder(str(elsewhere), "a"), JobFolder(folder.session, "ab")
    for job in (same_id, longer_id):
        job.create(JobRecord(job.submission_id, "echo"))
    environs = [entrypoint.environment(each, JobRecord("a", "echo")) for each in (folder, same_id, longer_id)]
    started = [subprocess.Popen(["sleep", "1000"], env=environ) for environ in environs]
    try:
        for each in started:
            _await_variables(each)
        entrypoint.end_marked(folder)
        ours, *others = started
        assert ours.wait() == -signal.SIGKILL
        assert [each.poll() for each in others] == [None, None]
    finally:
        for each in started:
            each.kill()
            each.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a program as another user")
def test_a_process_of_another_user_is_left_though_it_bears_the_mark(folder: JobFolder) -> None:
    environ = entrypoint.environment(folder, JobRecord("a", "echo"))
    stranger = subprocess.Popen(["sleep", "1000"], env=environ, user=54321, group=54321, extra_groups=[])
    ours = subprocess.Popen(["sleep", "1000"], env=environ)
    try:
        _await_variables(stranger)
        _await_variables(ours)
        entrypoint.end_marked(folder)
        assert ours.wait() == -signal.SIGKILL
        assert stranger.poll() is None
    finally:
        for each in (stranger, ours):
            each.kill()
            each.wait()


def test_a_supervisor_is_an_isolated_program(folder: JobFolder) -> None:
    command = entrypoint.supervisor_command(folder.session, "a")
    assert command[0] == sys.executable and "supervisor" in command[-1]
