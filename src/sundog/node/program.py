"""The node: grants leases, starts and buries workers, keeps actors, names and jobs.

::

    driver ─┐                        ┌─ Leases (which owner gets which worker)      state/leases.py
    driver ─┼─ messages ─► Node ─────┼─ Actors (life of every actor)        state/actors.py
    worker ─┘              │         └─ logs, requests, sweeps
                           └─ instructions of the machines ─► messages, forks, kills

Started by `init()` or `sundog start`; ends with its last driver (unless started to stay). One thread, one loop; pure
machines decide, this program carries events in and instructions out. With it end workers (by the kernel) and drivers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sundog import titles, trust
from sundog.config import Config
from sundog.net import sockets as socket
from sundog.net.loop import Line, Loop
from sundog.net.packets import FULL, Connection
from sundog.node import messages, retention, sessions
from sundog.node.actors import ActorKeeper
from sundog.node.chronicle import Chronicle
from sundog.node.deadlocks import Deadlocks
from sundog.node.descriptors import Descriptors
from sundog.node.failed_starts import FailedStarts
from sundog.node.heads import HeadKeeper
from sundog.node.learning import Learning
from sundog.node.log_delivery import LogDelivery
from sundog.node.logs import LogTails
from sundog.node.members import Members
from sundog.node.memory import MemoryKeeper
from sundog.node.own_folder import OwnFolder
from sundog.node.pauses import SessionPauses
from sundog.node.profiles import SessionProfiles
from sundog.node.records import Records
from sundog.node.remains import Remains
from sundog.node.requests import Requests
from sundog.node.rows import Environment, Job, Process
from sundog.node.scrapes import ScrapeKeeper
from sundog.node.stores import Stores
from sundog.node.tenancy import Tenancy
from sundog.node.workers import IDLE, Workers
from sundog.owner import fault_dumps
from sundog.plain import as_dict
from sundog.state.instructions import (
    Grant,
    GroupReady,
    GroupRemoved,
    Infeasible,
    Instruction,
    Reclaim,
    StartWorker,
    StopWorker,
)
from sundog.state.leases import Leases
from sundog.store import folders
from sundog.system import orphans
from sundog.wire import versions
from sundog.wire.cause import Cause
from sundog.wire.control import (
    Blocked,
    Bye,
    Died,
    Env,
    EnvFailed,
    FromNode,
    Goodbye,
    Hello,
    Imported,
    KillWorker,
    LaneOpened,
    LeaseGranted,
    Leaving,
    OpenLane,
    OpenPeer,
    PeerOpened,
    Refused,
    Release,
    ReturnLease,
    SetupFailed,
    Stale,
    Unblocked,
    WantLeases,
    Welcome,
)
from sundog.wire.row import Malformed
from sundog.wire.zygote import Import

if TYPE_CHECKING:
    from sundog.wire.dicts import NodeParams

_TICK_S = 0.1
_ACCEPT_AGAIN_S = 0.2
_IDLE_TICK_S = 1.0
_TITLE_S = 0.2  # the title is set later, so the first task does not wait for it
_PUBLISH_AGAIN_S = 1.0


class Node:
    """The node program's state and its dispatch of messages."""

    def __init__(self, params: NodeParams) -> None:
        self.session = params["session"]
        self.session["node_pid"] = os.getpid()
        self.node_id = bytes.fromhex(params["node_id"])
        self.session["node_id"] = self.node_id
        self.params = params
        self.config = Config(**params["config"])
        self.persistent: bool = params["persistent"]
        self.stopping = False
        self.started_at = time.time()
        self.loop = Loop()
        self.listener: socket.socket | None = None
        self.closed_to_others = False
        self.processes: dict[bytes, Process] = {}
        self.jobs: dict[bytes, Job] = {}
        cores = os.cpu_count() or 1
        self.leases = Leases(
            starting_max=self.config.starting_workers_max or 2 * cores,
            worker_max=self.config.max_worker_processes,
            idle_worker_s=self.config.idle_worker_s,
            keep=max(2, int(params["resources"].get("CPU", 1))),
        )
        self.leases.pack_until = self.config.scheduler_spread_threshold
        self.descriptors = Descriptors(self)
        self.failed_starts = FailedStarts(self)
        self.own_folder = OwnFolder(self)
        self.learning = Learning(self)
        self.workers = Workers(self)
        self.keeper = ActorKeeper(self)
        self.requests = Requests(self)
        self.records = Records(self)
        self.chronicle = Chronicle(self)
        self.remains = Remains(self)
        self.deadlocks = Deadlocks(self)
        self.pauses = SessionPauses(self)
        self.profiles = SessionProfiles(self)
        self.stores = Stores(self)
        self.members = Members(self)
        self.logs = LogTails()
        self.log_delivery = LogDelivery(self.logs, self.loop, self.now, self.jobs, self.processes)
        self.memory = MemoryKeeper(self)
        self.head = HeadKeeper(self)
        self.scrapes = ScrapeKeeper(self)
        self.tenancy = Tenancy(self)
        self.table = messages.table(self)
        self.workers.table = messages.from_zygote(self)
        self._ticking, self._next_job = False, 1
        # Drivers that will say what their workers import, and what else these load.
        self._announcing: dict[bytes, list[tuple[str, str]]] = {}

    def now(self) -> float:
        """The clock of the machines."""
        return time.monotonic()

    def log(self, text: str) -> None:
        """A line in node.log."""
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}", flush=True)

    # ------------------------------------------------------------------ start and end
    def run(self) -> None:
        """Serve until the session ends."""
        self.leases.add_node(self.node_id, self.params["resources"], self.params["labels"], self.now())
        self._watch_signals()
        fault_dumps.listen(self.session["path"])
        if self.params.get("driver_fd") is not None:
            self._connected(socket.socket(fileno=self.params["driver_fd"]), "driver")
        self._open_to_others()
        self.loop.after(0.5, lambda: sessions.sweep(self.session))
        retention.remove_in_turn(self.loop, self.session["path"], self.config.session_keep)
        self.loop.after(_IDLE_TICK_S, self._slow_tick)
        self.loop.after(_TITLE_S, lambda: titles.begin("node"))
        self.records.start()
        self.chronicle.start()
        self.records.observers.append(self.memory.admission.observed)
        self.memory.start()
        self.head.start()
        self.scrapes.start()
        self.loop.run()
        self._clean_up()

    def _watch_signals(self) -> None:
        read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: self.stop("SIGTERM"))

        def woken() -> None:
            with contextlib.suppress(BlockingIOError):
                os.read(read, 4096)
            self.workers.reap()

        self.loop.add(read, woken)

    def _open_to_others(self) -> None:
        """Listen, and say so; while the disk is full or read-only our own driver is served all the same."""
        try:
            if self.listener is None:
                self._listen()
            sessions.publish(self.session, self.params["resources"], persistent=self.persistent)
            self.closed_to_others = False
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                self.own_folder.make_again()
            elif self.persistent and error.errno not in FULL:
                raise  # `sundog start` waits for it
            if not self.closed_to_others:
                self.log(f"the session cannot be joined by others yet: {error}")
            self.closed_to_others = True
            self.loop.after(_PUBLISH_AGAIN_S, self._open_to_others)

    def reopen(self) -> None:
        """Listen anew: the socket that others know is gone with the session's folder."""
        if self.listener is not None:
            self.loop.remove(self.listener.fileno())
            self.listener.close()
            self.listener = None
        self._open_to_others()

    def _listen(self) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            sessions.bind(listener, self.session["path"])
        except OSError:
            listener.close()
            raise
        listener.listen(64)
        listener.setblocking(False)
        self.listener = listener
        self.loop.add(listener.fileno(), self._accept)

    def _accept(self) -> None:
        assert self.listener is not None
        try:
            sock = socket.accept(self.listener)
            try:
                trust.check_peer(sock)  # before any of its bytes are unpickled
            except OSError as error:
                sock.close()
                self.log(f"a connection is refused: {error}")
                return
            self._connected(sock)
        except (BlockingIOError, ConnectionError):
            pass  # the connecting process has gone
        except OSError as error:
            # No file descriptor is free. The client stays in the queue of the socket: do not spin on it.
            self.log(f"a connection cannot be accepted now: {error}")
            listener = self.listener.fileno()
            self.loop.remove(listener)
            self.loop.after(_ACCEPT_AGAIN_S, lambda: self.loop.add(listener, self._accept))

    def stop(self, reason: str) -> None:
        """End the session."""
        if not self.stopping:
            self.stopping = True
            self.log(f"stopping: {reason}")
            self.loop.stopped = True
            self.loop.after(0.0, lambda: None)

    def _clean_up(self) -> None:
        # First: if the node is killed during this, the zygote may be gone already.
        folders.withdraw(self.session["path"])
        self.head.stop()
        self.scrapes.stop()
        self.members.stop_all()
        for process in list(self.processes.values()):
            if process.kind == "worker":
                self.workers.kill(process.process_id, "the session ended")
        if self.jobs:  # without a driver there is no process to tell
            with contextlib.suppress(Exception):
                self.loop.stopped = False
                self.log_delivery.flush()
        orphans.kill_children(os.getpid())
        self.memory.stop()
        folders.remove_shared(self.session["shm_root"])
        self.stores.close()
        folders.remove_folders(self.session["path"])
        self.records.close()
        for process in list(self.processes.values()):
            process.line.close()

    # ------------------------------------------------------------------ time
    def wake_ticks(self) -> None:
        """A request waits: check soon whether requests starve."""
        if not self._ticking and self.leases.busy():
            self._ticking = True
            self.loop.after(_TICK_S, self._tick)

    def _tick(self) -> None:
        self._ticking = False
        self.do(self.leases.tick(self.now()))
        self.wake_ticks()

    def _slow_tick(self) -> None:
        self.do(self.leases.tick(self.now()))
        self.keeper.tick(self.now())
        self.workers.causes.oom.look(self.now())
        self.workers.causes.groups.look(self.workers.by_pid)
        self.stores.slow_tick()
        self.own_folder.look()
        self.remains.tick()
        self.loop.after(_IDLE_TICK_S, self._slow_tick)

    # ------------------------------------------------------------------ connections
    def _connected(self, sock: socket.socket, kind: str = "client") -> None:
        """A driver or a command connects; its first message says which process it is."""
        connection = Connection(sock, self.session["shm_root"])
        process = Process(b"", kind, None, b"")  # type: ignore[arg-type]
        process.line = Line(
            self.loop,
            connection,
            lambda message, fds: self.from_process(process, message, fds),
            lambda: self._driver_gone(process),
        )

    def hello(self, process: Process, message: Hello) -> None:
        """A driver introduces itself. One that its workers could not understand is turned away."""
        joins = message.versions is not None
        if joins:
            refused = versions.refusal(self.session["name"], versions.own(), message.versions, sys.executable)
            if refused is not None:
                self.refuse(process, message.pid, refused)
                return
        process.kind = process.state = "driver"
        process.process_id, process.pid = message.process_id, message.pid
        process.started_at, process.node_id = time.time(), self.node_id
        process.job_id = message.job_id or self._new_job_id()
        self._next_job = max(self._next_job, int.from_bytes(process.job_id, "little") + 1)
        spec, namespace = message.job, message.job.namespace or f"anonymous-{process.process_id.hex()}"
        spec.job_id, spec.namespace = process.job_id, namespace
        who = (process.job_id, process.process_id, process.pid)
        job = self.jobs[process.job_id] = Job(*who, namespace, message.entrypoint, spec, process.started_at)
        job.log_to_driver = message.log_to_driver
        self.processes[process.process_id] = process
        self.tenancy.came(job)
        self.requests.listings.job_began(job)
        if joins:
            facts, settings = self.members.facts_for(self.node_id), as_dict(self.config)
            process.line.send(Welcome(facts, process.job_id, namespace, settings))
        env_key = f"{process.job_id.hex()}:"
        self.learning.driver_came(message.loaded, list(message.job.interpreter.sys_path))
        self.environment(process, Env(env_key, {}, b""))
        if message.script and self.workers.zygote is not None:
            # Before the first workers are forked: otherwise each would import it and wait for the import.
            self.workers.zygote.send(Import([("cloudpickle", "")]))
        if self.learning.waits_for(message):
            self._announcing[process.process_id] = message.preload
        else:
            self._start_first(env_key, message.preload)

    def imported(self, process: Process, message: Imported) -> None:
        """A worker has imported modules, or a driver says what its first workers will import."""
        if process.kind != "driver":
            self.learning.imported(process, message)
        elif process.process_id in self._announcing:
            preload = self._announcing.pop(process.process_id)
            self.learning.announced(message)
            self._start_first(f"{process.job_id.hex()}:", preload)

    def _start_first(self, env_key: str, preload: list[tuple[str, str]]) -> None:
        self._prestart(env_key)
        if preload:
            self.workers.preload(Import(preload))

    def refuse(self, process: Process, pid: int | None, text: str) -> None:
        """Turn a driver away that cannot join; it closes the connection."""
        self.log(f"the program with pid {pid} cannot join: {text}")
        process.line.send(Refused(text))

    def _new_job_id(self) -> bytes:
        self._next_job += 1
        return (self._next_job - 1).to_bytes(4, "little")

    def _prestart(self, env_key: str) -> None:
        cores = os.cpu_count() or 1
        for _ in range(min(cores, int(self.params["resources"].get("CPU", 0)))):
            self.do(self.leases.prestart(self.node_id, env_key, self.now()))

    def environment(self, process: Process, message: Env) -> None:
        """A process announces an environment that it will ask leases for."""
        env_key = message.env_key
        self.learning.environment_came(message.runtime_env)
        if env_key not in self.workers.environments:
            environment = Environment(env_key, process.job_id, message.runtime_env, message.prepared)
            self.workers.environments[env_key] = environment
            self.chronicle.environment_changed(environment)

    def _driver_gone(self, process: Process) -> None:
        """A driver's socket closed: it left or it was killed. Its job ends with it."""
        if process.kind == "member":
            self.members.lost(process)
            return
        if process.process_id in self.processes:
            del self.processes[process.process_id]
            self._announcing.pop(process.process_id, None)
            job = self.jobs.pop(process.job_id, None)
            self.process_died(process, Cause(reason="its program ended", intended=True))
            if job is not None:
                self.requests.listings.job_ended(job)
                self._end_job(job)
        elif process.kind != "driver":
            return  # a command; but the command that started this node may be killed before its first message
        if not self.persistent and not self.jobs:
            self.stop("its last driver is gone")

    def _end_job(self, job: Job) -> None:
        self.tenancy.gone(job)
        for env_key, environment in list(self.workers.environments.items()):
            if environment.job_id == job.job_id and not self.keeper.uses(env_key):
                del self.workers.environments[env_key]
        self.workers.job_ended(job)
        workers = self.workers.of_job(job.job_id)
        for process_id in workers - self.workers.outliving(workers):
            self.workers.kill(process_id, "its job ended")

    def process_died(self, process: Process, cause: Cause) -> None:
        """Tell the machines, and every process that dealt with a process, that it is gone."""
        now = self.now()
        self.records.process_died(process.process_id)
        self.remains.add(process, failed=not cause.intended)
        if process.kind == "worker":
            self.do(self.leases.worker_died(process.process_id, now))
            self.keeper.worker_died(process.process_id, cause, now)
        self.do(self.leases.owner_died(process.process_id, now))
        if not self.stopping:
            sessions.remove_segments(self.session, process.process_id)
            self.stores.process_died(process.process_id)
        self.keeper.owner_died(process.process_id, now)
        self.deadlocks.process_died(process.process_id)
        self.requests.process_died(process.process_id)
        self.requests.listings.process_died(process, cause)
        self.pauses.process_died(process)
        for peer_id in process.peers:
            peer = self.processes.get(peer_id)
            if peer is not None:
                peer.peers.discard(process.process_id)
                peer.line.send(Died(process.process_id, cause))
        self.stores.tell_unsent(process.process_id)
        self.memory.died(process, cause)

    # ------------------------------------------------------------------ messages (the table: messages.py)
    def from_process(self, process: Process, message: tuple[object, ...], fds: list[int]) -> None:
        """Handle one message of a driver, worker or command."""
        try:
            if self.table.handle(message, process, fds=fds):
                return
            self.log(f"unknown message {message[0]!r}")
        except Malformed as error:
            self.log(str(error))
            if message[0] == Hello.kind:
                other = versions.refusal(self.session["name"], versions.own(), None, sys.executable)
                self.refuse(process, None, other or str(error))
        for fd in fds:
            os.close(fd)

    def want(self, process: Process, message: WantLeases) -> None:
        """An owner could use this many more leases, for these functions among others."""
        key, spec, count = message.key, message.spec, message.leases
        environment = self.workers.environments.get(spec.env_key)
        if environment is not None and environment.error and count:
            process.line.send(EnvFailed(spec.env_key, environment.error, environment.facts))
            return
        self.memory.wanted(process.process_id, key, message.functions)
        tenant = self.tenancy.of(process.job_id)
        last_grant = message.last_grant
        self.do(self.leases.want(process.process_id, key, spec, count, self.now(), tenant, last_grant))
        self.wake_ticks()

    def release(self, _process: Process, message: Release) -> None:
        """An owner gives a lease back, perhaps of a worker that runs nothing more."""
        lease = message.lease
        self.memory.caps.released(lease)
        if not message.reusable:
            self.leases.retire_holder(lease)  # the worker ends: an actor placed there would end with it
        self.do(self.leases.release(lease, self.now()))

    def blocked(self, process: Process, _message: Blocked) -> None:
        """A worker waits in a get. An actor that is up keeps its CPU; the arguments of a constructor may need it."""
        row = self.keeper.actors.on_worker(process.process_id)
        keeps = row is not None and row.state == "ALIVE"
        self.do(self.leases.blocked(process.process_id, self.now(), keeps_cpu=keeps))

    def unblocked(self, process: Process, _message: Unblocked) -> None:
        """A worker continues."""
        self.do(self.leases.unblocked(process.process_id, self.now()))

    def open_lane(self, process: Process, message: OpenLane, fd: int) -> None:
        """An owner opens a lane to a worker."""
        self.forward(process, message.worker, LaneOpened(process.process_id), fd)

    def open_peer(self, process: Process, message: OpenPeer, fd: int) -> None:
        """A process opens a channel to another."""
        self.forward(process, message.process, PeerOpened(process.process_id), fd)

    def forward(self, process: Process, to: bytes, message: FromNode, fd: int) -> None:
        """Pass a descriptor on, and remember that the two have to know of each other's death."""
        target = self.processes.get(to)
        if target is None:
            os.close(fd)
            process.line.send(Died(to, Cause()))
            return
        target.peers.add(process.process_id)
        process.peers.add(to)
        target.line.send(message, (fd,))

    def kill_worker(self, _process: Process, message: KillWorker) -> None:
        """An owner cancels a task with force."""
        self.workers.kill(message.worker, message.reason)

    def leaving(self, process: Process, message: Leaving) -> None:
        """A worker ends by itself; not intended: by SIGTERM, or with an exit code that tells of a failure."""
        reason, intended = message.reason, message.intended
        told_to_stop = process.kill_reason == IDLE and reason == "idle"
        if (process.kill_reason in ("", IDLE) and not told_to_stop) or not (intended or process.killed):
            process.kill_reason, process.intended = reason, intended

    def stale(self, process: Process, message: Stale) -> None:
        """A worker noticed that modules it had imported were edited."""
        worker = f"worker {process.process_id.hex()} (pid {process.pid})"
        self.log(f"{worker} is retired: {message.names} changed on disk")
        self.do(self.leases.retire_worker(process.process_id))

    def setup_failed(self, process: Process, message: SetupFailed) -> None:
        """A worker could not set up its runtime environment."""
        self.requests.environment_failed(process.env_key, message.text, message.facts)

    def bye(self, process: Process, _message: Bye) -> None:
        """A driver leaves in good order: it gets the last of what its workers printed."""
        workers = self.workers.of_job(process.job_id)
        for process_id in workers - self.workers.outliving(workers):
            self.logs.finish(process_id)  # the worker ends with its job: an unfinished last line is complete
        self.log_delivery.flush()
        self.memory.deaths.summarise()
        process.line.send(Goodbye())  # the driver closes its end when it has read everything

    # ------------------------------------------------------------------ instructions
    def do(self, instructions: Iterable[Instruction]) -> None:
        """Carry out what the lease machine says."""
        for step in instructions:
            if isinstance(step, Grant):
                self._grant(step)
            elif isinstance(step, StartWorker):
                self.workers.start(step)
            elif isinstance(step, StopWorker):
                self.workers.stop(step)
            elif isinstance(step, Reclaim):
                owner = self.processes.get(step.owner)
                if owner is not None:
                    owner.line.send(ReturnLease(step.lease))
            elif isinstance(step, Infeasible):
                self.requests.infeasible(step)
            elif isinstance(step, (GroupReady, GroupRemoved)):
                self.requests.groups.changed(step.pg_id)
                self.chronicle.group_changed(step.pg_id)

    def _grant(self, step: Grant) -> None:
        worker = self.processes.get(step.worker)
        if worker is None:
            return
        spec = self.leases.spec_of(step.lease)
        self.memory.caps.granted(step.lease, step.worker, int(spec.memory_cap) if spec is not None else 0)
        if len(step.owner) != 8:
            worker.state = "actor"
            self.keeper.granted(step)
            return
        owner = self.processes.get(step.owner)
        worker.state, worker.served, worker.serves = "leased", True, step.owner
        if owner is not None:
            owner.peers.add(step.worker)
            worker.peers.add(step.owner)
            assert isinstance(step.key, int)
            told = step.lease, step.worker, worker.pid, step.accelerators, step.number
            owner.line.send(LeaseGranted(step.key, *told))


def run(params: NodeParams, zygote: tuple[int, int], lifeline_read: int, lifeline_write: int) -> None:
    """Run a node to its end. `lifeline_write` stays open until then: its closing ends the workers."""
    with contextlib.suppress(OSError):
        os.setsid()
    node = Node(params)
    node.workers.use_zygote(zygote, lifeline_read)
    node.run()
    os.close(lifeline_write)
