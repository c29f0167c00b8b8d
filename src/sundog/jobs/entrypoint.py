"""The command of a job: its environment, its start, its end with all that it started.

Owns the variables by which `init()` in the command joins the session, the process group, and the search for what the
command left running. Runs in the job's supervisor; the head process ends the processes of a dead supervisor here, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys

from sundog import isolation, trust
from sundog.config import user_environ
from sundog.job_config import JOB_VARIABLE
from sundog.jobs.records import JobFolder
from sundog.jobs.rows import JobRecord
from sundog.system.job_groups import JobGroup, name_of

_MARK = "_SUNDOG_SUBMISSION"
# In a job, `import ray` is sundog: the session that it joins is one of sundog's.
_SHIM = """\
import sys
sys.modules.pop("ray", None)
from sundog import compat
compat.install()
import ray
"""


def environment(folder: JobFolder, record: JobRecord) -> dict[str, str]:
    """The variables of the command: those of the session's starter, and what makes it part of this session."""
    environ = user_environ()
    path = environ.get("PATH", os.defpath)
    # "python" is the session's own: a driver of another version is refused.
    bin_folder = os.path.dirname(sys.executable)
    inherited = environ.get("PYTHONPATH")
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    paths = [make_shim(folder), *([inherited] if inherited else []), source]
    job = {
        "submission_id": record.submission_id,
        "runtime_env": record.resolved_env,
        "metadata": record.metadata,
    }
    terms = {
        "SUNDOG_job_weight": record.weight,
        "SUNDOG_job_cpus": record.cpus,
        "SUNDOG_job_memory": record.memory,
        "SUNDOG_job_object_store": record.object_store,
    }
    return environ | {
        **{name: str(value) for name, value in terms.items() if value is not None},
        "PATH": path if path.split(os.pathsep)[0] == bin_folder else f"{bin_folder}{os.pathsep}{path}",
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONUNBUFFERED": "1",
        "SUNDOG_ADDRESS": folder.session,
        "RAY_ADDRESS": folder.session,
        JOB_VARIABLE: json.dumps(job),
        _MARK: _mark_of(folder),
    }


def make_shim(folder: JobFolder) -> str:
    """A folder for the command's import path, in which `ray` is sundog."""
    path = f"{folder.path}/shim"
    trust.make_folder(path)
    with open(trust.create_file(f"{path}/ray.py"), "w", encoding="utf-8") as file:
        file.write(_SHIM)
    return path


def start(
    command: str, environ: dict[str, str], log: str, group: JobGroup | None = None
) -> subprocess.Popen[bytes]:
    """Start the command as the leader of a session and process group of its own.

    Args:
        group: the control group that it begins in.

    Raises:
        OSError: it cannot be started.
    """
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            command,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environ,
            start_new_session=True,
            # The supervisor has one thread, so the child may run Python before its exec.
            preexec_fn=None if group is None else lambda: group.add(0) and None,
        )
    finally:
        os.close(output)


def signal_group(pid: int, number: int) -> None:
    """Send a signal to a process group, if it is there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _mark_of(folder: JobFolder) -> str:
    """By what processes of a job are known. Users choose submission ids, so two sessions may have the same one."""
    return f"{os.path.basename(folder.session)}/{folder.submission_id}"


def end_marked(folder: JobFolder) -> None:
    """SIGKILL for every process of this user that a job started, though its supervisor is gone."""
    mark = os.fsencode(f"{_MARK}={_mark_of(folder)}")
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            pidfd = os.pidfd_open(int(name))
        except OSError:
            continue
        try:
            # Root can read the variables of all users' processes.
            if os.stat(f"/proc/{name}").st_uid != os.geteuid():
                continue
            with open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        except OSError:
            pass
        finally:
            os.close(pidfd)


def remove_group(session: str, record: JobRecord) -> None:
    """Remove the control group that a killed supervisor left; the node removes one in which workers still end."""
    path = record.memory_guard.removeprefix("control group ")
    if path != record.memory_guard and path.endswith(f"/{name_of(session, record.submission_id)}"):
        with contextlib.suppress(OSError):
            os.rmdir(path)


def supervisor_command(session: str, submission_id: str) -> list[str]:
    """The command that runs a job's supervisor."""
    return isolation.command(f"sundog.jobs.supervisor.main({session!r}, {submission_id!r})")
