"""Rows for the state API of what the node itself knows: actors, workers, nodes, jobs, placement groups, environments.

Owns the columns' values in Ray's words, and the rows of processes and jobs that are gone (the newest `_GONE_MAX` of
each). Refuses: changing anything, and what only owners or records know (tasks, objects). Runs on the node's only
thread, in answer to a request.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from typing import TYPE_CHECKING, Protocol

from sundog.node.rows import Environment, Job, Process, registration_of
from sundog.plain import JsonObject
from sundog.state.actors import DEAD, ActorRow
from sundog.store import places
from sundog.wire.cause import KERNEL_OOM, MEMORY, Cause

if TYPE_CHECKING:
    from sundog.node.interfaces import WithActors, WithFacts, WithWorkers
    from sundog.node.members import Members
    from sundog.node.pauses import SessionPauses
    from sundog.node.scrapes import ScrapeKeeper
    from sundog.state.status import GroupRow
    from sundog.wire.status import DeadActorRow

    class ListingsNode(WithActors, WithFacts, WithWorkers, Protocol):
        """What the lists of the state API ask of the node."""

        @property
        def members(self) -> Members:
            """The other nodes."""

        @property
        def pauses(self) -> SessionPauses:
            """Tasks that stand in a debugger."""

        @property
        def scrapes(self) -> ScrapeKeeper:
            """The port of the figures."""


_GONE_MAX = 1000
_DEAD_SHOWN = 10
_IP = "127.0.0.1"
# Ray's numbers for the end of a node: expected, unexpected, drained.
_DEATH_REASONS = {"it was drained": 4}
# The state of the constructor according to the actor's state, unless a worker has recorded how it ended.
_CREATION_STATES = {
    "DEPENDENCIES_UNREADY": "PENDING_ARGS_AVAIL",
    "PENDING_CREATION": "PENDING_NODE_ASSIGNMENT",
    "RESTARTING": "PENDING_NODE_ASSIGNMENT",
}
_SCHEDULING = {"CREATED": "FINISHED", "REMOVED": "REMOVED"}
Row = JsonObject


def group_stats(row: GroupRow) -> Row:
    """How a placement group came to be where it is: Ray's figures and words, and our sentence."""
    waits = "INFEASIBLE" if row.why.startswith("infeasible") else "NO_RESOURCES"
    return {
        "end_to_end_creation_latency_ms": 1e3 * row.took_s,
        "scheduling_latency_ms": 1e3 * row.took_s,
        "scheduling_attempt": row.attempts,
        "highest_retry_delay_ms": 0.0,
        "scheduling_state": _SCHEDULING.get(row.state, waits),
        "why": row.why,
    }


