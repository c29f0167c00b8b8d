"""The head process' keeper of jobs: takes them in, starts them in order, stops and forgets them.

::

    submit ──► job.json (PENDING) ──► queue ──► supervisor      at most `max_running_jobs` at a time
    tick: a job that runs, and whose lock is free, has lost its supervisor: its processes are ended, it FAILED

Owns the queue, which is nothing but the PENDING records by their times: a head process that starts anew goes on where
the last one was killed. Refuses to write a record whose lock another process holds. Runs in the head process: `tick`
and the verbs on threads, one at a time.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import string
import threading
import time
from typing import TYPE_CHECKING

from sundog import isolation
from sundog.config import user_environ
from sundog.jobs import entrypoint
from sundog.jobs.records import JobFolder, all_jobs
from sundog.jobs.rows import JobErrorType, JobRecord, JobStatus
from sundog.jobs.sizes import read_size
from sundog.runtime_env import normalize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sundog.plain import JsonObject

_ALPHABET = string.ascii_letters + string.digits
_PACKAGE_SCHEME = "gcs://"
SUPERVISOR_LOG = "job-supervisors.log"


class JobExists(ValueError):
    """There is a job of that id."""


class NoSuchJob(LookupError):
    """There is no job of that id."""


class NotOver(ValueError):
    """The job has not ended, so it cannot be forgotten."""


class Jobs:
    """The jobs of one session.

    Args:
        session: its folder.
        max_running: how many may run at a time; 0 is any number.
        packages: where uploaded packages are.
    """

    def __init__(self, session: str, max_running: int, packages: str) -> None:
        self.session = session
        self.max_running = max_running
        self.packages = packages
        self._lock = threading.Lock()
        self._last = 0  # the last place in the queue that was given
        self._started: dict[str, int] = {}  # by this process: id → pid of the supervisor
        self._over: dict[str, tuple[int, JobRecord]] = {}  # records that will not change

    # ------------------------------------------------------------------ verbs
    def submit(self, asked: Mapping[str, object]) -> JobRecord:
        """Take a job in; it runs as soon as it may.

        Raises:
            JobExists: the id is taken.
            ValueError, TypeError, RuntimeEnvSetupError: what was asked for makes no sense.
        """
        record = record_of(asked)
        record.resolved_env = self._resolve(record.runtime_env)
        folder = JobFolder(self.session, record.submission_id)
        record.start_time = int(time.time() * 1000)
        with self._lock:
            record.order = self._last = max(self._last + 1, time.time_ns())
        record.message = "It waits to be started."
        try:
            folder.create(record)
        except FileExistsError:
            raise JobExists(f"There is a job {record.submission_id} already: choose another id.") from None
        self.tick()
        return self.get(record.submission_id)

    def _resolve(self, runtime_env: JsonObject) -> JsonObject:
        """The environment with its folders copied into the session: later edits do not reach a job that waits."""
        wanted = {name: value for name, value in runtime_env.items() if not name.startswith("_")}
        if isinstance(wanted.get("working_dir"), str):
            wanted["working_dir"] = self._local(wanted["working_dir"])
        if isinstance(wanted.get("py_modules"), list):
            wanted["py_modules"] = [self._local(each) for each in wanted["py_modules"]]
        return normalize(wanted, session_dir=self.session).as_runtime_env() if wanted else {}

    def _local(self, path: object) -> object:
        """A package that was uploaded, as a file."""
        if not isinstance(path, str) or not path.startswith(_PACKAGE_SCHEME):
            return path
        name = path.removeprefix(_PACKAGE_SCHEME)
        file = f"{self.packages}/{name}"
        if os.path.basename(name) != name or not os.path.isfile(file):
            raise ValueError(f"The package {path!r} was not uploaded to this session.")
        return file

    def get(self, submission_id: str) -> JobRecord:
        """What is known of a job.

        Raises:
            NoSuchJob: there is none.
        """
        try:
            record = self._read(JobFolder(self.session, submission_id))
        except ValueError:
            record = None
        if record is None:
            raise NoSuchJob(f"This session has no job {submission_id}. See: sundog job list")
        return record

    def all(self) -> list[JobRecord]:
        """Every job, the oldest first."""
        found = [self._read(folder) for folder in all_jobs(self.session)]
        return sorted(
            (each for each in found if each is not None), key=lambda each: (each.order, each.start_time)
        )

    def stop(self, submission_id: str) -> bool:
        """Have a job end: SIGTERM, then SIGKILL. Whether there was anything to stop."""
        record = self.get(submission_id)
        folder = JobFolder(self.session, submission_id)
        while not record.is_over:
            with folder.locked() as is_ours:
                if is_ours:
                    record = folder.read() or record
                    if record.is_over:
                        return False
                    if record.status == "PENDING":
                        self._end(
                            folder,
                            record,
                            "STOPPED",
                            "The job was stopped on request, while it waited.",
                            None,
                        )
                        return True
            if is_ours:
                self.tick()  # the job lost its supervisor
                return True
            holder = folder.open_holder()
            if holder is not None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(holder, signal.SIGTERM)
                os.close(holder)
                return True
            time.sleep(
                0.01
            )  # the supervisor has the lock, and is about to write its pid; or it has just ended
            record = self.get(submission_id)
        return False

    def delete(self, submission_id: str) -> bool:
        """Forget a job that has ended, and what it printed.

        Raises:
            NoSuchJob: there is none.
            NotOver: it has not ended.
        """
        record = self.get(submission_id)
        if not record.is_over:
            raise NotOver(
                f"The job {submission_id} is {record.status}: only a job that has ended can be deleted. "
                f"Stop it first: sundog job stop {submission_id}"
            )
        self._over.pop(submission_id, None)
        return JobFolder(self.session, submission_id).remove()

    # ------------------------------------------------------------------ the queue
    def tick(self) -> bool:
        """Start what may start, remove what is dead; whether there is a job that has not ended."""
        with self._lock:
            self._reap()
            running, waiting = 0, []
            for record in self.all():
                if record.is_over:
                    continue
                if record.submission_id in self._started or record.status == "RUNNING":
                    running += not self._bury_if_dead(record)
                else:
                    waiting.append(record)
            for record in waiting:
                if self.max_running and running >= self.max_running:
                    break
                if self._start(record):
                    running += 1
            return bool(running or waiting)

    def _start(self, record: JobRecord) -> bool:
        folder = JobFolder(self.session, record.submission_id)
        with folder.locked() as is_ours:
            if not is_ours:
                return True  # a supervisor that an earlier head process started
        log = f"{self.session}/logs/{SUPERVISOR_LOG}"
        command = entrypoint.supervisor_command(self.session, record.submission_id)
        try:
            pid = os.posix_spawn(
                command[0],
                command,
                isolation.hide(user_environ()),
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,
            )
        except OSError as error:
            kind = JobErrorType.JOB_SUPERVISOR_ACTOR_START_FAILURE.value
            self._end(folder, record, "FAILED", f"Its supervisor cannot be started: {error.strerror}.", kind)
            return False
        self._started[record.submission_id] = pid
        return True

    def _reap(self) -> None:
        """Collect supervisors of ours that have ended."""
        for submission_id, pid in list(self._started.items()):
            try:
                ended = os.waitpid(pid, os.WNOHANG)[0] == pid
            except ChildProcessError:
                ended = True
            if ended:
                del self._started[submission_id]
                self._after_end(submission_id)

    def _after_end(self, submission_id: str) -> None:
        """A supervisor ended; one that left its job PENDING never began it."""
        folder = JobFolder(self.session, submission_id)
        with folder.locked() as is_ours:
            record = folder.read() if is_ours else None
            if record is not None and record.status == "PENDING":
                kind = JobErrorType.JOB_SUPERVISOR_ACTOR_START_FAILURE.value
                text = f"Its supervisor ended before it began. See: logs/{SUPERVISOR_LOG} of the session."
                self._end(folder, record, "FAILED", text, kind)

    def _bury_if_dead(self, record: JobRecord) -> bool:
        """Write down that a job's supervisor was killed, and end what it left; whether that was so."""
        if record.status != "RUNNING":
            return False
        folder = JobFolder(self.session, record.submission_id)
        with folder.locked() as is_ours:
            if not is_ours:
                return False
            latest = folder.read()
            if latest is None or latest.is_over:
                return True
            entrypoint.end_marked(folder)
            entrypoint.remove_group(self.session, record)
            kind = JobErrorType.JOB_SUPERVISOR_ACTOR_DIED.value
            self._end(folder, latest, "FAILED", "Its supervisor was killed, so the job was ended.", kind)
        return True

    def _end(self, folder: JobFolder, record: JobRecord, status: str, text: str, error: str | None) -> None:
        record.status, record.message, record.error_type = status, text, error
        record.end_time = int(time.time() * 1000)
        folder.write(record)

    def _read(self, folder: JobFolder) -> JobRecord | None:
        """A record; one that will not change any more is read once."""
        kept = self._over.get(folder.submission_id)
        if kept is not None and kept[0] == folder.changed_at():
            return kept[1]
        at = folder.changed_at()
        record = folder.read()
        if record is not None and record.is_over:
            self._over[folder.submission_id] = (at, record)
        return record


