"""Names that programs import beside the functions of the state API: rows, options, summaries, constants.

Owns the options' checks and the summaries as objects; the rows are in `schema.py`, the counting in `summary.py`, the
tree in `lineage.py`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, unique
from typing import TYPE_CHECKING, Any

from sundog.util.state import summary as counting
from sundog.util.state.api import DEFAULT_LIMIT, DEFAULT_RPC_TIMEOUT, RAY_MAX_LIMIT_FROM_API_SERVER
from sundog.util.state.exception import RayStateApiException
from sundog.util.state.lineage import DRIVER_TASK_ID_PREFIX, Link, NestedTaskSummary, tree_of
from sundog.util.state.schema import (
    KINDS,
    ActorState,
    ClusterEventState,
    JobState,
    NodeState,
    ObjectState,
    PlacementGroupState,
    RuntimeEnvState,
    StateSchema,
    TaskState,
    WorkerState,
    column,
    detail_column,
    shown_duration,
    shown_size,
    shown_time,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sundog.plain import JsonObject

__all__ = [
    "AVAILABLE_STATES",
    "DEFAULT_DOWNLOAD_FILENAME",
    "DEFAULT_LIMIT",
    "DEFAULT_LOG_LIMIT",
    "DEFAULT_RPC_TIMEOUT",
    "DRIVER_TASK_ID_PREFIX",
    "RAY_MAX_LIMIT_FROM_API_SERVER",
    "RAY_MAX_LIMIT_FROM_DATA_SOURCE",
    "ActorState",
    "ActorSummaries",
    "ActorSummaryPerClass",
    "ClusterEventState",
    "GetApiOptions",
    "GetLogOptions",
    "Humanify",
    "JobState",
    "Link",
    "ListApiOptions",
    "NestedTaskSummary",
    "NodeState",
    "ObjectState",
    "ObjectSummaries",
    "ObjectSummaryPerKey",
    "PlacementGroupState",
    "PredicateType",
    "RuntimeEnvState",
    "StateResource",
    "StateSchema",
    "SummaryApiOptions",
    "SummaryResource",
    "SupportedFilterType",
    "TaskState",
    "TaskSummaries",
    "TaskSummaryPerFuncOrClassName",
    "WorkerState",
    "dict_to_state",
    "filter_fields",
    "remove_ansi_escape_codes",
    "resource_to_schema",
    "state_column",
]

DEFAULT_LOG_LIMIT = 1000
DEFAULT_DOWNLOAD_FILENAME = "file.txt"
RAY_MAX_LIMIT_FROM_DATA_SOURCE = 10_000
SupportedFilterType = str | bool | int | float
PredicateType = str
_COLOURS = re.compile(r"\x1b[^m]*m")
_SERVER_SHARE = 0.8
AVAILABLE_STATES = [
    ActorState,
    PlacementGroupState,
    NodeState,
    WorkerState,
    JobState,
    TaskState,
    ObjectState,
    RuntimeEnvState,
]


@unique
class StateResource(Enum):
    """What can be listed."""

    ACTORS = "actors"
    JOBS = "jobs"
    PLACEMENT_GROUPS = "placement_groups"
    NODES = "nodes"
    WORKERS = "workers"
    TASKS = "tasks"
    OBJECTS = "objects"
    RUNTIME_ENVS = "runtime_envs"
    CLUSTER_EVENTS = "cluster_events"


@unique
class SummaryResource(Enum):
    """What can be summarized."""

    ACTORS = "actors"
    TASKS = "tasks"
    OBJECTS = "objects"


class Humanify:
    """Figures made fit for people."""

    timestamp = staticmethod(shown_time)
    memory = staticmethod(shown_size)
    duration = staticmethod(shown_duration)


@dataclass
class ListApiOptions:
    """How to list: how many rows, which, with which columns.

    Raises:
        ValueError: a filter's predicate is neither "=" nor "!=".
    """

    limit: int = DEFAULT_LIMIT
    timeout: int = DEFAULT_RPC_TIMEOUT
    detail: bool = False
    filters: list[tuple[str, str, object]] | None = field(default_factory=list)
    exclude_driver: bool = True
    server_timeout_multiplier: float = _SERVER_SHARE

    def __post_init__(self) -> None:
        self.timeout = max(1, int(self.timeout * self.server_timeout_multiplier))
        self.filters = self.filters or []
        for _, predicate, _ in self.filters:
            if predicate not in ("=", "!="):
                raise ValueError(f"Unsupported filter predicate {predicate!r}. Available predicates: =, !=.")

    def has_conflicting_filters(self) -> bool:
        """Whether two filters want one column to equal two values: then no row can match, which is warned of."""
        import warnings

        wanted: dict[str, object] = {}
        for key, predicate, value in self.filters or ():
            if predicate == "=" and wanted.setdefault(key, value) != value:
                warnings.warn(
                    f"The filters want {key!r} to be {wanted[key]!r} and {value!r} at once: no row matches.",
                    UserWarning,
                    stacklevel=2,
                )
                return True
        return False


@dataclass
class GetApiOptions:
    """How to get one row."""

    timeout: int = DEFAULT_RPC_TIMEOUT
    server_timeout_multiplier: float = _SERVER_SHARE

    def __post_init__(self) -> None:
        self.timeout = max(1, int(self.timeout * self.server_timeout_multiplier))


@dataclass
class SummaryApiOptions:
    """How to summarize."""

    timeout: int = DEFAULT_RPC_TIMEOUT
    filters: list[tuple[str, str, object]] | None = field(default_factory=list)
    summary_by: str | None = None


@dataclass
class GetLogOptions:
    """Which log to read, and how much of it.

    Raises:
        ValueError: nothing says which log, or what is said contradicts itself.
    """

    timeout: int
    node_id: str | None = None
    node_ip: str | None = None
    media_type: str = "file"
    filename: str | None = None
    download_filename: str = DEFAULT_DOWNLOAD_FILENAME
    actor_id: str | None = None
    task_id: str | None = None
    attempt_number: int = 0
    pid: int | None = None
    lines: int = 1000
    interval: float | None = None
    suffix: str = "out"
    submission_id: str | None = None

    def __post_init__(self) -> None:
        self.pid = int(self.pid) if self.pid else self.pid
        self.interval = float(self.interval) if self.interval else self.interval
        self.lines = int(self.lines)
        if self.media_type not in ("file", "stream"):
            raise ValueError(f"media_type={self.media_type!r} is neither 'file' nor 'stream'.")
        assert self.media_type == "stream" or self.interval is None, "interval is for a log that is followed"
        if not (self.node_id or self.node_ip or self.actor_id or self.task_id):
            raise ValueError(
                "Name the node of the log with node_id or node_ip, or the log with actor_id or task_id."
            )
        if self.node_id and self.node_ip:
            raise ValueError(
                f"node_id={self.node_id!r} and node_ip={self.node_ip!r} are both given: leave out one of them."
            )
        if not (self.actor_id or self.task_id or self.pid or self.filename or self.submission_id):
            raise ValueError("Name the log with actor_id, task_id, pid, filename or submission_id.")
        if self.suffix not in ("out", "err"):
            raise ValueError(f"suffix={self.suffix!r} is neither 'out' nor 'err'.")


def _with_rows(counted: JsonObject, row: type[object]) -> JsonObject:
    """A summary whose entries are rows of one class."""
    return counted | {"summary": {name: row(**entry) for name, entry in counted["summary"].items()}}


@dataclass
class TaskSummaryPerFuncOrClassName:
    """How many tasks of one name are in which state."""

    func_or_class_name: str
    type: str
    state_counts: dict[str, int] = field(default_factory=dict)


@dataclass
class TaskSummaries:
    """Tasks, counted by name or shown as a tree."""

    summary: dict[str, TaskSummaryPerFuncOrClassName] | list[NestedTaskSummary]
    total_tasks: int
    total_actor_tasks: int
    total_actor_scheduled: int
    summary_by: str = "func_name"

    @classmethod
    def to_summary_by_func_name(cls, *, tasks: list[JsonObject]) -> TaskSummaries:
        """Count tasks by name and state."""
        return cls(**_with_rows(counting.count_tasks(tasks), TaskSummaryPerFuncOrClassName))

    @classmethod
    def to_summary_by_lineage(cls, *, tasks: list[JsonObject], actors: list[JsonObject]) -> TaskSummaries:
        """Show tasks below those that submitted them."""
        counted = counting.count_tasks(tasks)
        return cls(**counted | {"summary": tree_of(tasks, actors), "summary_by": "lineage"})


@dataclass
class ActorSummaryPerClass:
    """How many actors of one class are in which state."""

    class_name: str
    state_counts: dict[str, int] = field(default_factory=dict)


@dataclass
class ActorSummaries:
    """Actors, counted by class."""

    summary: dict[str, ActorSummaryPerClass]
    total_actors: int
    summary_by: str = "class"

    @classmethod
    def to_summary(cls, *, actors: list[JsonObject]) -> ActorSummaries:
        """Count actors by class and state."""
        return cls(**_with_rows(counting.count_actors(actors), ActorSummaryPerClass))


@dataclass
class ObjectSummaryPerKey:
    """Objects made at one place."""

    total_objects: int
    total_size_mb: float
    total_num_workers: int
    total_num_nodes: int
    task_state_counts: dict[str, int] = field(default_factory=dict)
    task_attempt_number_counts: dict[str, int] = field(default_factory=dict)
    ref_type_counts: dict[str, int] = field(default_factory=dict)


@dataclass
class ObjectSummaries:
    """Objects, counted by the place that made them."""

    summary: dict[str, ObjectSummaryPerKey]
    total_objects: int
    total_size_mb: float
    callsite_enabled: bool
    summary_by: str = "callsite"

    @classmethod
    def to_summary(cls, *, objects: list[JsonObject]) -> ObjectSummaries:
        """Count and measure objects by place."""
        return cls(**_with_rows(counting.count_objects(objects), ObjectSummaryPerKey))


def state_column(
    *,
    filterable: bool,
    detail: bool = False,
    format_fn: Callable[[object], object] | None = None,
    **_options: object,
) -> Any:
    """A column of a row of one's own."""
    make = detail_column if detail else column
    return make(filterable=filterable, shown=format_fn)


def resource_to_schema(resource: StateResource) -> type[StateSchema]:
    """The class of a resource's rows."""
    if resource is StateResource.CLUSTER_EVENTS:
        return ClusterEventState
    return KINDS[resource.value][0]


def filter_fields(
    data: Mapping[str, object], state_dataclass: type[StateSchema], detail: bool
) -> dict[str, object]:
    """The columns of a row that are to be shown."""
    return {name: data.get(name) for name in state_dataclass.list_columns(detail=detail)}


def dict_to_state(d: Mapping[str, object], state_resource: StateResource) -> StateSchema:
    """A row from a dict.

    Raises:
        RayStateApiException: it has columns that the resource has not.
    """
    try:
        return resource_to_schema(state_resource)(**d)
    except TypeError as error:
        raise RayStateApiException(f"{dict(d)} is not a row of {state_resource.value}: {error}") from error


def remove_ansi_escape_codes(text: str) -> str:
    """A text without colours."""
    return _COLOURS.sub("", text)
