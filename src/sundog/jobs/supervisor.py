"""The program beside a job: starts its entrypoint, waits for its end, writes down how it ended.

::

    head ── starts ──► supervisor ── its own process group ──► entrypoint
      ── SIGTERM ──►        │ SIGTERM, then SIGKILL to the group
    node ── ends ──►        │ the same
                            └─► job.json, under the lock

Owns the job's record from its start to its end, and every process that the entrypoint leaves: they become children of
this process and end with the job. The supervisor needs neither the head process nor its client; it ends with the
session. One thread. Launched by the head process.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator

from sundog.jobs import entrypoint
from sundog.jobs.records import JobFolder
from sundog.jobs.rows import JobErrorType, JobRecord, ending
from sundog.plain import replaced
from sundog.system import job_groups, job_verdicts
from sundog.system.job_verdicts import Verdict

_STOP_GRACE_S = 3.0
_WATCH_MS = 50.0
_GROUP_GRACE_S = 5.0
_ENDED = "The session ended while the job ran."


class Stopped(Exception):
    """The job is to end before its entrypoint has begun."""


class Supervisor:
    """One job, from its start to its end."""

    def __init__(self, folder: JobFolder, record: JobRecord, node_pid: int) -> None:
        self.folder = folder
        self.record = record
        self.group: job_groups.JobGroup | None = None
        self.stop_asked = False
        self.node_gone = False
        self._wake = _watch_signals(self._asked)
        self._poll = select.poll()
        self._poll.register(self._wake, select.POLLIN)
        try:
            self._node = os.pidfd_open(node_pid)
            self._poll.register(self._node, select.POLLIN)
        except OSError:
            self._node, self.node_gone = -1, True

    def _asked(self) -> None:
        self.stop_asked = True

    # ------------------------------------------------------------------ life
    def run(self) -> None:
        """Run the job to its end."""
        record = self.record
        record.supervisor_pid = os.getpid()
        before = _oom_kills()
        try:
            with self._reserved():
                child = self._start()
                record.status, record.message = "RUNNING", "The entrypoint runs."
                record.entrypoint_pid = child.pid
                self.folder.write(record)
                code = self._wait(child)
        except Stopped:
            self._end(*self._stopped_early())
            return
        _end_children()
        status, text, error, exit_code = ending(
            code,
            stopped=self.stop_asked,
            oom_kills=_oom_kills() - before,
            verdict=job_verdicts.read(self.folder.path),
            limit_bytes=(record.memory or 0) if self._kills_in_group() else 0,
        )
        if self.node_gone and not self.stop_asked:
            status, text, error = "FAILED", _ENDED, JobErrorType.JOB_SUPERVISOR_ACTOR_DIED.value
        record.driver_exit_code = exit_code
        self._end(status, text, error)

    def _stopped_early(self) -> tuple[str, str, str | None]:
        if self.stop_asked:
            return "STOPPED", "The job was stopped on request, before its entrypoint began.", None
        return "FAILED", _ENDED, JobErrorType.JOB_SUPERVISOR_ACTOR_DIED.value

    def _end(self, status: str, text: str, error: str | None) -> None:
        record = self.record
        record.status, record.message, record.error_type = status, text, error
        record.end_time = int(time.time() * 1000)
        self.folder.write(record)

    def failed(self, kind: JobErrorType, text: str) -> None:
        """Write down that the job could not begin."""
        self._end("FAILED", text, kind.value)

    # ------------------------------------------------------------------ the entrypoint
    def _start(self) -> subprocess.Popen[bytes]:
        if self.record.resolved_env:
            self._apply_environment()
        if self.stop_asked or self.node_gone:
            raise Stopped
        environ = entrypoint.environment(self.folder, self.record)
        self._make_group()
        return entrypoint.start(self.record.entrypoint, environ, self.folder.log, self.group)

    def _apply_environment(self) -> None:
        """Become the job's runtime environment, for the entrypoint to inherit; its hook is for workers alone."""
        from sundog import runtime_env as environments

        wanted = {k: v for k, v in self.record.resolved_env.items() if k != "worker_process_setup_hook"}
        normal = environments.normalize(wanted, session_dir=self.folder.session)
        if normal.needs_prepare:
            self.record.message = "Packages for its runtime_env are being installed."
            self.folder.write(self.record)
            environments.prepare(normal)
        normal.apply_in_worker()

    # ------------------------------------------------------------------ memory
    def _make_group(self) -> None:
        """A control group for a job with a memory limit, where there can be one."""
        record = self.record
        if not record.memory:
            return
        # Without the object store: the node adds it before the first driver of the job may write there.
        self.group, why = job_groups.build(self.folder.session, record.submission_id, record.memory, 0)
        record.memory_guard = f"control group {self.group.path}" if self.group is not None else why

    def _watch_memory(self, pid: int) -> None:
        """End the command if it holds more than the whole job may; the node watches the job's workers as well."""
        from sundog import machine
        from sundog.system.orphans import descendants

        limit = self.record.memory or 0
        sizes = {each: machine.own_bytes(each) for each in (pid, *descendants(os.getpid()))}
        used = sum(sizes.values())
        if used <= limit:
            return
        largest = max(sizes, key=lambda each: sizes[each])
        text = f"pid {largest}, {machine.title(largest)}: {sizes[largest] / 1e6:,.1f} MB"
        before = job_verdicts.read(self.folder.path) or Verdict(limit)
        verdict = replaced(before, program_ended=True, used_bytes=used, largest=text)
        job_verdicts.write(self.folder.path, verdict)
        entrypoint.signal_group(pid, signal.SIGKILL)

    def _kills_in_group(self) -> int:
        """How often the kernel killed for memory within the job's own group."""
        from sundog.system.oom_kills import read_count

        return (read_count(self.group.counter) or 0) if self.group is not None else 0

    def remove_group(self) -> None:
        """Remove the control group. Workers of the job end at this moment too; the node removes it after them."""
        deadline = time.monotonic() + _GROUP_GRACE_S
        while self.group is not None and not self.group.remove() and time.monotonic() < deadline:
            time.sleep(0.02)

    def _wait(self, child: subprocess.Popen[bytes]) -> int:
        """Wait for the end of the entrypoint, and bring it about when that is asked for; returns its exit code."""
        ended = os.pidfd_open(child.pid)
        self._poll.register(ended, select.POLLIN)
        kill_at: float | None = None
        try:
            while True:
                if (self.stop_asked or self.node_gone) and kill_at is None:
                    entrypoint.signal_group(child.pid, signal.SIGTERM)
                    kill_at = time.monotonic() + _STOP_GRACE_S
                if kill_at is not None and time.monotonic() >= kill_at:
                    entrypoint.signal_group(child.pid, signal.SIGKILL)
                    kill_at = time.monotonic() + _STOP_GRACE_S
                left_ms = None if kill_at is None else max(0.0, kill_at - time.monotonic()) * 1000
                if self.record.memory:
                    self._watch_memory(child.pid)
                    left_ms = _WATCH_MS if left_ms is None else min(left_ms, _WATCH_MS)
                if ended in self._look(left_ms):
                    return child.wait()
        finally:
            self._poll.unregister(ended)
            os.close(ended)
            # Processes of the group that the command left; others are children of this process by now.
            entrypoint.signal_group(child.pid, signal.SIGKILL)

    def _look(self, timeout_ms: float | None) -> set[int]:
        """Wait for something to happen; returns the descriptors that tell of it."""
        found = {fd for fd, _ in self._poll.poll(timeout_ms)}
        if self._wake in found:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 4096)
        if self._node in found and not self.node_gone:
            self.node_gone = True
            self._poll.unregister(self._node)
        return found

    # ------------------------------------------------------------------ resources of the entrypoint itself
    @contextlib.contextmanager
    def _reserved(self) -> Iterator[None]:
        """Hold what the entrypoint asked for, while it runs."""
        wanted = self.record.resources()
        if not wanted:
            yield
            return
        import sundog
        from sundog.util.placement_group import placement_group

        self.record.message = f"The job waits for its resources: {wanted}."
        self.folder.write(self.record)
        sundog.init(address=self.folder.session, log_to_driver=False, logging_level="error")
        try:
            group = placement_group([wanted])
            while not group.wait(0.2):
                self._look(0)
                if self.stop_asked or self.node_gone:
                    raise Stopped
            yield
        finally:
            with contextlib.suppress(Exception):
                sundog.shutdown()


