"""The columns of every kind of row, under their public names.

Pure: dataclasses and their metadata. A column marked `detail` is filled in only when details are
asked for; only `filterable` ones may stand in a filter.
"""

# ruff: noqa: RUF009 (a column is a dataclass field, made anew by each call)
from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any

from sundog.plain import JsonObject


def column(*, filterable: bool = True, shown: Callable[[Any], object] | None = None) -> Any:
    """A column that is always there; `shown` makes its value fit for people."""
    return field(default=None, metadata={"detail": False, "filterable": filterable, "format_fn": shown})


def detail_column(*, filterable: bool = False, shown: Callable[[Any], object] | None = None) -> Any:
    """A column that is there only with `detail=True`."""
    return field(default=None, metadata={"detail": True, "filterable": filterable, "format_fn": shown})


def shown_time(ms: float) -> str:
    """A moment, given in milliseconds since 1970, in local time; "" if there is none."""
    return str(datetime.fromtimestamp(ms / 1000)) if ms > 0 else ""


def shown_size(size_bytes: float) -> str:
    """A number of bytes in a unit that suits it.

    >>> shown_size(1536)
    '1.500 KiB'
    """
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.3f} {name}"
    return f"{size_bytes:.3f} B"


def shown_duration(milliseconds: float) -> str:
    """How long something took.

    >>> shown_duration(1500)
    '0:00:01.500000'
    """
    return str(timedelta(milliseconds=milliseconds))


def _shown_resources(resources: dict[str, float]) -> dict[str, str | float]:
    return {name: shown_size(each) if "memory" in name else each for name, each in resources.items()}


def _shown_events(events: list[JsonObject]) -> list[JsonObject]:
    return [dict(event, created_ms=shown_time(event["created_ms"])) for event in events]


@dataclass
class StateSchema:
    """A row. Columns can be read as attributes and as items."""

    @classmethod
    def list_columns(cls, detail: bool = True) -> list[str]:
        """Name the columns, in order."""
        return [f.name for f in fields(cls) if detail or not f.metadata.get("detail")]

    @classmethod
    def columns(cls) -> set[str]:
        """Name all columns."""
        return set(cls.list_columns(detail=True))

    @classmethod
    def base_columns(cls) -> set[str]:
        """Name the columns that are always there."""
        return set(cls.list_columns(detail=False))

    @classmethod
    def filterable_columns(cls) -> set[str]:
        """Name the columns that may stand in a filter."""
        return {f.name for f in fields(cls) if f.metadata.get("filterable")}

    @classmethod
    def detail_columns(cls) -> set[str]:
        """Name the columns that are there with `detail=True`: all."""
        return set(cls.list_columns(detail=True))

    @classmethod
    def humanify(cls, state: dict[str, object]) -> dict[str, object]:
        """The same row with times and sizes fit for people."""
        for each in fields(cls):
            shown = each.metadata.get("format_fn")
            if shown is not None and state.get(each.name) is not None:
                state[each.name] = shown(state[each.name])
        return state

    def asdict(self) -> JsonObject:
        """Give the row as a dict."""
        return asdict(self)

    def __getitem__(self, key: str) -> Any:
        if key not in self.columns():
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: object) -> None:
        setattr(self, key, value)

    def get(self, key: str, default: object = None) -> Any:
        """Give a column, or `default` when there is none of that name."""
        return getattr(self, key, default)


@dataclass
class ActorState(StateSchema):
    """An actor, alive or not."""

    actor_id: str = column()
    class_name: str = column()
    state: str = column()
    job_id: str = column()
    name: str | None = column()
    node_id: str | None = column()
    pid: int | None = column()
    ray_namespace: str | None = column()
    serialized_runtime_env: str | None = detail_column()
    required_resources: dict[str, float] | None = detail_column()
    death_cause: dict[str, object] | None = detail_column()
    is_detached: bool | None = detail_column()
    placement_group_id: str | None = detail_column(filterable=True)
    repr_name: str | None = detail_column(filterable=True)
    num_restarts: int | None = detail_column()
    num_restarts_due_to_lineage_reconstruction: int | None = detail_column()
    num_restarts_due_to_node_preemption: int | None = detail_column()
    call_site: str | None = detail_column()
    label_selector: dict[str, str] | None = detail_column()
    fallback_strategy: dict[str, object] | None = detail_column()


@dataclass
class PlacementGroupState(StateSchema):
    """A placement group."""

    placement_group_id: str = column()
    name: str = column()
    creator_job_id: str = column()
    state: str = column()
    bundles: list[dict[str, object]] | None = detail_column()
    is_detached: bool | None = detail_column(filterable=True)
    stats: dict[str, object] | None = detail_column()
    topology_strategy: dict[str, str] | None = detail_column()
    topology_assignments: dict[str, str] | None = detail_column()


@dataclass
class NodeState(StateSchema):
    """A machine of the session."""

    node_id: str = column()
    node_ip: str = column()
    is_head_node: bool = column()
    state: str = column()
    state_message: str | None = column(filterable=False)
    node_name: str = column()
    resources_total: dict[str, float] = column(filterable=False, shown=_shown_resources)
    labels: dict[str, str] = column(filterable=False)
    start_time_ms: int | None = detail_column(shown=shown_time)
    end_time_ms: int | None = detail_column(shown=shown_time)


