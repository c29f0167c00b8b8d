"""Carries out what plans say: makes, watches, asks and ends replicas.

Owns the actors of replicas, their rows on the board and the tasks that wait for them. What comes of it goes back to
the plan as an event. In the controller's loop.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING

import sundog
from sundog.exceptions import RayActorError, RayTaskError
from sundog.observe.serve_files import ROWS
from sundog.serve import plan as plans
from sundog.serve.deployment_actors import ensure_deployment_actors
from sundog.serve.plan import DeploymentPlan, DeploymentTarget, ReplicaRow
from sundog.serve.replica import ReplicaActor, ReplicaBoot, ReplicaFacts
from sundog.serve.rows import NAMESPACE, DeploymentID, ReplicaState
from sundog.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

if TYPE_CHECKING:
    from sundog.actor import ActorHandle
    from sundog.plain import JsonObject
    from sundog.serve.controller import ControllerCore
    from sundog.util.placement_group import PlacementGroup

_STATS_S = 1.0  # the shortest time between two requests for the metrics of a custom policy
_PLACE_S = 0.2  # time between two searches for a node that can take one more replica
_CONCURRENT_CALLS = 100_000
_DEAD_MAX = 10  # as many as Ray Serve tells of


class Living:
    """A replica's actor, and what is known of it."""

    def __init__(self, row: ReplicaRow, actor: ActorHandle[object], board_row: int) -> None:
        self.row = row
        self.actor = actor
        self.board_row = board_row
        self.facts: ReplicaFacts | None = None
        self.models: tuple[str, ...] = ()
        self.stats: JsonObject = {}
        self.group: PlacementGroup | None = None
        self.watch: asyncio.Task[None] | None = None
        self.poll: asyncio.Task[None] | None = None


