"""The applications that should run: their deployments, routes, status and history.

Owns what was deployed under which name, and when. What becomes of each deployment's replicas is its plan's affair.
In the controller's loop.
"""

from __future__ import annotations

import asyncio
import time
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import sundog
from sundog.serve.autoscaling import bound
from sundog.serve.config import AutoscalingConfig
from sundog.serve.exceptions import RayServeException
from sundog.serve.plan import DeploymentPlan, DeploymentTarget
from sundog.serve.reporting import details_of, status_of
from sundog.serve.rows import DeploymentID, DeploymentStatus, ReplicaState
from sundog.serve.schema import APIType, ApplicationStatus, ServeDeploySchema, ServeStatus
from sundog.serve.specs import AppSpec, DeploymentSpec, KeptApp, Revision

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sundog.plain import JsonObject
    from sundog.serve.config import Policy
    from sundog.serve.controller import ControllerCore
    from sundog.serve.schema import ServeApplicationSchema

_HISTORY_MAX = 20
LONG_S = 30.0  # a deployment that takes longer is reported again and again
_RESOURCES = ("num_cpus", "num_gpus", "memory", "resources")
_A, _D = ApplicationStatus, DeploymentStatus


class Applications:
    """All applications, by name."""

    def __init__(self, core: ControllerCore) -> None:
        self.core = core
        self.specs: dict[str, AppSpec] = {}
        self.deployed_s: dict[str, float] = {}
        self.history: dict[str, list[tuple[Revision, AppSpec]]] = {}
        self.states: dict[str, tuple[ApplicationStatus, str]] = {}
        self._deleting: set[str] = set()
        self._building: dict[str, asyncio.Task[None]] = {}
        self._build_errors: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._policies: dict[str, tuple[Policy, JsonObject]] = {}

    def is_deleting(self, name: str) -> bool:
        """Whether an application is on its way out."""
        return name in self._deleting

    def kept(self) -> list[KeptApp]:
        """For the disk; the code of deployments has its own files."""
        return [
            KeptApp(
                _without_code(spec),
                self.deployed_s.get(name, 0.0),
                [(row, _without_code(each)) for row, each in self.history.get(name, ())],
                name in self._deleting,
            )
            for name, spec in self.specs.items()
        ]

    def recover(self, kept: list[KeptApp]) -> None:
        """Go on with what an earlier life of the controller kept."""
        for row in kept:
            name = row.spec.name
            self.specs[name], self.deployed_s[name] = row.spec, row.deployed_s
            self.history[name] = row.history
            if row.is_deleting:
                self._deleting.add(name)

    # ------------------------------------------------------------------ deploy
    def deploy(self, specs: list[AppSpec]) -> None:
        """Run applications.

        Raises:
            RayServeException: a route prefix is another application's.
        """
        names = {each.name for each in specs}
        for spec in specs:
            for other in [*self.specs.values(), *specs]:
                clash = other.name != spec.name and other.route_prefix == spec.route_prefix is not None
                if clash and (other.name not in names or other in specs) and not self.is_deleting(other.name):
                    raise RayServeException(
                        f"Application {spec.name!r} was not deployed: its route_prefix {spec.route_prefix!r} belongs "
                        f"to application {other.name!r}. Take another route_prefix, or delete {other.name!r} first."
                    )
        for spec in specs:
            self._deploy(spec, "deploy")
        self.core.routes_changed()

    def _deploy(self, spec: AppSpec, what: str) -> None:
        core = self.core
        name = spec.name
        self._deleting.discard(name)
        self._build_errors.pop(name, None)
        self.specs[name] = spec
        self.deployed_s[name] = time.time()
        wanted = {DeploymentID(each.name, name) for each in spec.deployments}
        for plan in list(core.plans.values()):
            if plan.id.app_name == name and plan.id not in wanted:
                plan.delete()
        for each in spec.deployments:
            self._deploy_one(DeploymentID(each.name, name), each)
        rows = self.history.setdefault(name, [])
        number = rows[-1][0].number + 1 if rows else 1
        versions = {each.name: each.version for each in spec.deployments}
        rows.append((Revision(number, time.time(), what, "deploying", versions), spec))
        del rows[:-_HISTORY_MAX]
        core.dirty = True
        self.update()

    def _deploy_one(self, deployment: DeploymentID, spec: DeploymentSpec) -> None:
        core = self.core
        plan = core.plan(deployment)
        old = plan.target
        process = dict(spec.process)
        key = process.pop("code_key", None) or core.store.put_code(spec.code)
        spec.process["code_key"] = key
        count = _count(spec, old if not plan.is_deleting else None)
        revision = 0
        if old is not None and old.version == spec.version:
            revision = old.revision + (old.config != spec.config)
        plan.deploy(DeploymentTarget(spec.version, spec.config, count, key, process, revision))
        core.publish_deployment(plan)

    def deploy_config(self, given: dict[str, object]) -> None:
        """Run what a config says; applications of an earlier config that it does not name end."""
        schema = ServeDeploySchema.model_validate(given)
        wanted = {each.name for each in schema.applications}
        gone = [
            name
            for name, spec in self.specs.items()
            if spec.source == APIType.DECLARATIVE and name not in wanted
        ]
        self.delete(gone)
        for app in schema.applications:
            old = self.specs.get(app.name)
            self.specs[app.name] = AppSpec(
                app.name,
                app.route_prefix,
                old.ingress if old is not None else "",
                old.deployments if old is not None else [],
                app.logging_config,
                APIType.DECLARATIVE,
                app.model_dump(exclude_unset=True, mode="json"),
                app.external_scaler_enabled,
            )
            self._deleting.discard(app.name)
            self.deployed_s[app.name] = time.time()
            running = self._building.pop(app.name, None)
            if running is not None:
                running.cancel()
            self._build_errors.pop(app.name, None)
            self._building[app.name] = self.core.replicas.run(self._build(app.name, app, old))
        self.core.dirty = True
        self.update()

    async def _build(self, name: str, app: ServeApplicationSchema, old: AppSpec | None) -> None:
        """Import an application in a process of its own: what it imports must not be in the controller."""
        from sundog.serve.config_apps import build_from_config

        builder = sundog.remote(num_cpus=0, max_retries=1)(build_from_config)
        if app.runtime_env:
            builder = builder.options(runtime_env=app.runtime_env)
        try:
            spec: AppSpec = await builder.remote(
                app.model_dump(exclude_unset=True), _versions(old), None if old is None else old.config
            )
            self._building.pop(name, None)
            self.deploy([spec])
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._building.pop(name, None)
            self._build_errors[name] = f"Application {name!r} was not built from its config:\n{error}"
        self.core.wake()
        self.update()

    # ------------------------------------------------------------------ other wishes
    def delete(self, names: list[str]) -> None:
        """End applications; names that nothing has are ignored."""
        for name in names:
            if name not in self.specs:
                continue
            self._deleting.add(name)
            task = self._building.pop(name, None)
            if task is not None:
                task.cancel()
            for plan in self._plans(name):
                plan.delete()
            self.core.dirty = True
        if names:
            self.core.routes_changed()
            self.update()

    def scale(self, deployment: DeploymentID, count: int) -> None:
        """Set a number of replicas from outside."""
        spec, plan = self.specs.get(deployment.app_name), self.core.plans.get(deployment)
        if spec is None or plan is None:
            raise ValueError(f"{deployment} does not exist.")
        if not spec.external_scaler:
            raise ValueError(
                f"Application '{spec.name}' was not deployed with external_scaler_enabled=True, so its replicas cannot "
                "be set from outside."
            )
        plan.scale(count)
        self.core.dirty = True

    def roll_back(self, name: str, number: int | None) -> int:
        """Return to an earlier revision, by default the last good one before the present."""
        rows = self.history.get(name)
        if not rows:
            raise ValueError(f"Application '{name}' has no history: it does not run.")
        now = rows[-1]
        if number is None:
            good = [row for row in rows[:-1] if row[0].outcome == "running" and not _is_same(row, now)]
            if not good:
                raise ValueError(f"Application '{name}' has no earlier revision that ran.")
            found = good[-1]
        else:
            matching = [row for row in rows if row[0].number == number]
            if not matching:
                known = ", ".join(str(row[0].number) for row in rows)
                raise ValueError(f"Application '{name}' has no revision {number}; it has {known}.")
            found = matching[0]
        self._deploy(found[1], f"rollback to {found[0].number}")
        self.core.routes_changed()
        return found[0].number

    def promote(self, name: str) -> None:
        """Let a canary take over."""
        for plan in self._plans(name):
            plan.promote()
        self.core.dirty = True

    def revisions(self, name: str) -> list[Revision]:
        """The history, oldest first."""
        if name not in self.history:
            raise ValueError(f"Application '{name}' has no history: it does not run.")
        rows = [row for row, _ in self.history[name]]
        return [*rows[:-1], rows[-1]._replace(is_current=True)]

    def autoscale_together(self) -> set[DeploymentID]:
        """Policies that decide for all deployments of an application; returns those that are decided."""
        done: set[DeploymentID] = set()
        for name, spec in self.specs.items():
            if spec.autoscaling_policy is None or name in self._deleting:
                continue
            plans = {each.id: each for each in self._plans(name) if _scaling(each) is not None}
            wall_s = time.time()
            seen = {}
            for key, each in plans.items():
                config = _scaling(each)
                assert config is not None
                seen[key] = self.core.autoscaler.context(each, config, wall_s)
            policy, state = self._policies.get(name) or (bound(spec.autoscaling_policy), {})
            try:
                wanted, states = policy(seen)
            except Exception as error:
                text = f"The application's autoscaling policy raised {type(error).__name__}: {error}"
                for each in plans.values():
                    each.message = text
                    self.core.autoscaler.failed(each.id, text)
                continue
            self._policies[name] = (policy, state)
            for key, count in wanted.items():
                plan, config = plans[key], _scaling(plans[key])
                assert config is not None
                plan.scale(
                    self.core.autoscaler.apply(plan, config, count, (states or {}).get(key, {}), wall_s)
                )
                done.add(key)
        return done

    # ------------------------------------------------------------------ status
    def _plans(self, name: str) -> list[DeploymentPlan]:
        return [each for each in self.core.plans.values() if each.id.app_name == name]

    def update(self) -> None:
        """Look how the applications are, after their deployments may have changed."""
        for name in list(self.specs):
            plans = self._plans(name)
            if name in self._deleting:
                if not plans:
                    self._forget(name)
                    continue
                state = (_A.DELETING, "")
            else:
                state = self._state(name, plans)
            if self.states.get(name) != state:
                self.states[name] = state
                self._note_outcome(name, state)
                self._tell()

    def _state(self, name: str, plans: list[DeploymentPlan]) -> tuple[ApplicationStatus, str]:
        if name in self._build_errors:
            return _A.DEPLOY_FAILED, self._build_errors[name]
        found = {each.status: each for each in plans}
        if name in self._building or not plans:
            return _A.DEPLOYING, ""
        if _D.DEPLOY_FAILED in found:
            failed = [each for each in plans if each.status == _D.DEPLOY_FAILED]
            names = ", ".join(each.id.name for each in failed)
            return _A.DEPLOY_FAILED, f"Failed to update the deployments ['{names}']. {failed[0].message}"
        if _D.UNHEALTHY in found:
            ill = [each.id.name for each in plans if each.status == _D.UNHEALTHY]
            return _A.UNHEALTHY, f"The deployments {ill} are UNHEALTHY. {found[_D.UNHEALTHY].message}"
        if _D.UPDATING in found:
            return _A.DEPLOYING, ""
        return _A.RUNNING, ""

    def _note_outcome(self, name: str, state: tuple[ApplicationStatus, str]) -> None:
        rows = self.history.get(name)
        words = {_A.RUNNING: "running", _A.DEPLOY_FAILED: "failed"}
        if rows and state[0] in words and rows[-1][0].outcome == "deploying":
            rolled = any(each.rolled_back for each in self._plans(name))
            outcome = "rolled back" if rolled and state[0] == _A.DEPLOY_FAILED else words[state[0]]
            rows[-1] = (rows[-1][0]._replace(outcome=outcome), rows[-1][1])

    def _forget(self, name: str) -> None:
        for each in (
            self.specs,
            self.deployed_s,
            self.history,
            self.states,
            self._build_errors,
            self._policies,
        ):
            each.pop(name, None)
        self._deleting.discard(name)
        self.core.dirty = True
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for(self, names: list[str], is_deleted: bool) -> dict[str, tuple[str, str]]:
        """Wait until each application runs, has failed or is gone."""
        done = (_A.RUNNING, _A.DEPLOY_FAILED)
        told_s = time.monotonic()
        while True:
            self.update()
            changed = self._changed
            found = {name: self.states.get(name) for name in names}
            if is_deleted and all(name not in self.specs for name in names):
                return {}
            if not is_deleted and all(each is None or each[0] in done for each in found.values()):
                return {name: (each[0].value, each[1]) if each else ("", "") for name, each in found.items()}
            try:
                await asyncio.wait_for(changed.wait(), max(0.0, told_s + LONG_S - time.monotonic()))
            except TimeoutError:
                told_s = time.monotonic()
                # To the controller's output, which the driver shows: the user waits there without any
                # message.
                for line in self._what_waits(names):
                    print(line, flush=True)

    def _what_waits(self, names: list[str]) -> Iterator[str]:
        """A line for each deployment whose replicas do not start."""
        for plan in self.core.plans.values():
            starting = plan.counts().get(ReplicaState.STARTING, 0)
            if plan.id.app_name in names and starting:
                asked = plan.target.process.get("ray_actor_options", {}) if plan.target is not None else {}
                each = {name: asked[name] for name in _RESOURCES if asked.get(name)}
                yield (
                    f"Application '{plan.id.app_name}' waits: {starting} replica{'s' * (starting != 1)} of "
                    f"'{plan.id.name}' did not start for {LONG_S:.0f} s. Each asks for {each or 'no resource'}; the "
                    "resources may be in use, or the constructor takes long. See: sundog status, sundog stack"
                )

    async def wait_for_none(self) -> None:
        """Wait until no application is left."""
        while self.specs:
            changed = self._changed
            self.update()
            if self.specs:
                await changed.wait()

    def status(self) -> ServeStatus:
        """What runs, in short."""
        self.update()
        return status_of(self)

    def details(self) -> JsonObject:
        """What runs, with all that is known."""
        self.update()
        return details_of(self)


