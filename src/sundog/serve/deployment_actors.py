"""Actors that all replicas of one version of a deployment share (`deployment_actors`).

Owns their names and lives: they are made before the first replica of a version, and end with its last. In the
controller; `wrap` runs in the actor itself.
"""

from __future__ import annotations

import json
from contextlib import suppress

import sundog
from sundog.serve.context import deployment_actor_name
from sundog.serve.plan import DeploymentTarget
from sundog.serve.rows import NAMESPACE, DeploymentID

CONTEXT_VARIABLE = "SUNDOG_SERVE_DEPLOYMENT_ACTOR"


async def ensure_deployment_actors(deployment: DeploymentID, target: DeploymentTarget) -> None:
    """Make the actors of a version, unless they are there; raises what a constructor raises."""
    for config in target.config.deployment_actors or ():
        name = deployment_actor_name(deployment, config.name, target.version)
        options = dict(config.actor_options)
        env = dict(options.pop("runtime_env", None) or {})
        facts = [deployment.app_name, deployment.name, config.name, target.version]
        env["env_vars"] = {**env.get("env_vars", {}), CONTEXT_VARIABLE: json.dumps(facts)}
        made = config.get_actor_class()
        if isinstance(made, type):
            made = sundog.remote(made)
        actor = made.options(
            **{
                **options,
                "name": name,
                "namespace": NAMESPACE,
                "lifetime": "detached",
                "get_if_exists": True,
                "max_restarts": options.get("max_restarts", -1),
                "runtime_env": env,
            }
        ).remote(*config.init_args, **config.init_kwargs)
        await actor.__ray_ready__.remote()


def end_deployment_actors(deployment: DeploymentID, target: DeploymentTarget) -> None:
    """End the actors of a version that no replica runs any more."""
    for config in target.config.deployment_actors or ():
        with suppress(Exception):
            actor = sundog.get_actor(
                deployment_actor_name(deployment, config.name, target.version), namespace=NAMESPACE
            )
            sundog.kill(actor)
