"""What is known of a submitted job, and the words for it: Ray's states, and one sentence of our own for each.

Owns the row and its forms as JSON: the file's, and Ray's `JobDetails`. Pure; used by head, supervisor and client.
"""

from __future__ import annotations

import signal
from enum import StrEnum
from typing import TYPE_CHECKING

from sundog.plain import as_dict, field, plain
from sundog.system.job_verdicts import Verdict

if TYPE_CHECKING:
    from sundog.plain import JsonObject


class JobStatus(StrEnum):
    """Where a job is in its life."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    def is_terminal(self) -> bool:
        """Whether nothing more happens to it."""
        return self in (JobStatus.STOPPED, JobStatus.SUCCEEDED, JobStatus.FAILED)


class JobErrorType(StrEnum):
    """What kind of failure a failed job had; the names are Ray's."""

    RUNTIME_ENV_SETUP_FAILURE = "RUNTIME_ENV_SETUP_FAILURE"
    JOB_SUPERVISOR_ACTOR_START_TIMEOUT = "JOB_SUPERVISOR_ACTOR_START_TIMEOUT"
    JOB_SUPERVISOR_ACTOR_START_FAILURE = "JOB_SUPERVISOR_ACTOR_START_FAILURE"
    JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE = "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE"
    JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE = "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE"
    JOB_SUPERVISOR_ACTOR_DIED = "JOB_SUPERVISOR_ACTOR_DIED"
    JOB_ENTRYPOINT_COMMAND_START_ERROR = "JOB_ENTRYPOINT_COMMAND_START_ERROR"
    JOB_ENTRYPOINT_COMMAND_ERROR = "JOB_ENTRYPOINT_COMMAND_ERROR"


class JobType(StrEnum):
    """How a job came to be: submitted to the head process, or by a program that called `init()`."""

    SUBMISSION = "SUBMISSION"
    DRIVER = "DRIVER"


# The shell's meaning of these exit codes; a program may use them too, so the text names the shell.
_SHELL = {
    126: ": the shell says that its command cannot be executed",
    127: ": the shell says that its command was not found",
}


@plain()
class JobRecord:
    """All that is known of one submitted job. Times are milliseconds of the wall clock."""

    submission_id: str
    entrypoint: str
    status: str = "PENDING"
    message: str = ""
    error_type: str | None = None
    start_time: int = 0
    order: int = 0  # among the jobs of a session: two may be submitted in the same millisecond
    end_time: int | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    runtime_env: dict[str, object] = field(default_factory=dict)  # as it was given
    resolved_env: JsonObject = field(default_factory=dict)  # its folders as copies in the session
    entrypoint_num_cpus: float | None = None
    entrypoint_num_gpus: float | None = None
    entrypoint_memory: int | None = None
    entrypoint_resources: dict[str, float] | None = None
    weight: float | None = None  # of its share of the CPUs, among other jobs
    cpus: float | None = None  # the most that its tasks and actors may use at a time
    memory: int | None = None  # bytes that its processes may hold together
    object_store: int | None = None  # bytes that its objects may take of the store
    memory_guard: str = ""  # how it is held to its memory
    driver_exit_code: int | None = None
    entrypoint_pid: int | None = None
    supervisor_pid: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return JobStatus(self.status).is_terminal()

    def resources(self) -> dict[str, float]:
        """What the entrypoint itself asks to have reserved."""
        wanted = {
            "CPU": self.entrypoint_num_cpus,
            "GPU": self.entrypoint_num_gpus,
            "memory": self.entrypoint_memory,
            **(self.entrypoint_resources or {}),
        }
        return {name: float(amount) for name, amount in wanted.items() if amount}


def to_file(record: JobRecord) -> dict[str, object]:
    """The record as the file has it."""
    return as_dict(record)


def from_file(facts: JsonObject) -> JobRecord:
    """The record that a file has.

    Raises:
        TypeError, ValueError: it is none.
    """
    record = JobRecord(**facts)
    JobStatus(record.status)
    return record


def details(record: JobRecord, driver: JsonObject | None, session: str) -> JsonObject:
    """The record in the form of Ray's `JobDetails`, with the session and the pid beside.

    Args:
        driver: the row of the driver that the entrypoint started last, if it joined the session.
        session: the name of the session that the job went to.
    """
    facts = as_dict(record)
    del facts["resolved_env"], facts["supervisor_pid"]
    return {
        **facts,
        "type": JobType.SUBMISSION.value,
        "job_id": driver["job_id"] if driver else None,
        "driver_info": driver["driver_info"] if driver else None,
        "driver_agent_http_address": None,
        "driver_node_id": None,
        "session_name": session,
    }


def ending(
    status: int, *, stopped: bool, oom_kills: int, verdict: Verdict | None = None, limit_bytes: int = 0
) -> tuple[str, str, str | None, int]:
    """How a job ended, of its entrypoint's exit: status, one sentence, kind of error, exit code.

    Args:
        status: of `waitpid`, as an exit code: negative is a signal.
        stopped: a user asked for it to be stopped.
        oom_kills: how many processes the kernel has killed for memory meanwhile.
        verdict: what was done to it for its own memory limit.
        limit_bytes: that limit, if the kernel killed in the job's own control group.

    >>> ending(0, stopped=False, oom_kills=0)[:2]
    ('SUCCEEDED', 'The entrypoint ended with exit code 0.')
    """
    # A shell tells of a signal that ended its command by 128 and the number.
    number = -status if status < 0 else status - 128 if 128 < status < 128 + signal.NSIG else 0
    name = _signal_name(number)
    if stopped:
        return "STOPPED", "The job was stopped on request.", None, status
    if status == 0:
        return "SUCCEEDED", "The entrypoint ended with exit code 0.", None, 0
    error = JobErrorType.JOB_ENTRYPOINT_COMMAND_ERROR.value
    if verdict is not None and verdict.program_ended:
        return "FAILED", verdict.text(), error, status
    after = f" {verdict.text()}" if verdict is not None and verdict.workers_ended else ""
    if name == "SIGKILL" and limit_bytes:
        limit = f"{limit_bytes / 1e6:,.0f} MB (--memory)"
        text = f"The kernel killed it (SIGKILL): the job used more than its limit of {limit}."
        return "FAILED", text, error, status
    if name == "SIGKILL" and oom_kills:
        return "FAILED", "The kernel killed it because memory ran out (SIGKILL).", error, status
    if name and status < 0:
        return "FAILED", f"The entrypoint was ended by {name}.{after}", error, status
    if name:
        return (
            "FAILED",
            f"The entrypoint ended with exit code {status}: {name} ended its command.{after}",
            error,
            status,
        )
    meaning = _SHELL.get(status, "")
    return "FAILED", f"The entrypoint ended with exit code {status}{meaning}.{after}", error, status


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name if number else ""
    except ValueError:
        return ""
