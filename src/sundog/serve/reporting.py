"""What Serve tells of itself: the rows of `serve.status()` and of the REST interface.

Owns the words. In the controller's loop.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from sundog.serve.plan import DeploymentPlan, ReplicaRow
from sundog.serve.schema import (
    ApplicationStatus,
    ApplicationStatusOverview,
    DeploymentStatusOverview,
    ServeStatus,
)

if TYPE_CHECKING:
    from sundog.plain import JsonObject
    from sundog.serve.applications import Applications


def status_of(apps: Applications) -> ServeStatus:
    """All applications, in short."""
    core = apps.core
    found: dict[str, ApplicationStatusOverview] = {}
    for name in apps.specs:
        state, message = apps.states.get(name, (ApplicationStatus.DEPLOYING, ""))
        found[name] = ApplicationStatusOverview(
            state,
            message,
            apps.deployed_s.get(name, 0.0),
            {
                each.id.name: DeploymentStatusOverview(
                    each.status,
                    each.trigger,
                    each.counts(),
                    each.message,
                )
                for each in core.plans.values()
                if each.id.app_name == name
            },
        )
    return ServeStatus(core.proxies.statuses(), found)


def details_of(apps: Applications) -> JsonObject:
    """All applications, with all that is known of them; only what JSON knows."""
    core = apps.core
    status = status_of(apps)
    rows: dict[str, object] = {}
    for name, spec in apps.specs.items():
        seen = status.applications[name]
        plans = [each for each in core.plans.values() if each.id.app_name == name]
        rows[name] = {
            "name": name,
            "route_prefix": spec.route_prefix,
            "docs_path": _docs_path(apps, name),
            "status": seen.status.value,
            "message": seen.message,
            "last_deployed_time_s": seen.last_deployed_time_s,
            "deployed_app_config": spec.config,
            "source": spec.source.value,
            "deployments": {each.id.name: _deployment(apps, each) for each in plans},
            "external_scaler_enabled": spec.external_scaler,
        }
    http = core.options.http
    return {
        "controller_info": {
            "actor_name": "SERVE_CONTROLLER_ACTOR",
            "node_id": core.node,
            "node_ip": "127.0.0.1",
        },
        "proxy_location": core.options.location.value,
        "http_options": {
            "host": http.host or "",
            "port": core.proxies.port,
            "root_path": http.root_path,
            "request_timeout_s": http.request_timeout_s,
            "keep_alive_timeout_s": http.keep_alive_timeout_s,
        },
        "proxies": core.proxies.details(),
        "applications": rows,
        "target_capacity": None,
    }


def _docs_path(apps: Applications, name: str) -> str | None:
    spec = apps.specs[name]
    for plan in apps.core.plans.values():
        if plan.id.app_name == name and plan.id.name == spec.ingress:
            for row in plan.running():
                living = apps.core.replicas.living.get(row.id.unique_id)
                if living is not None and living.facts is not None and living.facts.docs_path:
                    return (spec.route_prefix or "").rstrip("/") + living.facts.docs_path
    return None


def _deployment(apps: Applications, plan: DeploymentPlan) -> dict[str, object]:
    target = plan.target
    config: JsonObject = {}
    if target is not None:
        config = json.loads(
            target.config.model_dump_json(
                exclude={"deployment_actors", "request_router_config", "rolling_update_config"}, fallback=str
            )
        )
        config |= {"name": plan.id.name, "ray_actor_options": target.process.get("ray_actor_options", {})}
    return {
        "name": plan.id.name,
        "status": plan.status.value,
        "status_trigger": plan.trigger.value,
        "message": plan.message,
        "deployment_config": config,
        "target_num_replicas": target.num_replicas if target is not None else 0,
        "required_resources": {"CPU": config.get("ray_actor_options", {}).get("num_cpus", 1)},
        "replicas": [_replica(apps, row) for row in plan.replicas.values()],
    }


def _replica(apps: Applications, row: ReplicaRow) -> dict[str, object]:
    living = apps.core.replicas.living.get(row.id.unique_id)
    facts = living.facts if living is not None else None
    return {
        "replica_id": row.id.unique_id,
        "state": row.state.value,
        "pid": facts.pid if facts is not None else None,
        "start_time_s": row.started_s,
        "actor_name": row.id.to_full_id_str(),
        "actor_id": facts.actor_id if facts is not None else None,
        "worker_id": facts.worker_id if facts is not None else None,
        "node_id": facts.node_id if facts is not None else None,
        "node_ip": "127.0.0.1",
        "log_file_path": os.path.basename(facts.log_path) if facts is not None else None,
    }
