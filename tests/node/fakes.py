"""Plain fakes for parts of a node: what a part needs of the node, and notes of what it did to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sundog.config import Config
from sundog.machine import Reading
from sundog.node.causes import Causes


class FakeLoop:
    """Timers that the test fires, descriptors that it looks at."""

    def __init__(self) -> None:
        self.timers: list[Callable[[], None]] = []
        self.delays: list[float] = []
        self.watched: dict[int, Callable[[], None]] = {}

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.timers.append(call)
        self.delays.append(seconds)

    def add(self, fd: int, call: Callable[[], None]) -> None:
        self.watched[fd] = call

    def remove(self, fd: int) -> None:
        self.watched.pop(fd, None)

    def fire(self) -> None:
        timers, self.timers = self.timers, []
        for call in timers:
            call()


class FakeLine:
    """A connection that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, message: Any, _fds: tuple[int, ...] = ()) -> None:
        self.sent.append(message)


class FakeProcess:
    """A process that is connected, as the node knows it."""

    def __init__(
        self,
        process_id: bytes = b"process1",
        *,
        kind: str = "driver",
        pid: int = 0,
        job_id: bytes = b"job1",
        env_key: str = "",
        state: str = "leased",
    ) -> None:
        self.process_id, self.kind, self.pid, self.job_id = process_id, kind, pid, job_id
        self.env_key, self.state, self.node_id = env_key, state, b"node"
        self.kill_reason, self.intended = "", False
        self.line = FakeLine()

    @property
    def sent(self) -> list[Any]:
        """What the node has sent to the process."""
        return self.line.sent


class FakeJob:
    """A driver's program."""

    def __init__(self, driver: bytes = b"process1", *, pid: int = 0, log_to_driver: bool = True) -> None:
        self.driver, self.pid, self.log_to_driver = driver, pid, log_to_driver
        self.entrypoint = "train.py"


class FakeMonitor:
    """A limit of nine tenths."""

    def limit(self, total_bytes: int) -> int:
        return total_bytes * 9 // 10


class FakeMemory:
    """Memory of processes as the test says, and which were ended for it."""

    def __init__(self) -> None:
        self.own: dict[int, int] = {}
        self.reading = Reading(8_000_000_000, 10_000_000_000, "this machine")
        self.monitor = FakeMonitor()
        self.killed: list[tuple[bytes, str, dict[str, Any]]] = []

    def own_bytes(self, pid: int) -> int:
        return self.own.get(pid, 0)

    def kill(self, worker: bytes, reason: str, facts: dict[str, Any]) -> None:
        self.killed.append((worker, reason, facts))


class FakeLeases:
    """Starts of workers that were put off."""

    def __init__(self) -> None:
        self.delayed: list[tuple[bytes, str, int]] = []

    def delay_starts(self, node_id: bytes, env_key: str, failures: int, _now: float) -> None:
        self.delayed.append((node_id, env_key, failures))


class FakeWorkers:
    """Workers by their pids."""

    zygote_pid = 0

    def __init__(self) -> None:
        self.by_pid: dict[int, bytes] = {}
        self.zygote: FakeLine | None = None
        self.causes = Causes("/nowhere")


class FakeNode:
    """A node without its parts; its clock is `at`."""

    node_id = b"node"
    stopping = False

    def __init__(self, config: Config | None = None, shm_root: str = "/nowhere") -> None:
        self.config = config or Config()
        self.session: dict[str, Any] = {"shm_root": shm_root, "path": "/nowhere", "name": "s1"}
        self.params: dict[str, Any] = {"environ": {}}
        self.loop, self.memory, self.leases, self.workers = (
            FakeLoop(),
            FakeMemory(),
            FakeLeases(),
            FakeWorkers(),
        )
        self.processes: dict[bytes, FakeProcess] = {}
        self.jobs: dict[bytes, FakeJob] = {}
        self.lines: list[str] = []
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def log(self, text: str) -> None:
        self.lines.append(text)

    def join(self, process: FakeProcess, job: FakeJob | None = None) -> FakeProcess:
        """A process is connected; as the driver of a job, if one is given."""
        self.processes[process.process_id] = process
        if job is not None:
            self.jobs[process.job_id] = job
        return process