class Listings:
    """Tells of everything that the node keeps."""

    def __init__(self, node: ListingsNode) -> None:
        self.node = node
        self._dead_workers: deque[Row] = deque(maxlen=_GONE_MAX)
        self._ended_jobs: deque[Row] = deque(maxlen=_GONE_MAX)

    # ------------------------------------------------------------------ what is gone
    def process_died(self, process: Process, cause: Cause) -> None:
        """Remember a process that is gone, and why."""
        row = self._worker(process)
        row.update(
            is_alive=False,
            exit_type=process.exit_type or _exit_type(cause),
            exit_detail=cause.text(),
            end_time_ms=_ms(time.time()),
        )
        self._dead_workers.append(row)
        self.node.chronicle.process_died(process, row, cause)

    def job_began(self, job: Job) -> None:
        """Record a job whose driver has joined."""
        self.node.chronicle.job_changed(job, self._job(job))

    def job_ended(self, job: Job) -> None:
        """Remember a job whose driver is gone."""
        row = self._job(job) | {"status": "SUCCEEDED", "end_time": _ms(time.time())}
        self._ended_jobs.append(row)
        self.node.chronicle.job_changed(job, row)

    # ------------------------------------------------------------------ lists
    def actors(self) -> list[Row]:
        """Every actor, the dead ones included."""
        return [self.actor(row) for row in self.node.keeper.actors.rows()]

    def actor(self, row: ActorRow) -> Row:
        """One actor."""
        process = self.node.processes.get(row.worker) if row.worker else None
        spec = registration_of(row)
        pid = process.pid if process else spec.get("pid", 0)
        strategy = spec["lease"].strategy
        return {
            "actor_id": row.actor_id.hex(),
            "class_name": spec.get("class_path") or spec["class_name"],
            "state": row.state,
            "name": row.name,
            "ray_namespace": row.namespace,
            "node_id": spec.get("node_id"),
            "pid": pid,
            "job_id": spec["job_id"].hex(),
            "is_detached": row.detached,
            "required_resources": dict(spec["lease"].resources),
            "serialized_runtime_env": json.dumps(self._env_of(spec["lease"].env_key), default=repr),
            "death_cause": self._death_cause(row, pid) if row.state == DEAD else None,
            "num_restarts": row.incarnation,
            "num_restarts_due_to_lineage_reconstruction": 0,
            "num_restarts_due_to_node_preemption": 0,
            "placement_group_id": _group_of(strategy),
            "repr_name": spec.get("repr_name", ""),
            "call_site": spec.get("call_site") or None,
            "label_selector": dict(spec["lease"].label_selector),
            "fallback_strategy": [dict(each) for each in spec["lease"].fallbacks],
        }

    def dead_actors(self) -> list[DeadActorRow]:
        """The actors that died last, the newest first, and why: for a reader who was sent here by an error."""
        dead = [row for row in self.node.keeper.actors.rows() if row.state == DEAD]
        dead.sort(key=lambda row: row.changed_at, reverse=True)
        return [
            {
                "actor_id": row.actor_id.hex(),
                "class_name": registration_of(row)["class_name"],
                "name": row.name,
                "ago_s": self.node.now() - row.changed_at,
                "why": self._cause_text(row),
            }
            for row in dead[:_DEAD_SHOWN]
        ]

    def creations(self) -> list[Row]:
        """Facts of constructors that have not run, or not to their end: as an owner tells of its tasks."""
        facts = []
        for row in self.node.keeper.actors.rows():
            spec = registration_of(row)
            state = _CREATION_STATES.get(row.state, "")
            if row.state == DEAD and not spec.get("created"):
                state = "FAILED"
            if not state or spec.get("hidden"):
                continue
            function = f"{spec['class_name']}.__init__"
            strategy = spec["lease"].strategy
            failed = state == "FAILED"
            facts.append(
                {
                    "task": row.actor_id.hex(),
                    "owner": row.owner.hex(),
                    "attempt": row.incarnation,
                    "name": f"{row.name}:{function}" if row.name else function,
                    "function": function,
                    "kind": "actor_creation",
                    "actor": row.actor_id.hex(),
                    "resources": dict(spec["lease"].resources),
                    "pg": _group_of(strategy) or "",
                    "submit_s": spec["submit_s"],
                    "job": spec["job_id"].hex(),
                    "state": state,
                    "worker": "",
                    "pid": 0,
                    "error": "ACTOR_DIED" if failed else None,
                    "message": self._cause_text(row) if failed else "",
                }
            )
        return facts

    def workers(self) -> list[Row]:
        """Every process, the newest of those that are gone included."""
        states = self.states()
        living = [
            self._worker(each) | {"state": states[each.process_id]} for each in self.node.processes.values()
        ]
        return living + list(self._dead_workers)

    def states(self) -> dict[bytes, str]:
        """What each process serves as: one whose lease was given back is idle again."""
        states = {each.process_id: each.state for each in self.node.processes.values()}
        idle = (worker for worker in self.node.leases.idle_workers() if states.get(worker) == "leased")
        return states | dict.fromkeys(idle, "idle")

    def nodes(self) -> list[Row]:
        """The head, the other nodes, and the newest of those that are gone."""
        node = self.node
        rows = [
            self._node(
                node.node_id, _IP, node.leases.totals(node.node_id), node.params["labels"], node.started_at
            )
            | {"is_head_node": True}
        ]
        for each in node.members:
            totals = node.leases.totals(each.node_id) if each.is_alive else {}
            row = self._node(each.node_id, each.name or _IP, totals, each.labels, each.started_at)
            if not each.is_alive:
                row |= {
                    "state": "DEAD",
                    "state_message": each.why_ended,
                    "end_time_ms": _ms(each.ended_at),
                }
            rows.append(row)
        return rows

    def _node(self, node_id: bytes, name: str, totals: Row, labels: dict[str, str], started_at: float) -> Row:
        return {
            "node_id": node_id.hex(),
            "node_ip": _IP,
            "is_head_node": False,
            "state": "ALIVE",
            "state_message": None,
            "node_name": name,
            "resources_total": totals,
            "labels": dict(labels),
            "start_time_ms": _ms(started_at),
            "end_time_ms": 0,
        }

    def cluster(self) -> list[Row]:
        """The same in the shape of `nodes()`."""
        session = self.node.session
        metrics_port = self.node.scrapes.port()
        return [
            {
                "NodeID": row["node_id"],
                "Alive": row["state"] == "ALIVE",
                "NodeManagerAddress": _IP,
                "NodeManagerHostname": os.uname().nodename,
                "NodeName": row["node_name"],
                "NodeManagerPort": 0,
                "ObjectManagerPort": 0,
                "ObjectStoreSocketName": places.shared_root(
                    session["shm_root"], "" if row["is_head_node"] else row["node_id"][: places.TAG_DIGITS]
                ),
                "RayletSocketName": f"{session['path']}/node.sock",
                "MetricsExportPort": metrics_port,
                "MetricsAgentPort": 0,
                "DashboardAgentListenPort": 0,
                "RuntimeEnvAgentPort": 0,
                "DeathReason": _DEATH_REASONS.get(row["state_message"], 2) if row["end_time_ms"] else 0,
                "DeathReasonMessage": row["state_message"] or "",
                "alive": row["state"] == "ALIVE",
                "Resources": row["resources_total"],
                "Labels": row["labels"],
            }
            for row in self.nodes()
        ]

    def jobs(self) -> list[Row]:
        """Every job, the newest of those that have ended included."""
        return list(self._ended_jobs) + [self._job(job) for job in self.node.jobs.values()]

    def placement_groups(self) -> list[Row]:
        """Every placement group, the removed ones included."""
        return [self.placement_group(row) for row in self.node.leases.group_table()]

    def placement_group(self, row: GroupRow) -> Row:
        """One placement group."""
        pg_id = row.pg_id.hex()
        bundles = [
            {
                "bundle_id": {"placement_group_id": pg_id, "bundle_index": index},
                "unit_resources": dict(bundle),
                "node_id": node_id.hex() if node_id else None,
                "label_selector": {},
            }
            for index, (bundle, node_id) in enumerate(zip(row.bundles, row.nodes, strict=True))
        ]
        return {
            "placement_group_id": pg_id,
            "name": row.name,
            "state": row.state,
            "creator_job_id": self._job_of(row.owner),
            "bundles": bundles,
            "is_detached": row.lifetime == "detached",
            "stats": group_stats(row),
            "topology_strategy": {row.topology: "STRICT_PACK"} if row.topology else {},
            "topology_assignments": {row.topology: row.domain} if row.domain else {},
        }

    def runtime_envs(self) -> list[Row]:
        """Every runtime environment that asks for something, and whether it could be set up."""
        uses: dict[str, int] = {}
        for process in self.node.processes.values():
            uses[process.env_key] = uses.get(process.env_key, 0) + 1
        return [
            self.environment(each, uses.get(key, 0))
            for key, each in self.node.workers.environments.items()
            if each.runtime_env
        ]

    # ------------------------------------------------------------------ one row
    def _worker(self, process: Process) -> Row:
        started = _ms(process.started_at)
        paused, port = self.node.pauses.of_worker(process.process_id.hex())
        return {
            "worker_id": process.process_id.hex(),
            "is_alive": True,
            "worker_type": process.kind.upper(),
            "exit_type": None,
            "exit_detail": None,
            "node_id": (process.node_id or self.node.node_id).hex(),
            "ip": _IP,
            "pid": process.pid,
            "state": process.state,
            "job_id": process.job_id.hex(),
            "worker_launch_time_ms": started,
            "worker_launched_time_ms": started,
            "start_time_ms": started,
            "end_time_ms": 0,
            "debugger_port": port or None,
            "num_paused_threads": paused,
        }

    def _job(self, job: Job) -> Row:
        return {
            "job_id": job.job_id.hex(),
            "submission_id": job.spec.submission_id or None,
            "entrypoint": job.entrypoint,
            "type": "SUBMISSION" if job.spec.submission_id else "DRIVER",
            "status": "RUNNING",
            "driver_info": {"id": job.job_id.hex(), "node_ip_address": _IP, "pid": str(job.pid)},
            "message": None,
            "error_type": None,
            "start_time": _ms(job.started_at),
            "end_time": 0,
            "metadata": {},
            "runtime_env": {},
        }

    def environment(self, env: Environment, used: int) -> Row:
        """One runtime environment, and how many processes use it."""
        return {
            "runtime_env": env.runtime_env,
            "success": not env.error,
            "creation_time_ms": None if env.error else 0.0,
            "node_id": self.node.node_id.hex(),
            "ref_cnt": used,
            "error": env.error or None,
        }

    def _death_cause(self, row: ActorRow, pid: int) -> Row:
        if isinstance(row.cause, bytes) and pid:
            return {"creation_task_failure_context": {"formatted_exception_string": self._cause_text(row)}}
        return {
            "actor_died_error_context": {
                "error_message": self._cause_text(row),
                "owner_id": row.owner.hex(),
                "owner_ip_address": _IP,
                "node_ip_address": _IP,
                "pid": pid,
                "name": row.name,
                "ray_namespace": row.namespace,
                "class_name": registration_of(row)["class_name"],
                "actor_id": row.actor_id.hex(),
                "never_started": not pid,
                "reason": _death_reason(row.cause),
            }
        }

    def _cause_text(self, row: ActorRow) -> str:
        if isinstance(row.cause, bytes):
            # A pickled error of the user's class, which the node does not unpickle: the worker sent its text.
            return str(
                registration_of(row).get("error_text")
                or "its constructor, or an argument of it, raised an error"
            )
        cause = self.node.keeper.in_words(row.cause)
        return cause.text() if isinstance(cause, Cause) else str(cause or "")

    def _env_of(self, env_key: str) -> object:
        found = self.node.workers.environments.get(env_key)
        return found.runtime_env if found is not None else {}

    def _job_of(self, owner: bytes) -> str:
        process = self.node.processes.get(owner)
        if process is not None:
            return process.job_id.hex()
        gone = next((row for row in self._dead_workers if row["worker_id"] == owner.hex()), None)
        return gone["job_id"] if gone is not None else ""


def _exit_type(cause: Cause) -> str:
    """The end of a process in Ray's words."""
    if cause.kind in (MEMORY, KERNEL_OOM):
        return "NODE_OUT_OF_MEMORY"
    if cause.intended:
        by_itself = cause.reason.startswith(("sys.exit(0)", "sys.exit(None)", "its task was cancelled"))
        return "INTENDED_USER_EXIT" if by_itself else "INTENDED_SYSTEM_EXIT"
    return "INTENDED_USER_EXIT" if cause.exit_code == 0 else "SYSTEM_ERROR"


def _group_of(strategy: tuple[object, ...]) -> str | None:
    group = strategy[1] if strategy[0] == "pg" else None
    return group.hex() if isinstance(group, bytes) else None


def _death_reason(cause: object) -> str:
    if cause == "out_of_scope":
        return "REF_DELETED"
    if cause == "owner_died":
        return "OWNER_DIED"
    if isinstance(cause, Cause) and cause.intended:
        return "RAY_KILL" if "kill()" in cause.reason else "UNSPECIFIED"
    return "WORKER_DIED"


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
