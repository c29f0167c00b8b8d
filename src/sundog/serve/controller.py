"""The controller: the one process that knows what should run and what does.

::

    serve.run · deploy ──► ControllerCore ──plans──► replicas, proxies
    routers, proxies  ◄──topics── (long polling)
    disk              ◄──every change──  so that a controller that was killed comes back and continues

Owns applications, plans, what is published and what is on disk. Requests never pass here: while the controller is
away they continue, and only changes wait. The decisions are in `plan.py`; this is the shell around them. An asyncio
actor that restarts.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import sundog
from sundog.observe.serve_files import COLUMNS
from sundog.plain import NamedTuple
from sundog.serve.applications import Applications
from sundog.serve.autoscaling import Autoscaler
from sundog.serve.board import QueueBoard, create
from sundog.serve.controller_health import LoopHealth
from sundog.serve.deployment_actors import end_deployment_actors
from sundog.serve.logs import configure
from sundog.serve.plan import DeploymentPlan, DeploymentTarget
from sundog.serve.proxies import Proxies
from sundog.serve.replicas import Replicas, alive_nodes
from sundog.serve.rows import (
    DeploymentID,
    ReplicaState,
    Route,
    RunningReplicaInfo,
    random_name,
)
from sundog.serve.schema import LoggingConfig, ServeStatus
from sundog.serve.specs import AppSpec, Kept, KeptDeployment, Revision, ServeOptions, SpecStore
from sundog.serve.targets import DeploymentTargets
from sundog.serve.telling import Teller
from sundog.serve.topics import Topics

if TYPE_CHECKING:
    from sundog.plain import JsonObject
    from sundog.serve.rows import Reported

_TICK_S = 0.1
_IDLE_TICK_S = 1.0
_REPORT_S = 0.5
ROUTES = ("routes",)


class ClientWelcome(NamedTuple):
    """What a process learns when it connects."""

    board_path: str
    column: int
    report_interval_s: float


class ControllerCore:
    """The controller without its calls."""

    def __init__(self, folder: str, options: ServeOptions) -> None:
        self.store = SpecStore(os.path.join(folder, "serve"))
        self.teller = Teller(self.store.folder)
        self.log_folder = os.path.join(folder, "logs", "serve")
        self.options = options
        create(self.store.board_path())
        self.board = QueueBoard(self.store.board_path(), 0)
        self.topics = Topics()
        self.autoscaler = Autoscaler()
        self.health = LoopHealth(time.time())
        self.plans: dict[DeploymentID, DeploymentPlan] = {}
        self.queue_rows: dict[DeploymentID, int] = {}
        self.replicas = Replicas(self)
        self.proxies = Proxies(self)
        self.apps = Applications(self)
        self.columns: dict[str, tuple[int, int]] = {}
        self.dirty = False
        self.is_over = False
        self._due = asyncio.Event()
        # set when the remains of an earlier controller have been found: then others may be informed
        self.recovered = asyncio.Event()
        # set when the port is open: the kernel keeps connections until a proxy accepts them
        self.is_bound = asyncio.Event()
        self._published: dict[DeploymentID, object] = {}
        self._scaled_s = 0.0
        runtime = sundog.get_runtime_context()
        self.node, self.worker_id = runtime.get_node_id(), runtime.get_worker_id()
        self.actor_id = runtime.get_actor_id() or ""
        self.log_path = ""

    def now(self) -> float:
        """The clock of plans."""
        return time.monotonic()

    def keep(self) -> None:
        """A caller has changed what is wanted. It is saved before the caller hears so: this process may be killed."""
        self.save()
        self.wake()

    def wake(self) -> None:
        """Something happened: look at the plans."""
        self._due.set()

    def logging_of(self, app: str) -> LoggingConfig:
        """How the replicas of an application log."""
        found = self.apps.specs.get(app)
        return found.logging if found is not None and found.logging is not None else self.options.logging

    # ------------------------------------------------------------------ life
    async def begin(self) -> None:
        """Go on where an earlier life ended, or begin; returns when HTTP is up.

        Raises:
            RuntimeError: the port cannot be had.
        """
        kept = self.store.load()
        if kept is not None:
            await self._recover(kept)
        self.log_path = configure("controller", str(os.getpid()), self.log_folder, self.options.logging)
        for plan in self.plans.values():
            self.publish_deployment(plan)
        self._publish_routes()
        self.recovered.set()
        self.dirty = True
        self.save()
        self.replicas.run(self._loop())
        await self.proxies.bind(kept.port if kept is not None else 0)
        self.is_bound.set()
        await self.proxies.begin()

    async def _recover(self, kept: Kept) -> None:
        self.options, self.columns = kept.options, kept.columns
        # before anything is saved: a controller that ends early must not forget the port
        self.proxies.port = kept.port
        for row in kept.deployments:
            plan = self.plan(row.id)
            plan.target, plan.previous = row.target, row.previous
            plan.status, plan.message = row.status, row.message
            plan.has_run, plan.is_promoted, plan.is_deleting = row.has_run, row.is_promoted, row.is_deleting
            self.queue_rows[row.id] = row.queue_row
            self.replicas.rows_taken.add(row.queue_row)
            plan.replicas = {each.id.unique_id: each for each in row.replicas}
        self.apps.recover(kept.apps)
        waiting = [
            self.replicas.run(
                self.replicas.recover(self.plans[row.id], each, row.board.get(each.id.unique_id, -1))
            )
            for row in kept.deployments
            for each in row.replicas
        ]
        if waiting:
            await asyncio.wait(waiting, timeout=10)

    def save(self) -> None:
        """Write what a next life must know, if it has changed."""
        if not self.dirty or self.is_over:
            return
        self.dirty = False
        rows = [
            KeptDeployment(
                each.id,
                each.target,
                each.previous,
                list(each.replicas.values()),
                {
                    name: self.replicas.living[name].board_row
                    for name in each.replicas
                    if name in self.replicas.living
                },
                self.queue_rows.get(each.id, -1),
                each.status,
                each.message,
                each.has_run,
                each.is_promoted,
                each.is_deleting,
            )
            for each in self.plans.values()
        ]
        self.store.save(Kept(self.options, self.proxies.port, self.columns, self.apps.kept(), rows))

    def plan(self, deployment: DeploymentID) -> DeploymentPlan:
        """The plan of a deployment, made if there is none."""
        found = self.plans.get(deployment)
        if found is None:
            found = self.plans[deployment] = DeploymentPlan(deployment, random_name)
            self.queue_rows[deployment] = self.replicas.take_row()
        return found

    # ------------------------------------------------------------------ the loop
    async def _loop(self) -> None:
        swept = 0.0
        while not self.is_over:
            try:
                is_busy = self._step()
                if self.now() - swept > 1:
                    swept = self.now()
                    self._sweep_columns()
            except Exception as error:  # a defect here must not stop the serving of requests
                import traceback

                traceback.print_exception(error)
                is_busy = True
            self._due.clear()
            pause_s, slept_from = _TICK_S if is_busy else _IDLE_TICK_S, self.now()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._due.wait(), pause_s)
            self.health.slept(self.now() - slept_from, pause_s)

    def _step(self) -> bool:
        """Look at every plan once. Whether something is under way."""
        now, began_s = self.now(), time.time()
        self._autoscale(now)
        is_busy = False
        for plan in list(self.plans.values()):
            before = plan.status, plan.message
            versions = {row.version for row in plan.replicas.values()}
            for action in plan.step(now, self._room(plan)):
                self.replicas.do(plan, action)
                self.dirty = True
            if (plan.status, plan.message) != before:
                self.dirty = True
            self.publish_deployment(plan)
            self._retire_actors(plan, versions)
            if plan.is_gone():
                self._remove(plan)
            is_busy = is_busy or plan.status.value not in ("HEALTHY", "DEPLOY_FAILED")
            if plan.target is not None and plan.target.config.health_check_period_s < 2 * _IDLE_TICK_S:
                is_busy = True
            if plan.target is not None and plan.target.config.autoscaling_config is not None:
                is_busy = True
        looked_s = time.time()
        self.apps.update()
        self.save()
        self.teller.tell(self.apps)
        self.health.passed(began_s, looked_s, time.time())
        return is_busy

    def _retire_actors(self, plan: DeploymentPlan, before: set[str]) -> None:
        target = plan.target
        if target is None or not target.config.deployment_actors:
            return
        live = {row.version for row in plan.replicas.values()}
        for version in before - live:
            if version != target.version or plan.is_deleting:
                end_deployment_actors(plan.id, DeploymentTarget(version, target.config, 0))

    def _remove(self, plan: DeploymentPlan) -> None:
        del self.plans[plan.id]
        if plan.target is not None:
            end_deployment_actors(plan.id, plan.target)
        self.replicas.rows_taken.discard(self.queue_rows.pop(plan.id, -1))
        self._published.pop(plan.id, None)
        self.topics.drop(("deployment", plan.id))
        self.autoscaler.forget(plan.id)
        self.replicas.dead.pop(plan.id, None)
        self.dirty = True

    def _room(self, plan: DeploymentPlan) -> int | None:
        """For how many more replicas of a plan there are resources; asked only while two versions run."""
        target = plan.target
        if target is None or not any(row.version != target.version for row in plan.replicas.values()):
            return None
        asked = target.process.get("ray_actor_options", {})
        wanted = {
            "CPU": asked.get("num_cpus") or 0,
            "GPU": asked.get("num_gpus") or 0,
            **(asked.get("resources") or {}),
        }
        free = sundog.available_resources()
        pending = sum(row.state == ReplicaState.STARTING for row in plan.replicas.values())
        fits = [int(free.get(key, 0) // amount) for key, amount in wanted.items() if amount]
        limit = target.process.get("max_replicas_per_node")
        if limit:
            fits.append(limit * len(alive_nodes()) - len(plan.replicas) + pending)
        return None if not fits else max(0, min(fits) - pending)

    def _autoscale(self, now: float) -> None:
        if now - self._scaled_s < _TICK_S:
            return
        self._scaled_s = now
        done = self.apps.autoscale_together()
        for plan in self.plans.values():
            config = plan.target.config.autoscaling_config if plan.target is not None else None
            if config is None or plan.is_deleting or plan.id in done:
                continue
            try:
                wanted = self.autoscaler.decide(plan, config, time.time())
            except Exception as error:
                plan.message = f"The autoscaling policy raised {type(error).__name__}: {error}"
                self.autoscaler.failed(plan.id, plan.message)
                continue
            self._scale(plan, wanted)

    def _scale(self, plan: DeploymentPlan, wanted: int) -> None:
        if plan.target is not None and wanted != plan.target.num_replicas:
            plan.scale(wanted)
            self.dirty = True

    # ------------------------------------------------------------------ what others read
    def publish_deployment(self, plan: DeploymentPlan) -> None:
        """Tell routers of a deployment, if there is news."""
        target = plan.target
        if target is None:
            return
        config = target.config
        found = []
        for row in plan.running():
            living = self.replicas.living.get(row.id.unique_id)
            if living is None or living.facts is None:
                continue
            found.append(
                RunningReplicaInfo(
                    row.id,
                    living.actor,
                    living.board_row,
                    config.max_ongoing_requests,
                    living.facts.node_id,
                    "127.0.0.1",
                    living.models,
                    living.stats,
                    living.facts.metadata,
                    plan.share(row),
                )
            )
        failed = plan.status.value == "DEPLOY_FAILED" and not found
        key = (
            [(each.replica_id, each.multiplexed_model_ids, each.routing_stats, each.share) for each in found],
            target.revision,
            target.version,
            failed,
        )
        if self._published.get(plan.id) == key:
            return
        self._published[plan.id] = key
        self.topics.publish(
            ("deployment", plan.id),
            DeploymentTargets(
                found,
                not failed,
                True,
                config.max_queued_requests,
                config.backpressure_config.status_code,
                config.backpressure_config.retry_after_s,
                self.queue_rows.get(plan.id, -1),
                config.request_router_config,
                config.autoscaling_config is not None,
            ),
        )

    def _publish_routes(self) -> None:
        self.topics.publish(ROUTES, self.routes())

    def routes(self) -> list[Route]:
        """Where requests go, longest prefix first."""
        found = [
            Route(each.route_prefix, each.name, each.ingress)
            for each in self.apps.specs.values()
            if each.route_prefix is not None
            and not self.apps.is_deleting(each.name)
            and DeploymentID(each.ingress, each.name) in self.plans
        ]
        return sorted(found, key=lambda each: -len(each.prefix))

    def routes_changed(self) -> None:
        """An application came or went."""
        self._publish_routes()

    # ------------------------------------------------------------------ processes
    def hello(self, process: str, pid: int) -> ClientWelcome:
        """A process connects: it gets a column of the board."""
        row = self.columns.get(process)
        if row is None:
            taken = {column for column, _ in self.columns.values()}
            column = next((each for each in range(1, COLUMNS) if each not in taken), -1)
            if column >= 0:
                self.board.clear_column(column)
                self.columns[process] = (column, pid)
                self.dirty = True
                self.wake()
        else:
            column = row[0]
        return ClientWelcome(self.store.board_path(), column, _REPORT_S)

    def _sweep_columns(self) -> None:
        for process, (column, pid) in list(self.columns.items()):
            if not os.path.exists(f"/proc/{pid}"):
                self.board.clear_column(column)
                del self.columns[process]
                self.dirty = True

    def report(self, process: str, rows: dict[DeploymentID, Reported]) -> None:
        """A process tells of its requests."""
        self.health.reports += 1
        for deployment, (waiting, running, answered) in rows.items():
            plan = self.plans.get(deployment)
            if plan is None:
                continue
            self.autoscaler.report(process, deployment, waiting, sum(running.values()))
            for name, (requests, errors, seconds) in answered.items():
                plan.observe(name, int(requests), int(errors), seconds)
        self.wake()


class ControllerActor:
    """The calls of the controller."""

    def __init__(self, folder: str, options: ServeOptions) -> None:
        self._folder, self._options = folder, options
        self._core: ControllerCore | None = None
        self._begun: asyncio.Future[None] | None = None

    async def _recovered(self) -> ControllerCore:
        """Every call waits until the controller has found what its last life left."""
        if self._core is None:
            self._core = ControllerCore(self._folder, self._options)
            self._begun = asyncio.ensure_future(self._core.begin())
        await self._core.recovered.wait()
        return self._core

    async def _bound(self) -> ControllerCore:
        """Calls that begin something wait for the port: replicas and proxies then start at the same time."""
        core = await self._recovered()
        assert self._begun is not None
        if not core.is_bound.is_set():
            bound = asyncio.ensure_future(core.is_bound.wait())
            await asyncio.wait((bound, self._begun), return_when=asyncio.FIRST_COMPLETED)
            bound.cancel()
            if not core.is_bound.is_set():
                await self._begun  # raises
        return core

    async def _ready(self) -> ControllerCore:
        """Most calls wait until HTTP is up too."""
        core = await self._recovered()
        assert self._begun is not None
        await asyncio.shield(self._begun)
        return core

    async def ready(self) -> tuple[str | None, int]:
        """Where HTTP is, once its port is open; raises if the port cannot be had."""
        core = await self._bound()
        return core.options.http.host, core.proxies.port

    async def check_alive(self) -> int:
        """Its process."""
        await self._ready()
        return os.getpid()

    async def hello(self, process: str, pid: int) -> ClientWelcome:
        """A process connects."""
        return (await self._recovered()).hello(process, pid)

    async def listen(self, key: object, seen: str | None, process: str) -> tuple[str, object]:
        """News of something."""
        return await (await self._recovered()).topics.listen(key, seen)

    async def report(self, process: str, at: float, rows: dict[DeploymentID, Reported]) -> None:
        """Numbers of a process."""
        (await self._ready()).report(process, rows)

    async def models_changed(self, deployment: DeploymentID, replica: str, models: tuple[str, ...]) -> None:
        """A replica has other models loaded."""
        core = await self._ready()
        living, plan = core.replicas.living.get(replica), core.plans.get(deployment)
        if living is not None and plan is not None:
            living.models = models
            core.publish_deployment(plan)

    async def deploy(self, specs: list[AppSpec]) -> None:
        """Run applications."""
        core = await self._bound()
        core.apps.deploy(specs)
        core.keep()

    async def deploy_config(self, schema: dict[str, object]) -> None:
        """Run what a config says, and nothing else that a config has deployed."""
        core = await self._ready()
        core.apps.deploy_config(schema)
        core.keep()

    async def delete(self, names: list[str]) -> None:
        """End applications."""
        core = await self._ready()
        core.apps.delete(names)
        core.keep()

    async def wait_for(self, names: list[str], is_deleted: bool = False) -> dict[str, tuple[str, str]]:
        """Wait until applications run, have failed, or are gone; their status and message."""
        core = await self._ready()
        return await core.apps.wait_for(names, is_deleted)

    async def status(self) -> ServeStatus:
        """What `serve.status()` returns."""
        core = await self._ready()
        return core.apps.status()

    async def details(self) -> JsonObject:
        """What `GET /api/serve/applications/` returns."""
        core = await self._ready()
        return core.apps.details()

    async def ingress_of(self, app: str) -> str | None:
        """The ingress deployment of an application."""
        core = await self._ready()
        spec = core.apps.specs.get(app)
        return None if spec is None or core.apps.is_deleting(app) else spec.ingress

    async def has_deployment(self, deployment: DeploymentID) -> bool:
        """Whether there is such a deployment."""
        return deployment in (await self._ready()).plans

    async def version_of(self, deployment: DeploymentID) -> str | None:
        """The version of a deployment that runs, or is about to."""
        plan = (await self._ready()).plans.get(deployment)
        return None if plan is None or plan.target is None else plan.target.version

    async def scale(self, deployment: DeploymentID, count: int) -> None:
        """Set the number of replicas from outside; raises ValueError if the application does not allow that."""
        core = await self._ready()
        core.apps.scale(deployment, count)
        core.keep()

    async def roll_back(self, app: str, number: int | None) -> int:
        """Return an application to an earlier revision."""
        core = await self._ready()
        found = core.apps.roll_back(app, number)
        core.keep()
        return found

    async def promote(self, app: str) -> None:
        """Let the canary of an application take over."""
        core = await self._ready()
        core.apps.promote(app)
        core.keep()

    async def history(self, app: str) -> list[Revision]:
        """What was deployed when."""
        return (await self._ready()).apps.revisions(app)

    async def options(self) -> tuple[ServeOptions, int]:
        """How Serve runs."""
        core = await self._ready()
        return core.options, core.proxies.port

    async def shut_down(self) -> None:
        """End everything but this process: the caller ends it."""
        core = await self._ready()
        core.teller.end(core.apps)
        core.apps.delete(list(core.apps.specs))
        core.wake()
        waits = max(
            [20.0]
            + [
                each.target.config.graceful_shutdown_timeout_s
                for each in core.plans.values()
                if each.target is not None
            ]
        )
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(core.apps.wait_for_none(), min(waits, 30.0) + 2)
        core.is_over = True
        core.wake()
        await core.proxies.end()
        core.replicas.end_all()
        core.store.clear()