@dataclass
class WorkerState(StateSchema):
    """A process: a driver or a worker."""

    worker_id: str = column()
    is_alive: bool = column()
    worker_type: str = column()
    exit_type: str | None = column()
    node_id: str = column()
    ip: str = column()
    pid: int = column()
    exit_detail: str | None = detail_column()
    worker_launch_time_ms: int | None = detail_column(shown=shown_time)
    worker_launched_time_ms: int | None = detail_column(shown=shown_time)
    start_time_ms: int | None = detail_column(shown=shown_time)
    end_time_ms: int | None = detail_column(shown=shown_time)
    debugger_port: int | None = detail_column(filterable=True)
    num_paused_threads: int | None = detail_column(filterable=True)


@dataclass
class TaskState(StateSchema):
    """One attempt of a task."""

    task_id: str = column()
    attempt_number: int = column()
    name: str = column()
    state: str = column()
    job_id: str = column()
    actor_id: str | None = column()
    type: str = column()
    func_or_class_name: str = column()
    parent_task_id: str = column()
    node_id: str | None = column()
    worker_id: str | None = column()
    worker_pid: int | None = column()
    error_type: str | None = column()
    language: str | None = detail_column(filterable=True)
    required_resources: dict[str, float] | None = detail_column()
    runtime_env_info: dict[str, object] | None = detail_column()
    placement_group_id: str | None = detail_column(filterable=True)
    events: list[JsonObject] | None = detail_column(shown=_shown_events)
    profiling_data: dict[str, object] | None = detail_column()
    creation_time_ms: int | None = detail_column(shown=shown_time)
    start_time_ms: int | None = detail_column(shown=shown_time)
    end_time_ms: int | None = detail_column(shown=shown_time)
    task_log_info: dict[str, object] | None = detail_column()
    error_message: str | None = detail_column()
    is_debugger_paused: bool | None = detail_column(filterable=True)
    call_site: str | None = detail_column()
    label_selector: dict[str, str] | None = detail_column()
    fallback_strategy: dict[str, object] | None = detail_column()
    # Sundog's own: what the attempt used; bytes of memory of its own, without shared segments.
    cpu_s: float | None = detail_column()
    peak_memory: int | None = detail_column()
    # Packed arguments and results, from a kilobyte on; seconds in get() and wait().
    bytes_in: int | None = detail_column()
    bytes_out: int | None = detail_column()
    blocked_s: float | None = detail_column()
    # Of one that runs: the get() or wait() in which it is, since when, for the result of which task, at which line.
    blocked_in: str | None = detail_column(filterable=True)
    blocked_since_ms: int | None = detail_column(shown=shown_time)
    blocked_on: str | None = detail_column()
    blocked_at: str | None = detail_column()


@dataclass
class ObjectState(StateSchema):
    """One process's reference to an object."""

    object_id: str = column()
    object_size: int = column(shown=shown_size)
    task_status: str = column()
    attempt_number: int = column()
    reference_type: str = column()
    call_site: str = column()
    type: str = column()
    pid: int = column()
    ip: str = column()


@dataclass
class JobState(StateSchema):
    """A program that uses the session, submitted or connected by itself."""

    type: str = column()
    job_id: str | None = column()
    submission_id: str | None = column()
    driver_info: dict[str, object] | None = column(filterable=False)
    status: str = column()
    entrypoint: str = column(filterable=False)
    message: str | None = column(filterable=False)
    error_type: str | None = column(filterable=False)
    start_time: int | None = detail_column()
    end_time: int | None = detail_column()
    metadata: dict[str, str] | None = detail_column()
    runtime_env: dict[str, object] | None = detail_column()
    driver_agent_http_address: str | None = detail_column()
    driver_node_id: str | None = detail_column()
    driver_exit_code: int | None = detail_column()


@dataclass
class RuntimeEnvState(StateSchema):
    """A runtime environment."""

    runtime_env: JsonObject = column()
    success: bool = column()
    creation_time_ms: float | None = column(filterable=False, shown=shown_duration)
    node_id: str = column()
    ref_cnt: int | None = detail_column()
    error: str | None = detail_column(filterable=True)


@dataclass
class ClusterEventState(StateSchema):
    """Something that happened to the session as a whole."""

    severity: str = column()
    time: str = column(filterable=False)
    source_type: str = column()
    message: str = column(filterable=False)
    event_id: str = column()
    custom_fields: dict[str, object] | None = detail_column()


# The kinds of row by the name they are asked for, with the column that identifies a row.
KINDS: dict[str, tuple[type[StateSchema], str]] = {
    "actors": (ActorState, "actor_id"),
    "jobs": (JobState, "job_id"),
    "nodes": (NodeState, "node_id"),
    "objects": (ObjectState, "object_id"),
    "placement_groups": (PlacementGroupState, "placement_group_id"),
    "runtime_envs": (RuntimeEnvState, "runtime_env"),
    "tasks": (TaskState, "task_id"),
    "workers": (WorkerState, "worker_id"),
}
