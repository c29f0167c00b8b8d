"""What Ray tells of attempts, in our words."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from enum import IntEnum
from types import ModuleType
from typing import Any

import pytest

from sundog import events
from sundog.ray_engine import told


class TaskStatus(IntEnum):
    """Ray's numbers."""

    SUBMITTED_TO_WORKER = 5
    RUNNING = 8
    FINISHED = 11
    FAILED = 12


class ErrorType:
    """Ray's names of errors."""

    @staticmethod
    def Name(number: int) -> str:
        return {21: "NODE_DIED"}[number]


@dataclass
class TaskInfo:
    name: str = "square"
    type: int = 0


@dataclass
class ErrorInfo:
    error_type: int = 21
    error_message: str = "gone"


@dataclass
class StateUpdates:
    """When an attempt was in which state, and where."""

    state_ts_ns: dict[int, int]
    worker_id: bytes = b"w" * 28
    node_id: bytes = b"n" * 28
    worker_pid: int = 9
    error_info: ErrorInfo = field(default_factory=ErrorInfo)


@dataclass
class AttemptMessage:
    """Ray's message about an attempt."""

    state_updates: StateUpdates
    task_id: bytes = b"unique-1" + b"\xff" * 12 + bytes(4)
    attempt_number: int = 1
    job_id: bytes = bytes(4)
    task_info: TaskInfo = field(default_factory=TaskInfo)


@pytest.fixture(autouse=True)
def statuses(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("ray.core.generated.common_pb2")
    module.TaskStatus, module.ErrorType = TaskStatus, ErrorType
    for name in ("ray", "ray.core", "ray.core.generated"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "ray.core.generated.common_pb2", module)


def row(times: dict[int, int]) -> Any:
    return AttemptMessage(StateUpdates(times))


def test_an_attempt_that_failed_has_its_error_and_its_times() -> None:
    found = told.read(row({8: 11_000_000_000, 12: 12_000_000_000}))
    assert found is not None
    assert (found.unique, found.attempt, found.kind, found.name) == (b"unique-1", 1, events.TASK, "square")
    assert (found.start_s, found.end_s, found.error, found.message) == (11.0, 12.0, "NODE_DIED", "gone")
    assert found.facts["process"] == "77" * 8 and found.facts["node"] == "6e" * 28


def test_an_attempt_whose_worker_told_nothing_begins_when_it_was_sent() -> None:
    found = told.read(row({5: 10_000_000_000, 12: 12_000_000_000}))
    assert found is not None and (found.start_s, found.by_worker) == (10.0, False)


def test_an_attempt_that_finished_has_none() -> None:
    found = told.read(row({8: 11_000_000_000, 11: 12_000_000_000}))
    assert found is not None and found.error == "" and found.message == ""


def test_an_attempt_that_never_began_or_never_ended_is_none() -> None:
    assert told.read(row({12: 12_000_000_000})) is None
    assert told.read(row({8: 12_000_000_000})) is None
