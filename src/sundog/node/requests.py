"""Requests that want an answer: resources, nodes, names, placement groups, the state of everything.

Each verb is a method `do_<verb>`; what it returns (or raises) is the answer. A verb that must wait keeps
the request and answers later. Runs on the node's only thread.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sundog.exceptions import ActorUnschedulableError, RaySystemError
from sundog.ids import PROCESS_BYTES, random_id
from sundog.node.listings import Listings
from sundog.node.rows import Process
from sundog.state.actors import DEAD
from sundog.state.instructions import GROUP_REMOVED, Infeasible

if TYPE_CHECKING:
    from sundog.node.looks import Looks
    from sundog.node.program import Node

_LATER = object()
_GATHER_S = 10.0
_LISTS = ("actors", "workers", "nodes", "jobs", "placement_groups", "runtime_envs")


class Requests:
    """Answers requests of drivers, workers and commands."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.listings = Listings(node)
        self._group_waiters: dict[bytes, list[Callable[[], None]]] = {}
        self._tokens = itertools.count(1)
        self._gathering: dict[int, tuple[set[bytes], list[dict[str, Any]], Callable[[], None]]] = {}

    @cached_property
    def looks(self) -> Looks:
        """Questions to processes; loaded when the first is asked."""
        from sundog.node.looks import Looks

        return Looks(self.node)

    def handle(self, process: Process, number: int, verb: str, args: tuple[Any, ...]) -> None:
        """Answer one request."""
        method = getattr(self, "do_" + verb, None)
        try:
            if method is None:
                raise RaySystemError(f"The node does not know the request {verb!r}.")
            answer = method(process, number, *args)
        except Exception as error:
            process.line.send(("answer", number, False, error))
            return
        if answer is not _LATER:
            process.line.send(("answer", number, True, answer))

    # ------------------------------------------------------------------ resources and nodes
    def do_cluster_resources(self, _process: Process, _number: int) -> dict[str, float]:
        """All resources."""
        return self.node.leases.totals()

    def do_available_resources(self, _process: Process, _number: int) -> dict[str, float]:
        """Free resources; what is used up is left out, as in Ray."""
        return {name: amount for name, amount in self.node.leases.available().items() if amount > 0}

    def do_nodes(self, _process: Process, _number: int) -> list[dict[str, Any]]:
        """Rows in the shape of `nodes()`."""
        node = self.node
        host = os.uname().nodename
        return [
            {
                "NodeID": node.node_id.hex(),
                "Alive": True,
                "NodeManagerAddress": "127.0.0.1",
                "NodeManagerHostname": host,
                "NodeName": "127.0.0.1",
                "NodeManagerPort": 0,
                "ObjectManagerPort": 0,
                "ObjectStoreSocketName": node.session["shm_root"],
                "RayletSocketName": f"{node.session['path']}/node.sock",
                "MetricsExportPort": 0,
                "MetricsAgentPort": 0,
                "DashboardAgentListenPort": 0,
                "RuntimeEnvAgentPort": 0,
                "DeathReason": 0,
                "DeathReasonMessage": "",
                "alive": True,
                "Resources": node.leases.totals(node.node_id),
                "Labels": dict(node.params["labels"]),
            }
        ]

    def do_status(self, _process: Process, _number: int) -> dict[str, Any]:
        """What `sundog status` shows."""
        node = self.node
        kinds: dict[str, int] = {}
        for state in self.listings.states().values():
            kinds[state] = kinds.get(state, 0) + 1
        actors: dict[str, int] = {}
        for row in node.keeper.actors.rows():
            actors[row.state] = actors.get(row.state, 0) + 1
        store = _store_figures(node.session["shm_root"]) | node.store.figures()
        available = node.leases.available()
        if "object_store_memory" in available:
            # Nobody leases it: what is used of it are the objects that are there.
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
            "actors": actors,
            "pending": self._pending(),
            "memory": node.memory.figures(),
            "store": store,
            "dead_actors": self.listings.dead_actors(),
        }

    def _pending(self) -> list[dict[str, Any]]:
        return [
            {
                "shape": dict(row.spec.placement or row.spec.resources),
                "count": row.count,
                "waited_s": row.waited_s,
                "why": row.why,
                "infeasible": row.infeasible,
            }
            for row in self.node.leases.table(self.node.now())
        ]

    # ------------------------------------------------------------------ debugging
    def do_paused(self, _process: Process, _number: int) -> list[Any]:
        """The tasks that stand in a debugger."""
        return list(self.node.pauses.rows.values())

    def do_triggers(self, _process: Process, _number: int) -> list[Any]:
        """The breakpoints that were set from outside."""
        return list(self.node.pauses.triggers.values())

    def do_add_trigger(self, _process: Process, _number: int, trigger: Any) -> int:
        """Set one more; its number."""
        return self.node.pauses.add(trigger)

    def do_clear_triggers(self, _process: Process, _number: int, numbers: list[int]) -> list[int]:
        """Remove some, or all; the numbers of those that were there."""
        return self.node.pauses.clear(numbers)

    def do_stop(self, _process: Process, _number: int, reason: str) -> bool:
        """End the session."""
        self.node.loop.after(0.01, lambda: self.node.stop(reason))
        return True

    # ------------------------------------------------------------------ actors
    def do_actor_register(
        self,
        process: Process,
        _number: int,
        actor_id: bytes,
        name: str,
        namespace: str,
        options: dict[str, Any],
    ) -> bytes:
        """Register a named actor; returns its id, or that of the one that exists."""
        found: bytes = self.node.keeper.register(process, actor_id, name, namespace, options)
        return found

    def do_get_actor(self, _process: Process, _number: int, name: str, namespace: str) -> Any:
        """The handle of a named actor: (actor id, what a handle needs)."""
        actor_id = self.node.keeper.actors.lookup(name, namespace)
        row = self.node.keeper.actors.get(actor_id) if actor_id is not None else None
        if row is None:
            rows = self.node.keeper.actors.rows()
            names = sorted(r.name for r in rows if r.name and r.namespace == namespace and r.state != DEAD)
            raise ValueError(
                f"There is no live actor named {name!r} in namespace {namespace!r}. Names: {names}. "
                "See: sundog.util.list_named_actors(all_namespaces=True)"
            )
        assert isinstance(row.spec, dict)
        return row.actor_id, row.spec["handle"]

    def do_actor_info(self, _process: Process, _number: int, actor_id: bytes) -> dict[str, Any] | None:
        """State and process of one actor; None if it cannot be of this session."""
        row = self.node.keeper.actors.get(actor_id)
        if row is not None:
            return self.listings.actor(row)
        # Not known yet, or no longer: whoever made it is here.
        return {} if actor_id[:PROCESS_BYTES] in self.node.processes else None

    def do_list_named_actors(self, process: Process, _number: int, all_namespaces: bool) -> list[Any]:
        """Names of live actors."""
        job = self.node.jobs.get(process.job_id)
        namespace = job.namespace if job is not None else ""
        rows = [row for row in self.node.keeper.actors.rows() if row.name and row.state != DEAD]
        if all_namespaces:
            return [{"namespace": row.namespace, "name": row.name} for row in rows]
        return [row.name for row in rows if row.namespace == namespace]

    # ------------------------------------------------------------------ placement groups
    def do_pg_create(
        self,
        process: Process,
        _number: int,
        bundles: list[dict[str, float]],
        strategy: str,
        name: str,
        lifetime: str,
        label_selectors: Any,
        namespace: str,
    ) -> tuple[bytes, bool]:
        """Create a placement group: its id, and whether it could be placed at once."""
        node = self.node
        pg_id = random_id(16)
        node.do(
            node.leases.create_group(
                pg_id,
                bundles,
                strategy,
                process.process_id,
                node.now(),
                name or "",
                lifetime or "",
                label_selectors or (),
                namespace,
            )
        )
        node.wake_ticks()
        return pg_id, self._group_state(pg_id) == "CREATED"

    def remove_group(self, pg_id: bytes) -> None:
        """Remove a placement group; what runs in it ends. Who asked does not wait."""
        self.node.do(self.node.leases.remove_group(pg_id, self.node.now()))

    def do_pg_wait(self, process: Process, number: int, pg_id: bytes, timeout_s: float | None) -> Any:
        """Answer once the group is placed (True) or the time is over (False)."""
        state = self._group_state(pg_id)
        if state == "CREATED":
            return True
        if state in ("REMOVED", None):
            return False
        if timeout_s is not None and timeout_s <= 0:
            return False
        answered = [False]

        def answer(value: bool) -> None:
            if not answered[0]:
                answered[0] = True
                process.line.send(("answer", number, True, value))

        def changed() -> None:
            now = self._group_state(pg_id)
            if now in ("CREATED", "REMOVED", None):
                answer(now == "CREATED")

        self._group_waiters.setdefault(pg_id, []).append(changed)
        if timeout_s is not None:
            self.node.loop.after(timeout_s, lambda: answer(False))
        return _LATER

    def group_changed(self, pg_id: bytes) -> None:
        """A group was placed or removed: answer who waits for it."""
        for call in self._group_waiters.pop(pg_id, []):
            call()

    def _group_state(self, pg_id: bytes) -> str | None:
        group = self.node.leases.group(pg_id)
        return None if group is None else group.state

    def do_pg_by_name(self, _process: Process, _number: int, name: str, namespace: str) -> bytes | None:
        """The id of the placement group with this name in this namespace."""
        return self.node.leases.group_named(name, namespace)

    def do_pg_table(self, _process: Process, _number: int, pg_id: bytes | None) -> dict[str, Any]:
        """Rows in the shape of `placement_group_table()`."""
        rows = {}
        for row in self.node.leases.group_table():
            if pg_id is not None and row.pg_id != pg_id:
                continue
            rows[row.pg_id.hex()] = {
                "placement_group_id": row.pg_id.hex(),
                "name": row.name,
                "bundles": {index: dict(bundle) for index, bundle in enumerate(row.bundles)},
                "bundles_to_node_id": {
                    index: (node_id.hex() if node_id else "") for index, node_id in enumerate(row.nodes)
                },
                "strategy": row.strategy,
                "state": row.state,
                "stats": {"scheduling_state": row.why or row.state},
            }
        return rows if pg_id is None else rows.get(pg_id.hex(), {})

    # ------------------------------------------------------------------ lists
    def do_list(
        self, process: Process, number: int, kind: str, detail: bool, patience_s: float = _GATHER_S
    ) -> Any:
        """Rows for the state API, and the pids of processes that did not tell theirs in time."""
        if kind in ("objects", "tasks"):
            self._gather(process, number, kind, patience_s)
            return _LATER
        name = kind.replace("-", "_")
        if name not in _LISTS:
            raise ValueError(f"There is no list of {kind!r}.")
        return getattr(self.listings, name)(), []

    def do_look(
        self,
        process: Process,
        number: int,
        question: str,
        arguments: tuple[Any, ...] = (),
        only: tuple[str, ...] = (),
        patience_s: float = _GATHER_S,
    ) -> Any:
        """What processes tell of themselves now (`wire/looks.py`), and who did not answer in time."""
        self.looks.ask(
            question,
            arguments,
            only,
            patience_s,
            lambda found: process.line.send(("answer", number, True, found)),
        )
        return _LATER

    def _gather(self, process: Process, number: int, kind: str, patience_s: float) -> None:
        """Ask every process for its rows; answer when all who live have, or after a while."""
        token = next(self._tokens)
        asked = {p.process_id for p in self.node.processes.values() if p.pid}
        rows: list[dict[str, Any]] = []

        def finish() -> None:
            if self._gathering.pop(token, None) is not None:
                silent = [p.pid for p in self.node.processes.values() if p.process_id in asked]
                process.line.send(("answer", number, True, (rows, silent)))

        if kind == "tasks":
            rows += self.listings.creations()
        self._gathering[token] = (asked, rows, finish)
        for process_id in list(asked):
            self.node.processes[process_id].line.send(("describe", token, kind))
        self.node.loop.after(patience_s, finish)

    def described(self, process: Process, token: int, rows: list[dict[str, Any]]) -> None:
        """The rows of one process."""
        found = self._gathering.get(token)
        if found is None:
            return
        asked, collected, finish = found
        asked.discard(process.process_id)
        collected.extend(dict(row, job=process.job_id.hex()) for row in rows)
        if not asked:
            finish()

    def process_died(self, process_id: bytes) -> None:
        """It will not tell any more."""
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
                process.line.send(("infeasible", step.key, dict(step.spec.resources), step.reason))
            return
        row = node.keeper.infeasible(step.owner)
        if row is None:
            return
        if step.reason == GROUP_REMOVED or step.spec.strategy[0] == "node":
            node.keeper.refuse(
                row,
                ActorUnschedulableError(
                    f"Actor {row.spec['class_name']} ({row.actor_id.hex()}) can never be placed: {step.reason}.",  # type: ignore[index]
                    actor_id=row.actor_id.hex(),
                ),
            )
            return
        process = node.processes.get(row.owner)
        if process is not None:
            assert isinstance(row.spec, dict)
            process.line.send(
                (
                    "infeasible_actor",
                    row.spec["class_name"],
                    dict(step.spec.placement or step.spec.resources),
                    step.reason,
                )
            )

    def environment_failed(self, env_key: str, text: str, facts: dict[str, Any]) -> None:
        """A runtime environment cannot be set up: fail what waits for it."""
        environment = self.node.workers.environments.get(env_key)
        if environment is None or environment.error:
            return
        environment.error, environment.facts = text, facts
        self.node.keeper.environment_failed(environment)
        for process in list(self.node.processes.values()):
            if process.job_id == environment.job_id:
                process.line.send(("env_failed", env_key, text, facts))


def _store_figures(shm_root: str) -> dict[str, int]:
    count = used = 0
    try:
        with os.scandir(shm_root) as entries:
            for entry in entries:
                if not entry.name.startswith("."):
                    count += 1
                    used += entry.stat().st_blocks * 512
    except OSError:
        pass
    return {"segments": count, "used_bytes": used}