def new_id() -> str:
    """An id for a job that was given none; its form is Ray's."""
    return "raysubmit_" + "".join(secrets.choice(_ALPHABET) for _ in range(16))


def record_of(asked: Mapping[str, object]) -> JobRecord:
    """The job that a client asks for.

    Raises:
        ValueError, TypeError: a field is missing, or is no such thing.
    """
    known = {
        "entrypoint": str,
        "submission_id": str,
        "job_id": str,
        "runtime_env": dict,
        "metadata": dict,
        "entrypoint_num_cpus": (int, float),
        "entrypoint_num_gpus": (int, float),
        "entrypoint_memory": int,
        "entrypoint_resources": dict,
        "entrypoint_label_selector": dict,
        "weight": (int, float),
        "cpus": (int, float),
        "memory": (int, str),
        "object_store": (int, str),
    }
    given: JsonObject = {name: value for name, value in asked.items() if value is not None}
    for name, value in given.items():
        if name not in known:
            raise ValueError(f"A job has no field {name!r}. Its fields: {', '.join(known)}.")
        if not isinstance(value, known[name]) or isinstance(value, bool):  # type: ignore[arg-type]
            raise TypeError(f"The field {name} of a job must not be a {type(value).__name__}.")
    if not given.get("entrypoint", "").strip():
        raise ValueError("A job needs an entrypoint: the command to run.")
    if given.pop("entrypoint_label_selector", None):
        raise ValueError(
            "entrypoint_label_selector is not supported: the entrypoint runs on the node of the head process."
        )
    strings = given.get("metadata", {})
    if not all(isinstance(each, str) for each in (*strings, *strings.values())):
        raise TypeError("metadata of a job must be a JSON object of names and strings.")
    amounts = given.get("entrypoint_resources", {})
    if not all(isinstance(each, (int, float)) for each in amounts.values()):
        raise TypeError("entrypoint_resources of a job must be a JSON object of names and numbers.")
    _take_limits(given, strings)
    if given.get("weight", 1) <= 0 or given.get("cpus", 0) < 0:
        raise ValueError("weight of a job must be above zero, and cpus zero or more.")
    other_name = given.pop("job_id", None)
    submission_id = given.pop("submission_id", None) or other_name or new_id()
    return JobRecord(submission_id=submission_id, **given)


def _take_limits(given: JsonObject, metadata: Mapping[str, str]) -> None:
    """The limits of a job in bytes and numbers. Ray's own clients have no fields for them: metadata has, too.

    Raises:
        ValueError: one is no amount.
    """
    for name, read in (
        ("memory", lambda text: read_size(text, "memory of a job")),
        ("object_store", lambda text: read_size(text, "object_store of a job")),
        ("cpus", float),
        ("weight", float),
    ):
        value = given.get(name, metadata.get(f"sundog_{name}"))
        if value is None:
            continue
        try:
            given[name] = read(value)
        except ValueError as error:
            raise ValueError(
                error if name not in ("cpus", "weight") else f"{name} of a job must be a number."
            ) from None


def is_terminal(status: str) -> bool:
    """Whether a job of this status has ended."""
    return JobStatus(status).is_terminal()
