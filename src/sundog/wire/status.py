"""The answer to `Status`: what a session has, runs and waits for, as rows of plain values.

Owns the names and types of the fields; `node/requests.py` fills them. Import it for type checkers alone. Pure.
"""

from __future__ import annotations

from typing import TypedDict


class PendingRow(TypedDict):
    """Requests of one shape that wait for resources."""

    shape: dict[str, float]
    count: int
    waited_s: float
    why: str
    infeasible: bool
    owner: str
    depth: int
    kind: int


class NodeRow(TypedDict):
    """One node: what it has, and what is free of it."""

    node_id: str
    is_head_node: bool
    state: str
    why: str
    pid: int
    total: dict[str, float]
    available: dict[str, float]
    labels: dict[str, str]


class JobHold(TypedDict, total=False):
    """How a job is held to its limit of memory; empty for one without a limit."""

    limit_bytes: int
    workers_ended: int
    group: str
    no_group: str


class JobFigures(TypedDict):
    """What one job has, may have and waits for. A limit of 0 is none."""

    tenant: str
    weight: float
    cpus: float
    cpu_limit: float
    leases: int
    waiting: int
    memory: int
    memory_limit: float
    memory_reserved: float
    object_store: int
    object_store_limit: int
    held_by: JobHold


class DeadActorRow(TypedDict):
    """An actor that died."""

    actor_id: str
    class_name: str
    name: str
    ago_s: float
    why: str


class DriverRow(TypedDict):
    """A program that joined the session."""

    pid: int
    job_id: str
    entrypoint: str


class ResourceFigures(TypedDict):
    """Amounts by the name of the resource."""

    total: dict[str, float]
    available: dict[str, float]


class LearnedFigures(TypedDict, total=False):
    """Which packages new workers find loaded."""

    packages: list[str]
    seconds: float
    bytes: int
    refused: dict[str, str]
    why_not: str
    due: list[str]


class MemoryDecision(TypedDict):
    """Whether a task was let in, and why."""

    seconds_ago: float
    function: str
    admitted: bool
    why: str


class MemoryFigures(TypedDict, total=False):
    """Memory of the machine, and what was decided for its sake."""

    used_bytes: int
    total_bytes: int
    limit_bytes: int
    where: str
    learnt: object
    decisions: list[MemoryDecision]
    ended_for_memory: int
    ended_otherwise: int


class SessionStatus(TypedDict, total=False):
    """The whole answer. A session on another engine leaves out what it does not know."""

    node: str
    session: str
    path: str
    pid: int
    zygote_pid: int
    uptime_s: float
    resources: ResourceFigures
    workers: dict[str, int]
    drivers: list[DriverRow]
    nodes: list[NodeRow]
    jobs: list[JobFigures]
    actors: dict[str, int]
    pending: list[PendingRow]
    leases: int
    memory: MemoryFigures
    store: dict[str, int]
    learned: LearnedFigures
    dead_actors: list[DeadActorRow]
