"""Shapes of what Ray hands over: of each thing of Ray's the part that this engine reads or calls.

Ray has no types of its own here. Owns these shapes alone; only type checkers import this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol


class RaysId(Protocol):
    """An id of Ray's."""

    def binary(self) -> bytes: ...

    def hex(self) -> str: ...


class RaysCore(Protocol):
    """The core of a process in its cluster."""

    def get_worker_id(self) -> RaysId: ...

    def get_current_task_id(self) -> RaysId: ...

    def get_current_task_attempt_number(self) -> int: ...


class RaysWorker(Protocol):
    """A process in its cluster."""

    core_worker: RaysCore
    current_job_id: RaysId
    current_node_id: RaysId


class RaysContext(Protocol):
    """The runtime context."""

    worker: RaysWorker

    def is_canceled(self) -> bool: ...


# ---------------------------------------------------------------------- rows that Ray tells
class RaysAddress(Protocol):
    """Where a process is."""

    node_id: bytes
    worker_id: bytes
    ip_address: str


class RaysDeathCause(Protocol):
    """Why an actor is dead: one of several messages."""

    def WhichOneof(self, group: str) -> str | None: ...


class RaysActor(Protocol):
    """An actor, in a row of Ray's table."""

    state: int
    actor_id: bytes
    class_name: str
    name: str
    ray_namespace: str
    address: RaysAddress
    pid: int
    job_id: bytes
    is_detached: bool
    required_resources: Mapping[str, float]
    serialized_runtime_env: str
    death_cause: RaysDeathCause
    num_restarts: int
    num_restarts_due_to_lineage_reconstruction: int
    num_restarts_due_to_node_preemption: int
    placement_group_id: bytes
    repr_name: str
    call_site: str


class RaysWorkerRow(Protocol):
    """A worker, in a row of Ray's table."""

    worker_address: RaysAddress
    is_alive: bool
    worker_type: int
    exit_type: int
    exit_detail: str
    pid: int


class RaysTaskInfo(Protocol):
    """What a task is."""

    type: int
    name: str


class RaysErrorInfo(Protocol):
    """How an attempt failed."""

    error_type: int
    error_message: str


class RaysStateUpdates(Protocol):
    """What became of an attempt: when it reached each state, where, and its error."""

    state_ts_ns: Mapping[int, int]
    error_info: RaysErrorInfo
    worker_id: bytes
    node_id: bytes
    worker_pid: int


class RaysTaskEvent(Protocol):
    """An attempt at a task, in a row of Ray's events."""

    task_id: bytes
    job_id: bytes
    attempt_number: int
    task_info: RaysTaskInfo
    state_updates: RaysStateUpdates


# ---------------------------------------------------------------------- the cluster as the autoscaler sees it
class RaysBundle(Protocol):
    """A demand, and how many are like it."""

    bundle: Mapping[str, float]
    count: int


class RaysDemand(Protocol):
    """Demands that belong together."""

    bundles_by_count: Iterable[RaysBundle]


class RaysDemands(Protocol):
    """What waits for resources."""

    ray_task_actor_demand: Iterable[RaysDemand]
    placement_group_demand: Iterable[RaysDemand]


class RaysLaunch(Protocol):
    """Nodes that are being started, or could not be."""

    ray_node_type_name: str
    count: int
    details: str | None


class RaysNode(Protocol):
    """A node of the cluster."""

    node_id: str
    node_status: str | None
    ray_node_type_name: str

    def total_resources(self) -> dict[str, float]: ...

    def available_resources(self) -> dict[str, float]: ...


class RaysPendingNode(Protocol):
    """A node that is being started."""

    ray_node_type_name: str


class RaysClusterStatus(Protocol):
    """What a cluster has and what waits there."""

    resource_demands: RaysDemands
    pending_launches: Iterable[RaysLaunch]
    failed_launches: Iterable[RaysLaunch]
    active_nodes: Iterable[RaysNode]
    idle_nodes: Iterable[RaysNode]
    pending_nodes: Iterable[RaysPendingNode]