def _watch_signals(asked: Callable[[], None]) -> int:
    """A descriptor that becomes readable with every signal; SIGTERM asks for the end."""
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda *_: asked())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return read


def _oom_kills() -> int:
    from sundog.system.oom_kills import own_counters, read_count

    return sum(read_count(path) or 0 for path in own_counters())


def _end_children() -> None:
    """SIGKILL for all that the entrypoint left: orphans are ours."""
    from sundog.system.orphans import kill_children

    kill_children(os.getpid())


def main(session: str, submission_id: str) -> None:
    """Supervise one job. Harmless if it has a supervisor, or has ended."""
    import gc

    from sundog import isolation, titles
    from sundog.config import set_child_environ, user_environ
    from sundog.early import untuned
    from sundog.engines.sessions import read_session
    from sundog.system.orphans import adopt

    isolation.find_packages()
    set_child_environ(untuned(user_environ()))
    gc.enable()
    adopt()
    titles.begin(f"job {submission_id}")
    folder = JobFolder(session, submission_id)
    lock = folder.take_lock()
    if lock is None:
        return
    folder.say_pid(lock)
    record, info = folder.read(), read_session(session)
    if record is None or record.status != "PENDING":
        return
    supervisor = Supervisor(folder, record, info.node_pid if info is not None else -1)
    from sundog.exceptions import RuntimeEnvSetupError

    try:
        supervisor.run()
    except RuntimeEnvSetupError as error:
        supervisor.failed(
            JobErrorType.RUNTIME_ENV_SETUP_FAILURE, f"Its runtime_env cannot be set up: {error}"
        )
    except Exception as error:
        traceback.print_exc()
        kind = JobErrorType.JOB_ENTRYPOINT_COMMAND_START_ERROR
        supervisor.failed(kind, f"The entrypoint cannot be started: {type(error).__name__}: {error}")
    finally:
        _end_children()
        supervisor.remove_group()
