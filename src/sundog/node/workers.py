"""Worker processes: asked of the zygote, connected, ended, buried with one cause.

::

    Leases: StartWorker ─► fork request + control socket ─► zygote ─► Forked(id, pid)
    zygote: Exited(pid, status)  or  SIGCHLD here, if the zygote died and its children became ours
            └─► Cause ─► leases, actors, and every process that dealt with the dead one

Owns the zygote and the processes' rows. Runs on the node's only thread.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import time
from typing import TYPE_CHECKING

from sundog.ids import random_id
from sundog.net import sockets as socket
from sundog.net.loop import Line
from sundog.net.packets import Connection, make_pair
from sundog.node.causes import Causes, tail
from sundog.node.rows import Environment, Job, Process
from sundog.node.zygotes import spawn_zygote
from sundog.plain import as_dict
from sundog.state.instructions import StartWorker, StopWorker
from sundog.wire.cause import Cause
from sundog.wire.control import ExitOk, MayExit, StopServing
from sundog.wire.row import Table
from sundog.wire.zygote import Exited, Fork, Forked, ForkFailed, Import

if TYPE_CHECKING:
    from sundog.node.program import Node
    from sundog.wire.dicts import SessionFacts, WorkerCommon, WorkerSpec

IDLE = "it was idle"  # why the node stops an idle worker; a reason from the worker itself takes precedence
_EXIT_ASK_S = 5.0
_STARTS_MAX = 3
_ZYGOTE_AGAIN_S = 0.5


class Workers:
    """All worker processes of this node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.by_pid: dict[int, bytes] = {}
        self.environments: dict[str, Environment] = {}
        self.ended_jobs: dict[bytes, Job] = {}  # ended jobs whose detached actors may need workers
        self.lingering: set[bytes] = set()  # idle workers whose objects other processes rely on
        self.zygote: Line | None = None
        self.zygote_pid = 0
        self._zygote_served = False
        self._failed_starts = 0
        self._unstarted: dict[bytes, tuple[bytes, str]] = {}  # worker -> its node and environment
        self.causes = Causes(f"{node.session['path']}/rings")
        self._common: tuple[tuple[bytes, bytes], SessionFacts, bytes] = (b"", b""), {}, b""
        self.table = Table()  # messages of zygotes: node/messages.py

    # ------------------------------------------------------------------ the zygote
    def use_zygote(self, zygote: tuple[int, int], lifeline_read: int) -> None:
        """Read what a zygote says; requests to it queue in its socket until it is up."""
        self.zygote_pid, fd = zygote
        self._lifeline_read = lifeline_read
        sock, shm_root = socket.socket(fileno=fd), self.node.session["shm_root"]
        with contextlib.suppress(OSError):  # if the zygote is gone already, the end of its socket reports it
            sock.send(shm_root.encode())
        self.zygote = Line(
            self.node.loop,
            Connection(sock, shm_root),
            self.heard_zygote,
            self._zygote_gone,
        )

    def zygote_of(self, node_id: bytes) -> Line | None:
        """Where a node's workers are forked; None while it cannot be."""
        if node_id == self.node.node_id:
            return self.zygote
        member = self.node.members.get(node_id)
        return member.zygote if member is not None else None

    def preload(self, message: Import) -> None:
        """Have every zygote load packages that workers will want."""
        for line in (self.zygote, *[each.zygote for each in self.node.members if each.is_alive]):
            if line is not None:
                line.send(message)

    def heard_zygote(self, message: tuple[object, ...], _fds: list[int]) -> None:
        """A zygote, this node's or a member's, says something."""
        self.table.handle(message)

    def fork_failed(self, message: ForkFailed) -> None:
        """A zygote could not fork a worker."""
        node_id, env_key = self._unstarted.pop(message.worker, (self.node.node_id, ""))
        process = self.node.processes.pop(message.worker, None)
        if process is not None:
            process.line.close()
        from sundog.system import process_limit  # loaded only when a fork fails

        self.node.failed_starts.say(f"{message.reason}. {process_limit.text()}")
        self.node.do(self.node.leases.worker_start_failed(node_id, env_key, self.node.now()))

    def _zygote_gone(self) -> None:
        """The zygote died: its children are ours now (we are a subreaper); start another."""
        if self.node.stopping:
            return
        self.node.log("the zygote is gone; starting another")
        self.node.learning.zygote_gone()
        self._failed_starts = 0 if self._zygote_served else self._failed_starts + 1
        if self._failed_starts >= _STARTS_MAX:
            log = "\n".join(tail(f"{self.node.session['path']}/logs/zygote.log")[-20:])
            self.node.stop(f"the zygote cannot start, so there can be no workers. The end of its log:\n{log}")
            return
        self._zygote_served = False
        self._replace_zygote()
        for worker_id, (node_id, env_key) in list(self._unstarted.items()):
            if node_id != self.node.node_id:
                continue
            del self._unstarted[worker_id]
            process = self.node.processes.pop(worker_id, None)
            if process is not None:
                process.line.close()
            self.node.do(self.node.leases.worker_start_failed(node_id, env_key, self.node.now()))
        self.reap()
        for pid in list(self.by_pid):
            if not os.path.exists(f"/proc/{pid}") and self._is_ours(pid):
                self.exited(pid, None)  # the zygote reaped the worker, and died before it reported the status

    def kill_zygote(self) -> None:
        """End the zygote; another one takes its place, and running workers continue."""
        if self.zygote is not None and self.zygote_pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.zygote_pid, signal.SIGKILL)

    def _is_ours(self, pid: int) -> bool:
        """Whether a worker is of the head's own zygote."""
        process = self.node.processes.get(self.by_pid[pid])
        return process is None or process.node_id == self.node.node_id

    def _replace_zygote(self) -> None:
        if self.node.stopping:
            return
        try:
            made = spawn_zygote(self.node.session, self.node.params["environ"], self._lifeline_read)
        except OSError as error:
            # Too few file descriptors, processes or memory: that may pass, and running work continues.
            self.node.log(f"a zygote cannot be started now: {error}")
            self.zygote = None
            self.node.loop.after(_ZYGOTE_AGAIN_S, self._replace_zygote)
        else:
            self.use_zygote(made, self._lifeline_read)

    # ------------------------------------------------------------------ starting
    def start(self, instruction: StartWorker) -> None:
        """Have a worker forked for an environment, now or when there are descriptors for it."""
        if not self.node.descriptors.holds_back(instruction):
            self.start_now(instruction)

    def job_of(self, environment: Environment | None) -> Job | None:
        """The job of an environment; it may have ended, if a detached actor of it lives on and needs workers."""
        if environment is None:
            return None
        return self.node.jobs.get(environment.job_id) or self.ended_jobs.get(environment.job_id)

    def job_ended(self, job: Job) -> None:
        """Keep what starting a worker needs, for as long as an environment of the job is kept."""
        self.ended_jobs[job.job_id] = job
        kept = {environment.job_id for environment in self.environments.values()}
        self.ended_jobs = {job_id: each for job_id, each in self.ended_jobs.items() if job_id in kept}

    def of_job(self, job_id: bytes) -> set[bytes]:
        """The workers of a program."""
        found = self.node.processes.values()
        return {each.process_id for each in found if each.kind == "worker" and each.job_id == job_id}

    def outliving(self, workers: set[bytes]) -> set[bytes]:
        """Of a program's workers those that continue when it ends: detached actors, and what these have started."""
        actors, processes = self.node.keeper.actors, self.node.processes
        started_by: dict[bytes, bytes] = {}
        kept = set()
        for worker in workers:
            row = actors.on_worker(worker)
            started_by[worker] = row.owner if row is not None else processes[worker].serves
            if row is not None and row.detached:
                kept.add(worker)
        found = kept
        while found:
            found = {worker for worker in workers - kept if started_by[worker] in kept}
            kept |= found
        return kept

    def start_now(self, instruction: StartWorker) -> None:
        """Have a worker forked for an environment."""
        node = self.node
        environment = self.environments.get(instruction.env_key)
        zygote = self.zygote_of(instruction.node_id)
        job = self.job_of(environment)
        if environment is None or job is None or zygote is None:
            node.do(node.leases.worker_start_failed(instruction.node_id, instruction.env_key, node.now()))
            return
        try:
            ours, theirs = make_pair()
        except OSError as error:
            node.log(f"a worker cannot be started now: {error}")
            node.do(node.leases.worker_start_failed(instruction.node_id, instruction.env_key, node.now()))
            return
        worker_id = random_id()
        base = f"{node.session['path']}/logs/worker-{worker_id.hex()}"
        spec: WorkerSpec = {
            "worker_id": worker_id,
            "runtime_env": environment.runtime_env,
            "prepared_env": environment.prepared,
            "out_path": base + ".out",
            "err_path": base + ".err",
        }
        process = Process(worker_id, "worker", None, job.job_id, env_key=instruction.env_key)  # type: ignore[arg-type]
        process.started_at, process.node_id = time.time(), instruction.node_id
        process.out_path, process.err_path = spec["out_path"], spec["err_path"]
        process.line = Line(
            node.loop,
            Connection(ours, node.session["shm_root"]),
            lambda message, fds: node.from_process(process, message, fds),
            lambda: None,  # the kernel reports a worker's end, with its status
        )
        node.processes[worker_id] = process
        self._unstarted[worker_id] = instruction.node_id, instruction.env_key
        common = self._common_of(job, instruction.node_id)
        node.learning.before_fork(zygote)
        zygote.send(Fork(worker_id, common, pickle.dumps(spec, 5)), (theirs.detach(),))
        node.learning.worker_starts()

    def _common_of(self, job: Job, node_id: bytes) -> bytes:
        """What the workers of a job on a node have in common, pickled once as long as it does not change."""
        session = self.node.members.facts_for(node_id)
        key, facts, packed = self._common
        if key != (job.job_id, node_id) or facts != session:
            common: WorkerCommon = {"session": session, "job": job.spec, "config": as_dict(self.node.config)}
            packed = pickle.dumps(common, 5)
            self._common = (job.job_id, node_id), {**session}, packed
        return packed

    def forked(self, message: Forked) -> None:
        """A zygote has forked a worker: this is its pid."""
        self._zygote_served = True
        node, worker_id, pid = self.node, message.worker, message.pid
        asked = self._unstarted.pop(worker_id, None)
        process = node.processes.get(worker_id)
        if process is None or asked is None:
            return
        process.pid = pid
        process.state = "idle"
        self.by_pid[pid] = worker_id
        node.profiles.forked(process)
        node.tenancy.forked(process)
        if node.pauses.triggers or node.pauses.captures:
            node.pauses.arm(process)
        node.logs.add(worker_id, pid, process.job_id, process.out_path, process.err_path)
        node.log_delivery.wake()
        node.do(node.leases.worker_started(worker_id, *asked, node.now()))

    # ------------------------------------------------------------------ ending
    def stop(self, instruction: StopWorker) -> None:
        """End a worker; an idle one that others rely on lingers until they do not."""
        process = self.node.processes.get(instruction.worker)
        if process is None:
            return
        if instruction.reason in ("idle", "retired", "released", ""):
            process.state = "stopping"
            self.lingering.add(instruction.worker)
            process.line.send(MayExit())
            self._check_later(instruction.worker)
            return
        self.kill(instruction.worker, instruction.reason)

    def _check_later(self, worker_id: bytes) -> None:
        def ask() -> None:
            process = self.node.processes.get(worker_id)
            if process is not None and worker_id in self.lingering:
                process.line.send(MayExit())
                self._check_later(worker_id)

        self.node.loop.after(_EXIT_ASK_S, ask)

    def exit_answer(self, process: Process, message: ExitOk) -> None:
        """A worker says whether another process needs its objects."""
        if message.free and process.process_id in self.lingering:
            self.lingering.discard(process.process_id)
            if not process.kill_reason:  # the worker may be leaving by itself, and have given a reason
                process.kill_reason, process.intended = IDLE, True
            process.line.send(StopServing("idle"))

    def kill(self, worker_id: bytes, reason: str, intended: bool = True) -> None:
        """End a worker now, with the children it may have."""
        process = self.node.processes.get(worker_id)
        if process is None:
            return
        if not process.kill_reason:
            process.kill_reason, process.intended, process.killed = reason, intended, True
        process.state = "stopping"
        if process.pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)

    # ------------------------------------------------------------------ burying
    def reap(self) -> None:
        """Collect children of our own: the zygote, and orphans that became ours."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self.by_pid:
                self.exited(pid, status)
            else:
                self.node.head.exited(pid, status) or self.node.scrapes.exited(pid, status)

    def lost(self, process: Process, cause: Cause) -> None:
        """A worker is gone with its node: no process tells its status any more."""
        self._unstarted.pop(process.process_id, None)
        self.node.processes.pop(process.process_id, None)
        if process.pid:
            self.by_pid.pop(process.pid, None)
            self._kill_group(process.pid)  # the kernel does this too, perhaps a moment later
        process.line.drain()
        process.line.close()
        self.lingering.discard(process.process_id)
        self.node.logs.finish(process.process_id)
        self.node.log_delivery.wake()
        self.node.process_died(process, cause)

    def _kill_group(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)

    def exited_told(self, message: Exited) -> None:
        """A zygote has reaped a worker."""
        self.exited(message.pid, message.status, message.peak_kib * 1024)

    def exited(self, pid: int, status: int | None, peak_bytes: int = 0) -> None:
        """A worker is gone: find the one cause and tell every process that has to know."""
        worker_id = self.by_pid.pop(pid, None)
        process = self.node.processes.pop(worker_id, None) if worker_id else None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)  # processes that user code started there and left running
        process.line.drain()
        process.line.close()
        self.lingering.discard(process.process_id)
        cause = self.node.memory.explained(self.causes.of(process, status, peak_bytes))
        if not cause.intended and not self.node.stopping:
            self.node.log(f"worker {process.process_id.hex()} (pid {pid}) died: {cause.text()}")
        self.node.logs.finish(process.process_id)
        self.node.log_delivery.wake()
        self.node.process_died(process, cause)
