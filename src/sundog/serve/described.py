"""An application that was built, as the controller takes it: rows, with the user's code pickled.

Owns the pickling and what the replicas get of the job's environment. Runs in the process that knows the user's code:
the user's own, or the one that builds an application of a config.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import sundog
from sundog.serve.imports import dumps
from sundog.serve.rows import random_name
from sundog.serve.specs import AppSpec, DeploymentSpec

if TYPE_CHECKING:
    from sundog.plain import JsonObject
    from sundog.serve.build import BuiltApplication
    from sundog.serve.deployment import Deployment
    from sundog.serve.handle import DeploymentHandle


def spec_of(built: BuiltApplication[DeploymentHandle[object]], version: str | None = None) -> AppSpec:
    """An application as the controller takes it: user code is pickled here, in the process that knows it."""
    rows = []
    for each in built.deployments:
        config = each._replica_config
        code = _pickled(each)
        process = {
            "ray_actor_options": _with_runtime_env(config.ray_actor_options),
            "placement_group_bundles": config.placement_group_bundles,
            "placement_group_strategy": config.placement_group_strategy,
            "max_replicas_per_node": config.max_replicas_per_node,
        }
        own = each.version or version or random_name()
        downstream = built.downstream.get(each.name, [])
        rows.append(DeploymentSpec(each.name, each._deployment_config, code, process, own, downstream))
    return AppSpec(built.name, built.route_prefix, built.ingress, rows)


def _with_runtime_env(options: JsonObject) -> JsonObject:
    """Replicas get the environment of the job that deploys them, below their own."""
    with suppress(Exception):
        job = dict(sundog.get_runtime_context().runtime_env or {})
        own = dict(options.get("runtime_env") or {})
        if job and own:
            variables = {**job.get("env_vars", {}), **own.get("env_vars", {})}
            merged = {**job, **own}
            if variables:
                merged["env_vars"] = variables
            return {**options, "runtime_env": merged}
        if job:
            return {**options, "runtime_env": job}
    return options


def _pickled(deployment: Deployment) -> bytes:
    config = deployment._replica_config
    try:
        return dumps((config.definition, config.init_args, config.init_kwargs))
    except Exception as error:
        raise TypeError(
            f"Pickling {deployment.name!r}, a deployment, failed: {error}. Its code and the arguments of its "
            "constructor must be picklable; sundog.util.inspect_serializability() shows what is not."
        ) from error