class Replicas:
    """All replicas of all deployments."""

    def __init__(self, core: ControllerCore) -> None:
        self.core = core
        self.living: dict[str, Living] = {}
        self.rows_taken: set[int] = set()
        self.nodes: dict[str, str] = {}  # where a replica is, or is about to be
        self.dead: dict[
            DeploymentID, deque[Living]
        ] = {}  # the last ones that had begun: their logs are still there
        self._tasks: set[asyncio.Task[object]] = set()

    def run(self, coro: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run in the background, and keep until done."""
        task = asyncio.get_running_loop().create_task(coro)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def take_row(self) -> int:
        """A free row of the board; -1 if there is none, and replicas are then counted by each process for itself."""
        for row in range(ROWS):
            if row not in self.rows_taken:
                self.rows_taken.add(row)
                self.core.board.clear_row(row)
                return row
        return -1

    def do(self, plan: DeploymentPlan, action: plans.Action) -> None:
        """Carry out one action."""
        if isinstance(action, plans.Start):
            self.run(self._start(plan, action.row, action.target))
        elif isinstance(action, plans.Stop):
            self.run(self._stop(plan, action.row, action.graceful))
        elif isinstance(action, plans.Reconfigure):
            self.run(self._reconfigure(plan, action.row, action.target))
        else:
            self.run(self._check(plan, action.row))

    # ------------------------------------------------------------------ start
    async def _start(self, plan: DeploymentPlan, row: ReplicaRow, target: DeploymentTarget) -> None:
        name = row.id.unique_id
        try:
            await ensure_deployment_actors(row.id.deployment_id, target)
            node = await self._node_for(plan, row, target)
            if plan.replicas.get(name) is not row or row.state != ReplicaState.STARTING:
                return  # the replica is not needed any more
            living = self._create(row, target, node)
        except Exception as error:
            self.nodes.pop(name, None)
            plan.start_failed(name, _told(error), self.core.now())
            self.core.wake()
            return
        self.living[name] = living
        self.core.dirty = True
        self.watch(plan, row)
        await self._ready(plan, row, living)

    async def _node_for(self, plan: DeploymentPlan, row: ReplicaRow, target: DeploymentTarget) -> str | None:
        """The node for a replica whose deployment limits its replicas per node, once a node has a place; None: any."""
        limit = target.process.get("max_replicas_per_node")
        while limit and plan.replicas.get(row.id.unique_id) is row and row.state == ReplicaState.STARTING:
            taken = Counter(self.nodes[name] for name in plan.replicas if name in self.nodes)
            for node in alive_nodes():
                if taken[node] < limit:
                    self.nodes[row.id.unique_id] = node
                    return node
            await asyncio.sleep(_PLACE_S)
        return None

    def _create(self, row: ReplicaRow, target: DeploymentTarget, node: str | None) -> Living:
        core = self.core
        boot = ReplicaBoot(
            row.id,
            core.store.code(target.code_key),
            target.config,
            target.version,
            row.rank,
            target.num_replicas,
            core.log_folder,
            core.logging_of(row.id.deployment_id.app_name),
            row.gang,
        )
        options = {
            key: value
            for key, value in target.process.get("ray_actor_options", {}).items()
            if value is not None
        }
        group = None
        if node is not None:
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node, soft=False)
        if target.process.get("placement_group_bundles"):
            from sundog.util.placement_group import placement_group

            group = placement_group(
                target.process["placement_group_bundles"],
                strategy=target.process.get("placement_group_strategy") or "PACK",
                lifetime="detached",
                name=row.id.to_full_id_str(),
            )
            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                group, placement_group_bundle_index=0, placement_group_capture_child_tasks=True
            )
        actor = (
            sundog.remote(ReplicaActor)
            .options(
                name=row.id.to_full_id_str(),
                namespace=NAMESPACE,
                lifetime="detached",
                max_restarts=0,
                max_concurrency=_CONCURRENT_CALLS,
                **options,
            )
            .remote(boot)
        )
        living = Living(row, actor, self.take_row())
        living.group = group
        return living

    async def _ready(self, plan: DeploymentPlan, row: ReplicaRow, living: Living) -> None:
        name = row.id.unique_id
        try:
            living.facts = await living.actor.initialize.remote()
        except Exception as error:
            if self.living.get(name) is living and row.state != ReplicaState.STOPPING:
                if row.state in (ReplicaState.STARTING, ReplicaState.RECOVERING):
                    plan.start_failed(name, _told(error), self.core.now())
                self.end(name)
            self.core.wake()
            return
        self.nodes[name] = living.facts.node_id
        plan.started(name, self.core.now())
        row.started_s = row.started_s or time.time()
        self.core.dirty = True
        living.poll = self.run(self._poll(plan, row, living))
        self.core.wake()

    def watch(self, plan: DeploymentPlan, row: ReplicaRow) -> None:
        """Learn of a replica's death when it happens."""
        living = self.living[row.id.unique_id]
        living.watch = self.run(self._watch(plan, row, living))

    async def _watch(self, plan: DeploymentPlan, row: ReplicaRow, living: Living) -> None:
        name = row.id.unique_id
        try:
            await living.actor.parked.options(enable_task_events=False).remote()
        except RayActorError as error:
            if self.living.get(name) is not living:
                return
            if row.state == ReplicaState.STARTING and getattr(error, "actor_init_failed", False):
                return
            for action in plan.died(name, _told(error), self.core.now()):
                self.do(plan, action)
            self.end(name)
            self.core.wake()
        except Exception:
            return

    async def recover(self, plan: DeploymentPlan, row: ReplicaRow, board_row: int) -> None:
        """Find a replica that an earlier life of the controller made."""
        name = row.id.unique_id
        try:
            actor = sundog.get_actor(row.id.to_full_id_str(), namespace=NAMESPACE)
        except ValueError:
            plan.replicas.pop(name, None)
            return
        living = self.living[name] = Living(row, actor, board_row)
        self.rows_taken.add(board_row)
        if row.state == ReplicaState.STOPPING:
            self.end(name)
            plan.stopped(name)
            return
        row.state, row.is_checking = ReplicaState.RECOVERING, False
        self.watch(plan, row)
        await self._ready(plan, row, living)

    # ------------------------------------------------------------------ while it runs
    async def _reconfigure(self, plan: DeploymentPlan, row: ReplicaRow, target: DeploymentTarget) -> None:
        name = row.id.unique_id
        living = self.living.get(name)
        if living is None:
            return
        try:
            await living.actor.reconfigure.remote(target.config, row.rank, target.num_replicas)
        except RayActorError:
            return  # the watcher of the replica notices it
        except Exception as error:
            for action in plan.reconfigure_failed(name, _told(error), self.core.now()):
                self.do(plan, action)
        else:
            plan.reconfigured(name, self.core.now())
        self.core.wake()

    async def _check(self, plan: DeploymentPlan, row: ReplicaRow) -> None:
        name = row.id.unique_id
        living, target = self.living.get(name), plan.target
        if living is None or target is None:
            return
        try:
            await asyncio.wait_for(living.actor.check_health.remote(), target.config.health_check_timeout_s)
        except RayActorError:
            return
        except (TimeoutError, Exception) as error:
            told = "it did not answer in time." if isinstance(error, asyncio.TimeoutError) else _told(error)
            for action in plan.unhealthy(name, told, self.core.now()):
                self.do(plan, action)
            self.core.wake()
        else:
            plan.healthy(name, self.core.now())

    async def _poll(self, plan: DeploymentPlan, row: ReplicaRow, living: Living) -> None:
        """Ask for what users record for routing and autoscaling, if they do."""
        target = plan.target
        if target is None:
            return
        router, scaling = target.config.request_router_config, target.config.autoscaling_config
        spec = self.core.apps.specs.get(plan.id.app_name)
        for_all = spec is not None and spec.autoscaling_policy is not None
        custom_policy = scaling is not None and (for_all or not scaling.policy.is_default_policy_function())
        if router.is_default_request_router() and not custom_policy:
            return
        period = router.request_routing_stats_period_s
        if custom_policy and scaling is not None:
            period = min(_STATS_S, scaling.metrics_interval_s)
        with suppress(RayActorError):
            while self.living.get(row.id.unique_id) is living:
                stats = await living.actor.routing_stats.remote()
                if stats != living.stats:
                    living.stats = stats
                    self.core.publish_deployment(plan)
                if custom_policy:
                    self.core.autoscaler.record(
                        plan.id, row.id, await living.actor.autoscaling_stats.remote()
                    )
                await asyncio.sleep(period)

    # ------------------------------------------------------------------ end
    async def _stop(self, plan: DeploymentPlan, row: ReplicaRow, graceful: bool) -> None:
        name = row.id.unique_id
        living = self.living.get(name)
        self.core.publish_deployment(plan)  # no router may choose it any more
        if living is not None and graceful and living.facts is not None and plan.target is not None:
            with suppress(Exception):
                await asyncio.wait_for(living.actor.refuse.remote(), 1)
            plan.refusing(name)
            self.core.wake()
            config = plan.target.config
            # A deleted deployment has no other replica that a late request could go to: no router is to be told.
            wait = 0.0 if plan.is_deleting else config.graceful_shutdown_wait_loop_s
            limit = config.graceful_shutdown_timeout_s
            with suppress(Exception, asyncio.TimeoutError):
                await asyncio.wait_for(living.actor.drain.remote(wait, limit), limit + 0.5)
        self.end(name)
        plan.stopped(name)
        self.core.dirty = True
        self.core.wake()

    def end(self, name: str) -> None:
        """End a replica's process, whatever it does."""
        living = self.living.pop(name, None)
        self.nodes.pop(name, None)
        if living is None:
            return
        if living.facts is not None:
            self.dead.setdefault(living.row.id.deployment_id, deque(maxlen=_DEAD_MAX)).append(living)
        for task in (living.watch, living.poll):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        with suppress(Exception):
            sundog.kill(living.actor)
        if living.group is not None:
            from sundog.util.placement_group import remove_placement_group

            with suppress(Exception):
                remove_placement_group(living.group)
        if living.board_row >= 0:
            self.rows_taken.discard(living.board_row)

    def end_all(self) -> None:
        """End every replica at once."""
        for name in list(self.living):
            self.end(name)
        for task in list(self._tasks):
            if task is not asyncio.current_task():
                task.cancel()


def alive_nodes() -> list[str]:
    """The nodes that can take replicas."""
    return [each["NodeID"] for each in sundog.nodes() if each["Alive"]]


def _told(error: BaseException) -> str:
    if isinstance(error, RayTaskError):
        return str(error)
    return f"{type(error).__name__}: {error}"
