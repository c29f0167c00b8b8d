"""Actors of a job, and its workers that have ended, as Ray tells them: rows of the state API.

Owns the translation, and which rows are new since the last look. Home's own actor is left out. Runs in Home.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from sundog.ray_engine.pushes import HOME_NAMESPACE
from sundog.ray_engine.task_ids import CREATES, unique_of

if TYPE_CHECKING:
    from sundog.plain import JsonObject
    from sundog.ray_engine import theirs

_STATES = ("DEPENDENCIES_UNREADY", "PENDING_CREATION", "ALIVE", "RESTARTING", "DEAD")  # by Ray's numbers
_EXITS = (
    "SYSTEM_ERROR",
    "INTENDED_SYSTEM_EXIT",
    "USER_ERROR",
    "INTENDED_USER_EXIT",
    "NODE_OUT_OF_MEMORY",
)
_WORKER = 0  # the type of a worker, by Ray's number
_TEXTS = ("error_message", "formatted_exception_string")

IdOf = Callable[[bytes], bytes]


class Residents:
    """The actors and ended workers of a job, as they were at the last look."""

    def __init__(self) -> None:
        self._known: dict[str, JsonObject] = {}
        self._ended: set[bytes] = set()

    def ended(self, told: Iterable[theirs.RaysWorkerRow], ours: Collection[bytes]) -> list[JsonObject]:
        """The rows of workers that have ended since the last look.

        Args:
            told: Ray's rows, of all jobs.
            ours: the processes of this job, by the first eight bytes of their ids.
        """
        found = []
        for each in told:
            process_id = each.worker_address.worker_id[:8]
            if each.is_alive or each.worker_type != _WORKER or process_id not in ours:
                continue
            if process_id not in self._ended:
                self._ended.add(process_id)
                found.append(worker_row(each))
        return found

    def changed(self, told: Iterable[theirs.RaysActor], id_of: IdOf) -> list[JsonObject]:
        """The rows of actors that are new, or not as they were.

        Args:
            told: Ray's rows.
            id_of: gives the whole id of the task that creates an actor, as the records have it.
        """
        found = []
        for each in told:
            if each.ray_namespace == HOME_NAMESPACE:
                continue
            row = actor_row(each, id_of)
            if self._known.get(row["actor_id"]) != row:
                self._known[row["actor_id"]] = row
                found.append(row)
        return found

    def by_state(self) -> dict[str, int]:
        """How many actors are in each state."""
        return dict(Counter(str(row["state"]) for row in self._known.values()))


def actor_row(told: theirs.RaysActor, id_of: IdOf) -> JsonObject:
    """One of Ray's actors."""
    state = _STATES[told.state]
    return {
        "actor_id": id_of(bytes(8) + unique_of(CREATES + told.actor_id)).hex(),
        "class_name": told.class_name,
        "state": state,
        "name": told.name,
        "ray_namespace": told.ray_namespace,
        "node_id": told.address.node_id.hex() or None,
        "pid": told.pid,
        "job_id": told.job_id.hex(),
        "is_detached": told.is_detached,
        "required_resources": dict(told.required_resources),
        "serialized_runtime_env": told.serialized_runtime_env,
        "death_cause": _cause(told.death_cause) if state == "DEAD" else None,
        "num_restarts": told.num_restarts,
        "num_restarts_due_to_lineage_reconstruction": told.num_restarts_due_to_lineage_reconstruction,
        "num_restarts_due_to_node_preemption": told.num_restarts_due_to_node_preemption,
        "placement_group_id": told.placement_group_id.hex() or None,
        "repr_name": told.repr_name,
        "call_site": told.call_site or None,
    }


def worker_row(told: theirs.RaysWorkerRow) -> JsonObject:
    """One of Ray's workers that has ended."""
    return {
        "worker_id": told.worker_address.worker_id[:8].hex(),
        "is_alive": False,
        "worker_type": "WORKER",
        "exit_type": _EXITS[told.exit_type],
        "exit_detail": told.exit_detail,
        "node_id": told.worker_address.node_id.hex(),
        "ip": told.worker_address.ip_address,
        "pid": told.pid,
    }


def _cause(told: theirs.RaysDeathCause) -> JsonObject | None:
    kind = told.WhichOneof("context")
    if kind is None:
        return None
    context = getattr(told, kind)
    texts = {name: getattr(context, name) for name in _TEXTS if hasattr(context, name)}
    return {kind: texts or {"error_message": kind}}


def ask_actors(job: str) -> list[theirs.RaysActor]:
    """Ray's rows of the actors of a job."""
    import ray
    from ray._private.state import state
    from ray.core.generated import gcs_pb2

    accessor = state._connect_and_get_accessor()
    rows = accessor.get_actor_table(ray.JobID(bytes.fromhex(job)), None)
    return [gcs_pb2.ActorTableData.FromString(each) for each in rows]


def ask_workers() -> list[theirs.RaysWorkerRow]:
    """Ray's rows of the workers of all jobs."""
    from ray._private.state import state
    from ray.core.generated import gcs_pb2

    rows = state._connect_and_get_accessor().get_worker_table()
    return [gcs_pb2.WorkerTableData.FromString(each) for each in rows]
