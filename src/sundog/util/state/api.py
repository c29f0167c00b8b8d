"""`list_*` and `get_*`: rows of the session's state, filtered and limited.

Owns filters, limits and columns; `questions.py` has the rows, from the node and from the records. Keeps nothing. Runs
in the caller's process and thread.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from sundog.util.state.exception import BadFilter, RayStateApiException
from sundog.util.state.lineage import DRIVER_TASK_ID_PREFIX
from sundog.util.state.questions import ask as ask
from sundog.util.state.questions import ask_tasks
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
)
from sundog.util.state.source import find_source

if TYPE_CHECKING:
    from sundog.observe.task_query import Filter
    from sundog.plain import JsonObject
    from sundog.refs import ObjectRef

__tracebackhide__ = True  # pytest folds the frames of this file

logger = logging.getLogger(__name__)

DEFAULT_LIMIT = 100
DEFAULT_RPC_TIMEOUT = 30
RAY_MAX_LIMIT_FROM_API_SERVER = 10_000
_ID_MIN_BYTES = 8
# Ray has these in this module, too.
_ELSEWHERE = {
    "StateApiClient": "client",
    "get_log": "logs",
    "list_logs": "logs",
    "summarize_actors": "summary",
    "summarize_objects": "summary",
    "summarize_tasks": "summary",
}

S = TypeVar("S", bound=StateSchema)

_TRUE = frozenset({"true", "1"})
_FALSE = frozenset({"false", "0"})


def __getattr__(name: str) -> object:
    if name not in _ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"sundog.util.state.{_ELSEWHERE[name]}"), name)


def matches(row: Mapping[str, object], filters: Sequence[Filter]) -> bool:
    """Whether a row passes all filters; a string matches regardless of its case."""
    for key, predicate, wanted in filters:
        equal = _equal(row.get(key.lower()), wanted)
        if equal != (predicate == "="):
            return False
    return True


def _equal(found: object, wanted: object) -> bool:
    if not isinstance(wanted, str):
        return bool(found == wanted)
    if not isinstance(found, str):
        return found is not None and _parsed(wanted, found) == found
    return found.lower() == wanted.lower()


def _parsed(text: str, like: object) -> object:
    """Read a filter's text as the type of the column's value; what cannot be read equals nothing."""
    if isinstance(like, bool):
        return True if text.lower() in _TRUE else False if text.lower() in _FALSE else None
    try:
        return type(like)(text) if isinstance(like, (int, float)) else text
    except ValueError:
        return None


def _check_filters(schema: type[StateSchema], filters: Sequence[Filter]) -> None:
    for key, predicate, wanted in filters:
        if predicate not in ("=", "!="):
            raise ValueError(f"Unsupported filter predicate {predicate!r}. Available predicates: =, !=.")
        if key.lower() not in schema.filterable_columns():
            raise BadFilter(
                f"The column {key!r} cannot be filtered on. Columns that can: "
                f"{', '.join(sorted(schema.filterable_columns()))}."
            )
        _check_value(schema, key.lower(), wanted)


def _check_value(schema: type[StateSchema], key: str, wanted: object) -> None:
    """Refuse a text that can never be a value of its column."""
    kind = str(schema.__annotations__.get(key, "")).partition(" ")[0]
    if not isinstance(wanted, str) or kind not in ("int", "float", "bool"):
        return
    try:
        known = wanted.lower() in _TRUE | _FALSE if kind == "bool" else float(wanted) is not None
    except ValueError:
        known = False
    if not known:
        raise BadFilter(f"{wanted!r} cannot be a value of the column {key!r}, which is of type {kind}.")


def check_options(schema: type[StateSchema], filters: Sequence[Filter], limit: int) -> None:
    """Refuse filters and limits that make no sense. Raises as `list_actors`."""
    _check_filters(schema, filters)
    if limit < 0:
        raise BadFilter(f"limit={limit} is not allowed: give a number of rows, zero or more.")
    if limit > RAY_MAX_LIMIT_FROM_API_SERVER:
        raise RayStateApiException(
            f"limit={limit} is above the maximum of {RAY_MAX_LIMIT_FROM_API_SERVER}. Use filters to see less."
        )


def _row(schema: type[S], found: Mapping[str, object], detail: bool) -> S:
    return schema(**{name: found.get(name) for name in schema.list_columns(detail=detail)})


def _list(
    schema: type[S],
    kind: str,
    address: str | None,
    filters: Sequence[Filter] | None,
    limit: int,
    detail: bool,
    whole: bool,
) -> list[S]:
    key = KINDS[kind][1]
    filters = filters or []
    check_options(schema, filters, limit)
    # A filter may name a detail column even when details are not asked for.
    base = schema.base_columns()
    need_detail = detail or any(name.lower() not in base for name, _, _ in filters)
    if kind == "tasks":
        found, total = ask_tasks(filters, limit, need_detail, address, whole, matches)
    else:
        found = [row for row in ask(kind, need_detail, address, whole) if matches(row, filters)]
        found.sort(key=lambda row: str(row.get(key) or ""))
        total = len(found)
    if total > limit:
        logger.warning("%d of %d %s are returned; raise `limit` or use filters.", limit, total, kind)
    return [_row(schema, row, detail) for row in found[:limit]]


_ENDS = {"SUCCEEDED": "FINISHED", "FAILED": "FAILED", "STOPPED": "FAILED"}


def list_driver_tasks(
    address: str | None, filters: Sequence[Filter] | None, detail: bool = False
) -> list[TaskState]:
    """List programs as the tasks that are the parents of what they submit; they are in no other list."""
    found = []
    for job in ask("jobs", True, address):
        driver = job.get("driver_info") or {}
        row = {
            "task_id": DRIVER_TASK_ID_PREFIX + job["job_id"],
            "attempt_number": 0,
            "name": "",
            "func_or_class_name": "",
            "type": "DRIVER_TASK",
            "state": _ENDS.get(job["status"], "RUNNING"),
            "job_id": job["job_id"],
            "node_id": job.get("driver_node_id"),
            "worker_pid": int(driver["pid"]) if driver.get("pid") else None,
            "start_time_ms": job.get("start_time"),
            "end_time_ms": job.get("end_time") or None,
        }
        if matches(row, filters or []):
            found.append(_row(TaskState, row, detail))
    return found


def list_actors(
    address: str | None = None,
    filters: Sequence[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[ActorState]:
    """List actors.

    Args:
        address: The session; by default the one this process is in, or the one on this machine.
        filters: Triples of column, "=" or "!=", and value; all must hold.
        limit: How many rows at most.
        timeout: Accepted for compatibility: the node answers from memory.
        detail: Fill in the detail columns too.
        raise_on_missing_output: Raise if a process did not answer; otherwise that is warned of.

    Raises:
        ValueError: A filter names an unknown predicate or a column that cannot be filtered on, or `limit` is negative.
        RayStateApiException: There is no session to ask, or `limit` is too large.
    """
    return _list(ActorState, "actors", address, filters, limit, detail, raise_on_missing_output)


def list_placement_groups(
    address: str | None = None,
    filters: Sequence[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[PlacementGroupState]:
    """List placement groups. Arguments and errors as for `list_actors`."""
    return _list(
        PlacementGroupState, "placement_groups", address, filters, limit, detail, raise_on_missing_output
    )


def list_nodes(
    address: str | None = None,
    filters: Sequence[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[NodeState]:
    """List nodes. Arguments and errors as for `list_actors`."""
    return _list(NodeState, "nodes", address, filters, limit, detail, raise_on_missing_output)


def list_jobs(
    address: str | None = None,
    filters: Sequence[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[JobState]:
    """List jobs. Arguments and errors as for `list_actors`."""
    return _list(JobState, "jobs", address, filters, limit, detail, raise_on_missing_output)


def list_workers(
    address: str | None = None,
    filters: Sequence[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[WorkerState]:
    """List processes. Arguments and errors as for `list_actors`."""
    return _list(WorkerState, "workers", address, filters, limit, detail, raise_on_missing_output)


def list_tasks(
    address: str | None = None,
    filters: Sequence[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[TaskState]:
    """List attempts of tasks. Arguments and errors as for `list_actors`."""
    return _list(TaskState, "tasks", address, filters, limit, detail, raise_on_missing_output)


def list_runtime_envs(
    address: str | None = None,
    filters: Sequence[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[RuntimeEnvState]:
    """List runtime environments. Arguments and errors as for `list_actors`."""
    return _list(RuntimeEnvState, "runtime_envs", address, filters, limit, detail, raise_on_missing_output)


def list_cluster_events(
    address: str | None = None,
    filters: Sequence[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[JsonObject]:
    """List events of the autoscaler and its like: there are none on one machine. Errors as for `list_actors`."""
    _check_filters(ClusterEventState, filters or [])
    find_source(address)
    return []


def list_objects(
    address: str | None = None,
    filters: Sequence[Filter] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[ObjectState]:
    """List references to objects. Arguments and errors as for `list_actors`."""
    return _list(ObjectState, "objects", address, filters, limit, detail, raise_on_missing_output)


def _find(schema: type[S], kind: str, wanted: str, address: str | None) -> list[S]:
    key = KINDS[kind][1]
    if kind == "tasks":
        rows, _ = ask_tasks([(key, "=", wanted)], RAY_MAX_LIMIT_FROM_API_SERVER, True, address, True, matches)
        return [_row(schema, row, True) for row in rows]
    return [_row(schema, row, True) for row in ask(kind, True, address) if row.get(key) == wanted]


def _check_id(kind: str, wanted: str) -> None:
    """Refuse what cannot be the id of anything."""
    try:
        is_id = len(bytes.fromhex(wanted)) >= _ID_MIN_BYTES
    except (TypeError, ValueError):
        is_id = False
    if not is_id:
        raise RayStateApiException(f"{wanted!r} is not the id of {kind}: ids are long hexadecimal numbers.")


def _one(schema: type[S], kind: str, wanted: str, address: str | None) -> S | None:
    found = _find(schema, kind, wanted, address)
    return found[0] if found else None


def get_actor(
    id: str, address: str | None = None, timeout: int = DEFAULT_RPC_TIMEOUT, _explain: bool = False
) -> ActorState | None:
    """Give the actor with this hex id, with details; None when there is none.

    Raises:
        RayStateApiException: this can be no id.
    """
    _check_id("an actor", id)
    return _one(ActorState, "actors", id, address)


def get_job(
    id: str, address: str | None = None, timeout: int = DEFAULT_RPC_TIMEOUT, _explain: bool = False
) -> JobState | None:
    """Give the job with this job id or submission id; None when there is none."""
    for row in ask("jobs", True, address):
        if id in (row.get("submission_id"), row.get("job_id")):
            return _row(JobState, row, True)
    return None


def get_placement_group(
    id: str, address: str | None = None, timeout: int = DEFAULT_RPC_TIMEOUT, _explain: bool = False
) -> PlacementGroupState | None:
    """Give the placement group with this hex id, with details; None when there is none."""
    return _one(PlacementGroupState, "placement_groups", id, address)


def get_node(
    id: str, address: str | None = None, timeout: int = DEFAULT_RPC_TIMEOUT, _explain: bool = False
) -> NodeState | None:
    """Give the node with this hex id, with details; None when there is none. Errors as for `get_actor`."""
    _check_id("a node", id)
    return _one(NodeState, "nodes", id, address)


def get_worker(
    id: str, address: str | None = None, timeout: int = DEFAULT_RPC_TIMEOUT, _explain: bool = False
) -> WorkerState | None:
    """Give the process with this hex id, with details; None when there is none."""
    return _one(WorkerState, "workers", id, address)


def get_task(
    id: str | ObjectRef[object],
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _explain: bool = False,
) -> TaskState | list[TaskState] | None:
    """Give the task with this hex id, or the one that makes this ref.

    Returns:
        Its row; a list of rows, one per attempt, when it was retried; None when there is none.

    Raises:
        RayStateApiException: this can be no id.
    """
    task_id = id if isinstance(id, str) else id.task_id().hex()
    _check_id("a task", task_id)
    found = sorted(_find(TaskState, "tasks", task_id, address), key=lambda row: row.attempt_number or 0)
    if len(found) > 1:
        return found
    return found[0] if found else None


def get_objects(
    id: str, address: str | None = None, timeout: int = DEFAULT_RPC_TIMEOUT, _explain: bool = False
) -> list[ObjectState]:
    """Give every process's reference to the object with this hex id."""
    return _find(ObjectState, "objects", id, address)
