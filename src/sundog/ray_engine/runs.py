"""What runs in this process of a Ray cluster now.

Owns the table of runs and the mark of the task in whose call the code runs; `shim.py` fills both. The parts that
record, send and pause read them. Runs in Ray's workers, on any thread.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Protocol

Own = tuple[tuple[str, object], ...]  # options of sundog that the shim carries out
Users = Callable[..., object]


class RunningShim(Protocol):
    """One attempt at a task or call (`shim.Execution`)."""

    kind: int
    name: str
    own: Own
    call: tuple[Users, tuple[object, ...], dict[str, object]]
    task: bytes
    attempt: int
    number: int  # of the name, in the ring
    start_s: float


running: ContextVar[bytes] = ContextVar("sundog_running", default=b"")
"""The task in whose call this code runs; empty outside of one."""

now_running: dict[int, RunningShim] = {}
"""All runs of this process, by their `id`."""
