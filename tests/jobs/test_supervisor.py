"""The program beside a job, run by hand: what it writes down for each kind of end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sundog import trust
from sundog.jobs import entrypoint
from sundog.jobs.records import JobFolder
from sundog.jobs.rows import JobRecord
from sundog.node.sessions import publish
from sundog.store import folders
from tests.integration.gates import await_true

if TYPE_CHECKING:
    from sundog.wire.dicts import SessionFacts


@pytest.fixture
def node(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands for the node of a session in `tmp_path`."""
    tmp_path.chmod(0o700)
    (tmp_path / "logs").mkdir()
    process = subprocess.Popen(["sleep", "1000"])
    lock = folders.make_lock(str(tmp_path))
    session: SessionFacts = {
        "name": "s",
        "path": str(tmp_path),
        "shm_root": "",
        "node_pid": process.pid,
        "node_id": b"n",
    }
    publish(session, {"CPU": 1.0}, persistent=True)
    yield process
    process.kill()
    process.wait()
    os.close(lock)


def _begin(path: Path, command: str) -> tuple[JobFolder, subprocess.Popen[bytes]]:
    folder = JobFolder(str(path), "a")
    folder.create(JobRecord("a", command))
    return folder, subprocess.Popen(entrypoint.supervisor_command(str(path), "a"))


def _await(folder: JobFolder, status: str) -> JobRecord:
    def has() -> bool:
        record = folder.read()
        return record is not None and record.status == status

    await_true(has, f"the job to be {status}")
    record = folder.read()
    assert record is not None
    return record


def test_output_and_exit_code_are_kept_and_nothing_is_left(
    node: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    left = tmp_path / "pid"
    folder, supervisor = _begin(tmp_path, f"setsid sleep 1000 & echo $! > {left}; echo done; exit 3")
    assert supervisor.wait() == 0
    record = folder.read()
    assert record is not None and (record.status, record.driver_exit_code) == ("FAILED", 3)
    assert record.end_time and record.entrypoint_pid
    assert Path(folder.log).read_text() == "done\n"
    await_true(lambda: not os.path.exists(f"/proc/{left.read_text().strip()}"), "what it left to end")
    # A second supervisor finds that all is done.
    again = subprocess.run(entrypoint.supervisor_command(str(tmp_path), "a"))
    assert again.returncode == 0 and folder.read() == record


def test_a_job_that_ignores_sigterm_is_killed(node: subprocess.Popen[bytes], tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    folder, supervisor = _begin(tmp_path, f"trap '' TERM; touch {ready}; while :; do sleep 1; done")
    await_true(ready.exists, "the job to ignore SIGTERM")
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait() == 0
    assert _await(folder, "STOPPED").message == "The job was stopped on request."


def test_a_job_ends_with_its_session(node: subprocess.Popen[bytes], tmp_path: Path) -> None:
    folder, supervisor = _begin(tmp_path, "exec sleep 1000")
    pid = _await(folder, "RUNNING").entrypoint_pid
    node.kill()
    assert supervisor.wait() == 0
    record = _await(folder, "FAILED")
    assert "session ended" in record.message
    assert not os.path.exists(f"/proc/{pid}")


def test_an_environment_that_cannot_be_made_is_the_job_s_failure(
    node: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    folder = JobFolder(str(tmp_path), "a")
    gone = str(tmp_path / "runtime_resources" / "working_dir_files" / "gone")
    folder.create(JobRecord("a", "true", resolved_env={"working_dir": gone}))
    trust.make_folder(os.path.dirname(gone))
    assert subprocess.run(entrypoint.supervisor_command(str(tmp_path), "a")).returncode == 0
    record = folder.read()
    assert record is not None and record.error_type in (
        "RUNTIME_ENV_SETUP_FAILURE",
        "JOB_ENTRYPOINT_COMMAND_START_ERROR",
    )
