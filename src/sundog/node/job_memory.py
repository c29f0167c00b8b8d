"""Memory limits of jobs: each job with one is watched by a monitor of its own, over all of its processes together.

::

    own memory of its drivers, of all that they started, and of its workers ──► look ──► Monitor ──► Rounds
    its program alone passes the limit ──► the program is ended          the limit is passed together ──► a worker is
    control group (`system/job_groups.py`), where there can be one: the kernel's own limit, for what outruns this

Counted is what processes hold for themselves, shared segments are the object store's; pages that a worker shares with
the zygote are not its own. Owns the watched jobs, their control groups and what was done for their limits. Runs on the
node's only thread; costs nothing while no job has a limit.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

from sundog import machine
from sundog.node.memory_rounds import Rounds
from sundog.node.memory_users import TOP, User, users_text
from sundog.plain import replaced
from sundog.state.memory import End, Monitor, next_look_s
from sundog.system import job_groups, job_verdicts, orphans
from sundog.system.job_verdicts import Verdict
from sundog.wire.cause import shown_bytes

if TYPE_CHECKING:
    from sundog.node.memory_rounds import RoundsNode
    from sundog.node.rows import Job, Process
    from sundog.plain import JsonMapping
    from sundog.wire.control import RunningTold
    from sundog.wire.status import JobHold

_REFRESH_S = 0.1
_REMOVE_AGAIN_S = 0.1
_FILL_BYTES_PER_CORE_S = 4e9
REASON = "its job used more memory than its limit"


class _Limited:
    """One job with a limit."""

    def __init__(self, jobs: JobMemory, tenant: str, limit_bytes: int, store_bytes: int) -> None:
        self.jobs, self.node, self.tenant = jobs, jobs.node, tenant
        self.limit_bytes = limit_bytes
        self.monitor = Monitor(1.0)
        self.rounds = Rounds(
            jobs.node,
            self.monitor,
            read=self.read,
            look=self.look,
            end=self._end,
            helpless=lambda: None,
            tenant=tenant,
        )
        self.verdict = Verdict(limit_bytes)
        self.group, self.no_group = job_groups.build(self._session, tenant, limit_bytes, store_bytes)
        self.over = False
        self._looks = 0
        if self.group is not None:
            self.node.workers.causes.oom.watch(self.group.counter)
        else:
            self.node.log(f"job {tenant}: {self.no_group}")

    @property
    def _session(self) -> str:
        return str(self.node.session["path"])

    def shares(self) -> dict[int, int]:
        """Own bytes of each process of the job, by pid."""
        base = machine.own_bytes(self.node.workers.zygote_pid)
        found: dict[int, int] = {}
        for pid in self.programs():
            for each in (pid, *orphans.descendants(pid)):
                found[each] = machine.own_bytes(each)
        for pid in self.workers():
            found[pid] = max(0, machine.own_bytes(pid) - base)
            for each in orphans.descendants(pid):
                found[each] = machine.own_bytes(each)
        return found

    def programs(self) -> set[int]:
        """The processes that began it: of a submitted job its command, otherwise its driver."""
        found = set()
        for job in self.node.jobs.values():
            if self.node.tenancy.of(job.job_id) == self.tenant:
                found.add(job.pid)
                if job.spec.submission_id:
                    with contextlib.suppress(OSError):
                        found.add(os.getsid(job.pid))  # the job's command leads a process session of its own
        return found

    def workers(self) -> list[int]:
        """The pids of its workers."""
        return [
            process.pid
            for process in self.node.processes.values()
            if process.kind == "worker"
            and process.pid
            and self.node.tenancy.of(process.job_id) == self.tenant
        ]

    def read(self) -> machine.Reading:
        """What the job uses of its limit."""
        return machine.Reading(sum(self.shares().values()), self.limit_bytes, f"job {self.tenant}")

    # ------------------------------------------------------------------ looking
    def look(self) -> None:
        """Count, do what the monitor says, look again when it is time."""
        if self.over:
            return
        self._looks += 1
        this = self._looks
        shares = self.shares()
        used = sum(shares.values())
        workers = set(self.workers())
        own = {pid for each in self.programs() for pid in (each, *orphans.descendants(each))} - workers
        if sum(shares.get(pid, 0) for pid in own) > self.limit_bytes:
            self._end_program(shares)
            return
        self.rounds.do(self.monitor.look(used, self.limit_bytes, self.node.now()))
        fill = _FILL_BYTES_PER_CORE_S * (os.cpu_count() or 1)
        wait_s = next_look_s(max(0, self.limit_bytes - used), _REFRESH_S, fill)
        self.node.loop.after(wait_s, lambda: self.look() if this == self._looks else None)

    def users(self, shares: dict[int, int]) -> list[User]:
        """Its largest processes, named."""
        rows = sorted(shares.items(), key=lambda row: -row[1])[:TOP]
        return [(pid, size, self._name(pid)) for pid, size in rows if size]

    def _name(self, pid: int) -> str:
        worker = self.node.workers.by_pid.get(pid)
        return self.rounds.what(worker) if worker is not None else machine.title(pid)

    # ------------------------------------------------------------------ ending
    def _end(self, step: End) -> None:
        shares = self.shares()
        users, used = self.users(shares), sum(shares.values())
        facts: dict[str, object] = {
            "job": self.tenant,
            "job_limit_bytes": self.limit_bytes,
            "used_bytes": used,
            "total_bytes": self.limit_bytes,
            "own_bytes": step.own_bytes,
            "reason": step.why,
            "retry": step.retry,
            "top_users": users,
        }
        self._note(users, used, workers_ended=self.verdict.workers_ended + 1)
        self.node.memory.kill(step.worker, REASON, facts)

    def _end_program(self, shares: dict[int, int]) -> None:
        """Its own program passed the limit: no worker could be ended to mend that."""
        self.over = True
        users, used = self.users(shares), sum(shares.values())
        self._note(users, used, program_ended=True)
        self.node.log(f"job {self.tenant}: {self.verdict.text()}\n{users_text(users)}")
        self.rounds.thaw()
        for pid in self.programs():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _note(self, users: list[User], used: int, **changes: object) -> None:
        largest = f"pid {users[0][0]}, {users[0][2]}: {users[0][1] / 1e6:,.1f} MB" if users else ""
        self.verdict = replaced(self.verdict, used_bytes=used, largest=largest, **changes)
        job_verdicts.write(f"{self._session}/jobs/{self.tenant}", self.verdict)

    def close(self) -> None:
        """The job is over."""
        self.over = True
        self.rounds.thaw()
        if self.group is not None:
            self.node.workers.causes.oom.unwatch(self.group.counter)


class JobMemory:
    """The memory limits of all jobs of a session."""

    def __init__(self, node: RoundsNode) -> None:
        self.node = node
        self._limited: dict[str, _Limited] = {}
        self._leaving: list[job_groups.JobGroup] = []

    def came(self, tenant: str, job: Job, store_bytes: int) -> None:
        """A driver of a job with a limit has joined."""
        found = self._limited.get(tenant)
        if found is None:
            found = self._limited[tenant] = _Limited(self, tenant, job.spec.memory, store_bytes)
            found.look()

    def gone(self, tenant: str) -> None:
        """The last driver of a job is gone; its workers end."""
        found = self._limited.pop(tenant, None)
        if found is not None:
            found.close()
            if found.group is not None:
                self._leaving.append(found.group)
                self._remove()

    def forked(self, process: Process) -> None:
        """A worker begins."""
        found = self._limited.get(self.node.tenancy.of(process.job_id)) if self._limited else None
        if found is not None and found.group is not None:
            found.group.add(process.pid)

    def runs(self, process: Process, message: RunningTold) -> None:
        """An owner says what runs."""
        for each in self._limited.values():
            each.rounds.runs(process, message)

    def died(self, process: Process) -> None:
        """A process is gone."""
        for each in list(self._limited.values()):
            if each.monitor.died(process.process_id):
                each.look()
        if self._leaving:
            self._remove()

    def _remove(self) -> None:
        """Remove the groups of jobs that are over, as soon as their last process is gone."""
        self._leaving = [group for group in self._leaving if not group.remove()]
        if self._leaving:
            self.node.loop.after(_REMOVE_AGAIN_S, self._remove)

    def figures(self, tenant: str) -> JobHold:
        """What is known of a job's memory: use, limit, how it is held to it."""
        found = self._limited.get(tenant)
        if found is None:
            return {}
        return {
            "limit_bytes": found.limit_bytes,
            "workers_ended": found.verdict.workers_ended,
            "group": found.group.path if found.group is not None else "",
            "no_group": found.no_group,
        }

    def close(self) -> None:
        """The session ends; its processes are gone, but for programs that joined."""
        for tenant in list(self._limited):
            found = self._limited.pop(tenant)
            found.close()
            if found.group is not None:
                found.group.remove()
        for group in self._leaving:
            group.remove()


def job_arithmetic(facts: JsonMapping) -> str:
    """How a worker came to its end for the limit of its job, in lines."""
    own, used, limit = (shown_bytes(facts[name]) for name in ("own_bytes", "used_bytes", "job_limit_bytes"))
    return (
        f"It held {own} for itself when job {facts['job']} used {used}, more than its limit of {limit}. It was chosen "
        f"because {facts['reason']}.\n{users_text(facts['top_users'])}\n"
        f"Give the job more (sundog job submit --memory …, SUNDOG_job_memory), or let it run less at a time (--cpus). "
        f"See: sundog status"
    )
