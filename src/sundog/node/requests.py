"""Requests that want an answer: resources, nodes, names, debugging, the state of everything.

Each request is a row of `wire/requests.py`, and `_table` says which method answers it: what the method returns (or
raises) is the answer. A method that must wait keeps the `Asker` and answers later. Placement groups: `node/groups.py`.
Runs on the node's only thread.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeVar

from sundog.exceptions import ActorUnschedulableError, RaySystemError
from sundog.ids import PROCESS_BYTES
from sundog.node.groups import GroupRequests
from sundog.node.listings import Listings
from sundog.node.rows import LATER, Asker, Later, Process, registration_of
from sundog.state.actors import DEAD
from sundog.state.instructions import GROUP_REMOVED, Infeasible
from sundog.wire import requests as ask
from sundog.wire.control import (
    ActorInfeasible,
    Answer,
    Describe,
    Described,
    EnvFailed,
    LeaseInfeasible,
    Looked,
    Rpc,
)
from sundog.wire.pauses import Pause, Trigger
from sundog.wire.row import Row, read

if TYPE_CHECKING:
    from sundog.node.actors import ActorKeeper
    from sundog.node.delays import Delays
    from sundog.node.interfaces import Acting
    from sundog.node.learning import Learning
    from sundog.node.listings import ListingsNode
    from sundog.node.looks import Looks
    from sundog.node.memory import MemoryKeeper
    from sundog.node.profiles import SessionProfiles
    from sundog.node.records import Records
    from sundog.node.stores import Stores
    from sundog.node.tenancy import Tenancy
    from sundog.state.key_values import KeyValues
    from sundog.wire.status import NodeRow, PendingRow, SessionStatus

    class RequestsNode(Acting, ListingsNode, Protocol):
        """What the answers to requests ask of the node."""

        @property
        def keeper(self) -> ActorKeeper:
            """The actors of the session."""

        @property
        def learning(self) -> Learning:
            """What the zygote has learned."""

        @property
        def memory(self) -> MemoryKeeper:
            """The memory monitor."""

        @property
        def profiles(self) -> SessionProfiles:
            """Profiles that are being taken."""

        @property
        def records(self) -> Records:
            """Where facts are written."""

        @property
        def stores(self) -> Stores:
            """The object stores, one for each node."""

        @property
        def tenancy(self) -> Tenancy:
            """The limits of jobs."""

        @property
        def requests(self) -> Requests:
            """This part itself, for looks."""

        def stop(self, reason: str) -> None:
            """End the session."""


R = TypeVar("R", bound=Row)
_LISTS = ("actors", "workers", "nodes", "jobs", "placement_groups", "runtime_envs")


Route = tuple[type[Row], Callable[..., object]]  # a request, and what answers it: takes Asker and request


def answered(row: type[R], method: Callable[[Asker, R], object]) -> tuple[str, Route]:
    """One line of the table of requests."""
    return row.kind, (row, method)


class Requests:
    """Answers requests of drivers, workers and commands."""

    def __init__(self, node: RequestsNode) -> None:
        self.node = node
        self.listings = Listings(node)
        self.groups = GroupRequests(node)
        self._tokens = itertools.count(1)
        self._gathering: dict[int, tuple[set[bytes], list[dict[str, object]], Callable[[], None]]] = {}
        self._answers = self._table()
        self._delays = self._read_delays(node.config.testing_asio_delay_us)

    def _read_delays(self, text: str) -> Delays | None:
        if not text:
            return None
        from sundog.node.delays import Delays  # only tests load this

        try:
            return Delays(text)
        except ValueError as error:
            self.node.log(str(error))
            return None

    @cached_property
    def looks(self) -> Looks:
        """Questions to processes; loaded when the first is asked."""
        from sundog.node.looks import Looks

        return Looks(self.node)

    @cached_property
    def key_values(self) -> KeyValues:
        """Small values of the programs; loaded when the first is asked for."""
        from sundog.state.key_values import KeyValues

        return KeyValues()

    def _put_key_value(self, _asker: Asker, row: ask.KeyValuePut) -> bool:
        return self.key_values.put(row.namespace, row.key, row.value, row.overwrite)

    def _table(self) -> dict[str, Route]:
        return dict(
            (
                answered(ask.ClusterResources, self._cluster_resources),
                answered(ask.AvailableResources, self._available_resources),
                answered(ask.Nodes, self._nodes),
                answered(ask.Status, self._status),
                answered(ask.ListRows, self._list),
                answered(ask.LookAt, self._look_at),
                answered(ask.EndWorker, self._end_worker),
                answered(ask.PausedTasks, self._paused_tasks),
                answered(ask.ListTriggers, self._triggers),
                answered(ask.AddTrigger, self._add_trigger),
                answered(ask.ClearTriggers, self._clear_triggers),
                answered(ask.Capture, self._capture),
                answered(
                    ask.BeginProfile, lambda _, request: self.node.profiles.begin(request.spec, request.pids)
                ),
                answered(ask.EndProfile, lambda _, request: self.node.profiles.end(request.profile_id)),
                answered(ask.DrainNode, self._drain_node),
                answered(ask.StopSession, self._stop),
                answered(ask.RegisterNamed, self._register_named),
                answered(ask.GetActor, self._get_actor),
                answered(ask.ActorInfo, self._actor_info),
                answered(ask.ListNamedActors, self._list_named_actors),
                answered(ask.PgCreate, self.groups.create),
                answered(ask.PgWait, self.groups.wait),
                answered(ask.PgByName, self.groups.by_name),
                answered(ask.PgTable, self.groups.table),
                answered(ask.KeyValueGet, lambda _, row: self.key_values.get(row.namespace, row.key)),
                answered(ask.KeyValuePut, self._put_key_value),
                answered(
                    ask.KeyValueDel,
                    lambda _, row: self.key_values.remove(row.namespace, row.key, row.by_prefix),
                ),
                answered(ask.KeyValueKeys, lambda _, row: self.key_values.keys(row.namespace, row.prefix)),
            )
        )

    def handle(self, process: Process, message: Rpc) -> None:
        """Answer one request."""
        asker = Asker(process, message.number)
        try:
            found = self._answers.get(message.verb)
            if found is None:
                raise RaySystemError(f"The node does not know the request {message.verb!r}.")
            row, method = found
            if self._delays is not None and (late_s := self._delays.seconds(row.__name__)):
                self.node.loop.after(late_s, lambda: self._answer(asker, row, method, message))
                return
        except Exception as error:
            process.line.send(Answer(message.number, False, error))
            return
        self._answer(asker, row, method, message)

    def _answer(
        self, asker: Asker, row: type[Row], method: Callable[[Asker, object], object], message: Rpc
    ) -> None:
        try:
            answer = method(asker, read(row, (message.verb, *message.args)))
        except Exception as error:
            asker.process.line.send(Answer(message.number, False, error))
            return
        if answer is not LATER:
            asker.answer(answer)

    # ------------------------------------------------------------------ resources and nodes
    def _cluster_resources(self, _asker: Asker, _request: ask.ClusterResources) -> dict[str, float]:
        """All resources; those of placement groups a second time, under the names of their bundles, as in Ray."""
        leases = self.node.leases
        return leases.totals() | leases.group_resources(free=False)

    def _available_resources(self, _asker: Asker, _request: ask.AvailableResources) -> dict[str, float]:
        """Free resources; what is used up is left out, as in Ray. Of the object store: what no object is in."""
        free = self.node.leases.available() | self.node.leases.group_resources(free=True)
        if "object_store_memory" in free:
            free["object_store_memory"] -= self.node.stores.figures()["used_bytes"]
        return {name: amount for name, amount in free.items() if amount > 0}

    def _nodes(self, _asker: Asker, _request: ask.Nodes) -> list[dict[str, object]]:
        """Rows in the shape of `nodes()`."""
        return self.listings.cluster()

    def _drain_node(self, _asker: Asker, request: ask.DrainNode) -> bool:
        """Place nothing more on a node."""
        return self.node.members.drain(request.node_id, now=request.leave)

    def _status(self, _asker: Asker, _request: ask.Status) -> SessionStatus:
        """What `sundog status` shows."""
        node = self.node
        kinds: dict[str, int] = {}
        for state in self.listings.states().values():
            kinds[state] = kinds.get(state, 0) + 1
        actors: dict[str, int] = {}
        for row in node.keeper.actors.rows():
            actors[row.state] = actors.get(row.state, 0) + 1
        store = node.stores.figures()
        available = node.leases.available()
        if "object_store_memory" in available:
            # The store is not leased: what is in use are the objects in it.
            available["object_store_memory"] = max(
                0.0, available["object_store_memory"] - store["used_bytes"]
            )
        return {
            "node": node.node_id.hex(),
            "session": node.session["name"],
            "path": node.session["path"],
            "pid": os.getpid(),
            "zygote_pid": node.workers.zygote_pid,
            "uptime_s": time.time() - node.started_at,
            "resources": {"total": node.leases.totals(), "available": available},
            "workers": {k: v for k, v in kinds.items() if k != "driver"},
            "drivers": [
                {"pid": job.pid, "job_id": job.job_id.hex(), "entrypoint": job.entrypoint}
                for job in node.jobs.values()
            ],
            "nodes": self._node_rows(),
            "jobs": node.tenancy.rows(),
            "actors": actors,
            "pending": self._pending(),
            "leases": node.leases.lease_count(),
            "memory": node.memory.figures(),
            "store": store,
            "learned": node.learning.figures(),
            "dead_actors": self.listings.dead_actors(),
        }

    def _node_rows(self) -> list[NodeRow]:
        """Each node: what it has, what is free of it, and whether it is there, leaves or is gone."""
        leases = self.node.leases
        found: list[NodeRow] = []
        for row in self.listings.nodes():
            node_id = bytes.fromhex(row["node_id"])
            is_alive = row["state"] == "ALIVE"
            member = self.node.members.get(node_id)
            found.append(
                {
                    "node_id": row["node_id"],
                    "is_head_node": row["is_head_node"],
                    "state": "DRAINING" if member is not None and member.drained else row["state"],
                    "why": row["state_message"] or "",
                    "pid": os.getpid() if row["is_head_node"] else member.pid if member is not None else 0,
                    "total": leases.totals(node_id) if is_alive else {},
                    "available": leases.available(node_id) if is_alive else {},
                    "labels": row["labels"],
                }
            )
        return found

    def _pending(self) -> list[PendingRow]:
        kinds: dict[object, int] = {}
        return [
            {
                "shape": dict(row.spec.placement or row.spec.resources),
                "count": row.count,
                "waited_s": row.waited_s,
                "why": row.why,
                "infeasible": row.infeasible,
                "owner": row.owner.hex(),
                "depth": self.node.leases.depth(row.owner),
                "kind": kinds.setdefault(row.spec, len(kinds)),
            }
            for row in self.node.leases.table(self.node.now())
        ]

    # ------------------------------------------------------------------ debugging
    def _paused_tasks(self, _asker: Asker, _request: ask.PausedTasks) -> list[Pause]:
        """The tasks that stand in a debugger."""
        return list(self.node.pauses.rows.values())

    def _triggers(self, _asker: Asker, _request: ask.ListTriggers) -> list[Trigger]:
        """The breakpoints that were set from outside."""
        return list(self.node.pauses.triggers.values())

    def _add_trigger(self, _asker: Asker, request: ask.AddTrigger) -> int:
        """Set one more; its number."""
        return self.node.pauses.add(request.trigger)

    def _capture(self, _asker: Asker, request: ask.Capture) -> list[str]:
        """Have runs of functions leave capsules, or no longer; all that do."""
        return self.node.pauses.capture(request.names, wanted=request.wanted)

    def _clear_triggers(self, _asker: Asker, request: ask.ClearTriggers) -> list[int]:
        """Remove some, or all; the numbers of those that were there."""
        return self.node.pauses.clear(request.numbers)

    def store_figures(self) -> dict[str, int]:
        """How many segments there are in shared memory, and their bytes."""
        return self.node.stores.figures()

    def _stop(self, _asker: Asker, request: ask.StopSession) -> bool:
        """End the session."""
        self.node.loop.after(0.01, lambda: self.node.stop(request.reason))
        return True

    # ------------------------------------------------------------------ actors
    def _register_named(self, asker: Asker, request: ask.RegisterNamed) -> bytes:
        """Register a named actor; returns its id, or that of the one that exists."""
        _, actor_id, name, namespace, options = request
        return self.node.keeper.register(asker.process, actor_id, name, namespace, options)

    def _get_actor(self, _asker: Asker, request: ask.GetActor) -> tuple[bytes, bytes]:
        """The handle of a named actor: (actor id, what a handle needs, packed)."""
        _, name, namespace = request
        actor_id = self.node.keeper.actors.lookup(name, namespace)
        row = self.node.keeper.actors.get(actor_id) if actor_id is not None else None
        if row is None:
            rows = self.node.keeper.actors.rows()
            names = sorted(r.name for r in rows if r.name and r.namespace == namespace and r.state != DEAD)
            raise ValueError(
                f"There is no live actor named {name!r} in namespace {namespace!r}. Names: {names}. "
                "See: sundog.util.list_named_actors(all_namespaces=True)"
            )
        return row.actor_id, registration_of(row)["handle"]

    def _actor_info(self, _asker: Asker, request: ask.ActorInfo) -> dict[str, object] | None:
        """State and process of one actor; None if it cannot be of this session."""
        actor_id = request.actor_id
        row = self.node.keeper.actors.get(actor_id)
        if row is not None:
            return self.listings.actor(row)
        # The actor is not registered yet, or forgotten; its creator is connected.
        return {} if actor_id[:PROCESS_BYTES] in self.node.processes else None

    def _list_named_actors(self, asker: Asker, request: ask.ListNamedActors) -> list[object]:
        """Names of live actors."""
        job = self.node.jobs.get(asker.process.job_id)
        namespace = job.namespace if job is not None else ""
        rows = [row for row in self.node.keeper.actors.rows() if row.name and row.state != DEAD]
        if request.all_namespaces:
            return [{"namespace": row.namespace, "name": row.name} for row in rows]
        return [row.name for row in rows if row.namespace == namespace]

    # ------------------------------------------------------------------ lists
    def _list(self, asker: Asker, request: ask.ListRows) -> tuple[list[dict[str, object]], list[int]] | Later:
        """Rows for the state API, and the pids of processes that did not tell theirs in time."""
        if request.what in ("objects", "tasks"):
            self._gather(asker, request.what, request.patience_s)
            return LATER
        # the client also reads the records, for facts that the node has forgotten
        self.node.records.write_early()
        name = request.what.replace("-", "_")
        if name not in _LISTS:
            raise ValueError(f"There is no list of {request.what!r}.")
        return getattr(self.listings, name)(), []

    def _look_at(self, asker: Asker, request: ask.LookAt) -> Later:
        """What processes tell of themselves now (`wire/looks.py`), and which of them did not answer in time."""
        self.looks.ask(request, asker.answer)
        return LATER

    def looked(self, process: Process, message: Looked) -> None:
        """A process tells what it does, as it was asked."""
        self.looks.looked(process, message)

    def _end_worker(self, _asker: Asker, request: ask.EndWorker) -> bool:
        found = self.node.processes.get(bytes.fromhex(request.process_id))
        if found is None or found.kind != "worker":
            return False
        self.node.workers.kill(found.process_id, request.reason, intended=False)
        return True

    def _gather(self, asker: Asker, what: str, patience_s: float) -> None:
        """Ask every process for its rows; answer when all that live have, or after a while."""
        token = next(self._tokens)
        asked = {p.process_id for p in self.node.processes.values() if p.pid}
        rows: list[dict[str, object]] = []

        def finish() -> None:
            if self._gathering.pop(token, None) is not None:
                silent = [p.pid for p in self.node.processes.values() if p.process_id in asked]
                asker.answer((rows, silent))

        if what == "tasks":
            rows += self.listings.creations()
        self._gathering[token] = (asked, rows, finish)
        for process_id in list(asked):
            self.node.processes[process_id].line.send(Describe(token, what))
        if asked:
            self.node.loop.after(patience_s, finish)
        else:
            finish()

    def described(self, process: Process, message: Described) -> None:
        """The rows of one process."""
        found = self._gathering.get(message.number)
        if found is None:
            return
        asked, collected, finish = found
        asked.discard(process.process_id)
        collected.extend(dict(row, job=process.job_id.hex()) for row in message.rows)
        if not asked:
            finish()

    def process_died(self, process_id: bytes) -> None:
        """The process will not tell any more."""
        if "looks" in self.__dict__:
            self.looks.process_died(process_id)
        for asked, _, finish in list(self._gathering.values()):
            asked.discard(process_id)
            if not asked:
                finish()

    # ------------------------------------------------------------------ news for owners
    def infeasible(self, step: Infeasible) -> None:
        """A request fits no node: tell its owner, once."""
        node = self.node
        if len(step.owner) == 8:
            process = node.processes.get(step.owner)
            if process is not None:
                assert isinstance(step.key, int)
                process.line.send(LeaseInfeasible(step.key, dict(step.spec.resources), step.reason))
            return
        row = node.keeper.infeasible(step.owner)
        if row is None:
            return
        if step.reason == GROUP_REMOVED or step.spec.strategy[0] == "node":
            node.keeper.refuse(
                row,
                ActorUnschedulableError(
                    f"Actor {registration_of(row)['class_name']} ({row.actor_id.hex()}) can never be "
                    f"placed: {step.reason}.",
                    actor_id=row.actor_id.hex(),
                ),
            )
            return
        process = node.processes.get(row.owner)
        if process is not None:
            resources = dict(step.spec.placement or step.spec.resources)
            process.line.send(ActorInfeasible(registration_of(row)["class_name"], resources, step.reason))

    def environment_failed(self, env_key: str, text: str, facts: dict[str, object]) -> None:
        """A runtime environment cannot be set up: fail what waits for it."""
        environment = self.node.workers.environments.get(env_key)
        if environment is None or environment.error:
            return
        environment.error, environment.facts = text, facts
        self.node.chronicle.environment_changed(environment)
        self.node.keeper.environment_failed(environment)
        for process in list(self.node.processes.values()):
            if process.job_id == environment.job_id:
                process.line.send(EnvFailed(env_key, text, facts))