def _scaling(plan: DeploymentPlan) -> AutoscalingConfig | None:
    return plan.target.config.autoscaling_config if plan.target is not None else None


def _count(spec: DeploymentSpec, old: DeploymentTarget | None) -> int:
    """With how many replicas a deployment begins, or continues."""
    scaling = spec.config.autoscaling_config
    if scaling is None:
        return spec.config.num_replicas
    if old is not None and old.config.autoscaling_config is not None:
        return max(scaling.min_replicas, min(scaling.max_replicas, old.num_replicas))
    return scaling.min_replicas if scaling.initial_replicas is None else scaling.initial_replicas


def _versions(old: AppSpec | None) -> dict[str, str]:
    return {} if old is None else {each.name: each.version for each in old.deployments}


def _without_code(spec: AppSpec) -> AppSpec:
    made = copy(spec)
    made.deployments = [replace(each, code=b"") for each in spec.deployments]
    return made


def _is_same(one: tuple[Revision, AppSpec], other: tuple[Revision, AppSpec]) -> bool:
    """Whether two revisions run the same code with the same options."""
    return one[0].versions == other[0].versions and _options(one[1]) == _options(other[1])


def _options(spec: AppSpec) -> object:
    rows = [(each.name, each.config.model_dump(), each.process) for each in spec.deployments]
    return spec.route_prefix, spec.ingress, rows
