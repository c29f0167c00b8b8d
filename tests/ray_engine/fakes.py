"""Plain fakes of a process on a Ray cluster: who it is, what it runs, and refs as Ray gives them."""

from __future__ import annotations

from typing import Any

from sundog.ray_engine.process import Identity
from sundog.ray_engine.shim import Execution


class FakeIdentity(Identity):
    """The ids of a process, as the test says."""

    def __init__(
        self,
        process_id: bytes = b"driver-1",
        *,
        node: str = "ab" * 28,
        session_dir: str = "",
        role: str = "driver",
        pid: int = 1,
    ) -> None:
        self.process_id, self.job, self.node = process_id, "01000000", node
        self.session_dir, self.role, self.pid = session_dir, role, pid


class FakeProcess:
    """A process with a folder, which records nothing by itself."""

    def __init__(self, folder: str, identity: Identity | None = None) -> None:
        self.folder, self.identity = folder, identity or FakeIdentity()


class FakeExecution(Execution):
    """An attempt at a task or call that nobody has begun."""

    def __init__(self, kind: int, name: str, task: bytes, call: Any = None) -> None:
        self.kind, self.name, self.task, self.call = kind, name, task, call
        self.own, self.number, self.attempt, self.start_s = (), 1, 0, 1.0


class FakeTaskID:
    """Ray's id of a task."""

    def __init__(self, task: bytes) -> None:
        self._task = task

    def binary(self) -> bytes:
        return self._task


class FakeRef:
    """Ray's ref of a task's result."""

    def __init__(self, task: bytes) -> None:
        self._task = task

    def task_id(self) -> FakeTaskID:
        return FakeTaskID(self._task)
