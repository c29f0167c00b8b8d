"""Applications from configs: imported, built with the options that the config gives, made ready for the controller.

Owns how an application builder is called, how options of a config override those of the code, and when a change
needs new processes. `build_from_config` runs as a task; the other functions also in the command line's process.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from typing import TYPE_CHECKING

from sundog.serve.build import build
from sundog.serve.deployment import Application, Deployment
from sundog.serve.handle import DeploymentHandle
from sundog.serve.imports import import_attr
from sundog.serve.rows import DEFAULT, DeploymentID
from sundog.serve.schema import APIType, DeploymentSchema, LoggingConfig, ServeApplicationSchema
from sundog.serve.specs import AppSpec

if TYPE_CHECKING:
    from sundog.plain import JsonObject

# Options that a running replica can change.
_LIGHT = {
    "num_replicas",
    "max_ongoing_requests",
    "max_queued_requests",
    "backpressure_config",
    "user_config",
    "autoscaling_config",
    "graceful_shutdown_wait_loop_s",
    "graceful_shutdown_timeout_s",
    "health_check_period_s",
    "health_check_timeout_s",
    "rolling_update_config",
    "rolling_update_percentage",
    "max_surge_percent",
}


def call_builder(found: object, args: JsonObject) -> Application:
    """The application that an import path names: itself, or what a builder function returns for `args`.

    Raises:
        TypeError: it is neither, or the builder's arguments do not fit.
        ValueError: arguments are given for an application that is built already.
    """
    if isinstance(found, Application):
        if args:
            raise ValueError(
                f"This application is built already and takes no arguments, not {list(args)}. Name a builder "
                "function to pass some."
            )
        return found
    if isinstance(found, Deployment):
        raise TypeError(f"{found} is a deployment, not an application: bind it with .bind().")
    if not callable(found) or inspect.isclass(found):
        raise TypeError(
            f"An import path must name an application or a function that builds one, not a {type(found).__name__}."
        )
    parameters = list(inspect.signature(found).parameters.values())
    if len(parameters) > 1:
        raise TypeError(
            "A function that builds an application has at most one parameter, a dictionary or a model, not "
            f"{len(parameters)}."
        )
    if not parameters:
        if args:
            raise TypeError("This application builder takes no arguments.")
        made = found()
    else:
        made = found(_typed(found, parameters[0], args))
    if not isinstance(made, Application):
        raise TypeError(
            f"A function that builds an application must return what `Deployment.bind()` gives, an `Application`, not "
            f"a {type(made).__name__}."
        )
    return made


def _typed(found: object, parameter: inspect.Parameter, args: JsonObject) -> object:
    from typing import get_type_hints

    from pydantic import BaseModel

    try:
        hint = get_type_hints(found).get(parameter.name)
    except Exception:
        hint = parameter.annotation
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return hint.model_validate(args)
    return args


def with_overrides(deployment: Deployment, options: JsonObject) -> Deployment:
    """A deployment with the options that a config gives for it."""
    given = dict(options)
    actor = given.get("ray_actor_options")
    if actor is not None and actor is not DEFAULT.VALUE and not isinstance(actor, dict):
        given["ray_actor_options"] = actor.model_dump(exclude_unset=True)
    if isinstance(given.get("num_replicas"), int):
        given.setdefault("autoscaling_config", None)
    return deployment.options(**given)


def build_from_config(given: JsonObject, running: dict[str, str], before: JsonObject | None) -> AppSpec:
    """Build one application of a config.

    Args:
        running: versions of its deployments that run now.
        before: the config that they were deployed with.
    """
    from sundog.serve.config import AutoscalingPolicy
    from sundog.serve.described import spec_of

    app = ServeApplicationSchema.model_validate(given)
    bound = call_builder(import_attr(app.import_path), dict(app.args))
    built = build(bound, app.name, _handle, app.route_prefix)
    known = {each.name for each in built.deployments}
    for row in app.deployments:
        if row.name not in known:
            raise ValueError(f"Deployment '{row.name}' does not exist. Available: {sorted(known)}.")
    rows = {row.name: row for row in app.deployments}
    built.deployments = [
        with_overrides(each, rows[each.name].given_options()) if each.name in rows else each
        for each in built.deployments
    ]
    if app.runtime_env:
        for each in built.deployments:
            options = each._replica_config.ray_actor_options
            own = dict(options.get("runtime_env") or {})
            options["runtime_env"] = {**app.runtime_env, **own}
    spec = spec_of(built)
    for made in spec.deployments:
        made.version = _version(app, rows.get(made.name))
    spec.logging, spec.source = app.logging_config, APIType.DECLARATIVE
    spec.config = app.model_dump(exclude_unset=True, mode="json")
    spec.external_scaler = app.external_scaler_enabled
    if app.autoscaling_policy:
        spec.autoscaling_policy = AutoscalingPolicy(**app.autoscaling_policy)
    return spec


def _version(app: ServeApplicationSchema, row: DeploymentSchema | None) -> str:
    """What must be the same for running replicas to stay: where the code is from, and options of their processes."""
    heavy: JsonObject = {}
    if row is not None:
        heavy = {key: value for key, value in row.model_dump(exclude_unset=True).items() if key not in _LIGHT}
    facts = [app.import_path, app.runtime_env, app.args, heavy]
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _handle(_deployment: Deployment, deployment: DeploymentID) -> DeploymentHandle[object]:
    return DeploymentHandle(deployment.name, deployment.app_name)


def config_of(apps: list[tuple[Application, str, str | None, str]]) -> JsonObject:
    """A config for applications: `sundog serve build`. Rows are application, name, route prefix and import path."""
    rows: list[JsonObject] = []
    for application, name, prefix, path in apps:
        built = build(application, name, _handle, prefix)
        rows.append(
            {
                "name": name,
                "route_prefix": prefix,
                "import_path": path,
                "runtime_env": {},
                "deployments": [_row(each) for each in built.deployments],
            }
        )
    return {
        "proxy_location": "EveryNode",
        "http_options": {"host": "127.0.0.1", "port": 8000},
        "logging_config": LoggingConfig().model_dump(mode="json"),
        "applications": rows,
    }


def _row(deployment: Deployment) -> JsonObject:
    config = json.loads(deployment._deployment_config.model_dump_json(fallback=str))
    row = {"name": deployment.name}
    for key in sorted(deployment._given & set(config)):
        row[key] = config[key]
    if "ray_actor_options" in deployment._given:
        row["ray_actor_options"] = deployment.ray_actor_options
    scaling = deployment._deployment_config.autoscaling_config
    if scaling is not None and row.get("autoscaling_config"):
        row.pop("num_replicas", None)
        # Only what was chosen: a default of today, written down, would not change with later versions.
        row["autoscaling_config"] = json.loads(scaling.model_dump_json(exclude_unset=True, fallback=str))
    return row
