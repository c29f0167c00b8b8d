"""What Serve tells of itself: the rows of `serve.status()` and of the REST interface.

Owns the words. In the controller's loop.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import TYPE_CHECKING

from sundog.serve.plan import DeploymentPlan, ReplicaRow
from sundog.serve.rows import ReplicaState
from sundog.serve.schema import (
    ApplicationStatus,
    ApplicationStatusOverview,
    DeploymentNode,
    DeploymentStatusOverview,
    DeploymentTopology,
    ProxyStatus,
    RequestProtocol,
    ServeStatus,
    Target,
    TargetGroup,
)

if TYPE_CHECKING:
    from sundog.plain import JsonObject
    from sundog.serve.applications import Applications
    from sundog.serve.replicas import Living
    from sundog.serve.specs import AppSpec


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
    import psutil  # not with this module: the start of Serve would wait for it

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
            "deployment_topology": topology_of(spec).model_dump(),
        }
    http = core.options.http
    return {
        "controller_info": {
            "actor_name": "SERVE_CONTROLLER_ACTOR",
            "actor_id": core.actor_id,
            "worker_id": core.worker_id,
            "node_id": core.node,
            "node_ip": "127.0.0.1",
            "log_file_path": _log_path(core.log_path),
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
        "target_groups": [_http_targets(apps).model_dump(mode="json")] if rows else [],
        "controller_health_metrics": core.health.told(
            time.time(), len(asyncio.all_tasks()), psutil.Process().memory_info().rss / 1e6
        ).model_dump(),
    }


def topology_of(spec: AppSpec) -> DeploymentTopology:
    """Which deployments of an application are bound to which."""
    return DeploymentTopology(
        app_name=spec.name,
        ingress_deployment=spec.ingress,
        nodes={
            each.name: DeploymentNode(
                name=each.name,
                app_name=spec.name,
                is_ingress=each.name == spec.ingress,
                outbound_deployments=[{"name": name, "app_name": spec.name} for name in each.downstream],
            )
            for each in spec.deployments
        },
    )


def _http_targets(apps: Applications) -> TargetGroup:
    """Where HTTP requests can be sent: one place for each node, as the proxies share one port."""
    proxies = apps.core.proxies
    targets = [
        Target(ip="127.0.0.1", port=proxies.port, instance_id="", name=f"SERVE_PROXY_ACTOR-{node}")
        for node, status in proxies.statuses().items()
        if status == ProxyStatus.HEALTHY
    ]
    return TargetGroup(targets=targets, route_prefix="/", protocol=RequestProtocol.HTTP)


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
    detail = apps.core.autoscaler.detail(plan)
    config: JsonObject = {}
    if target is not None:
        config = json.loads(
            target.config.model_dump_json(
                exclude={"deployment_actors", "request_router_config", "rolling_update_config"}, fallback=str
            )
        )
        if target.config.autoscaling_config is not None:
            config.pop(
                "num_replicas", None
            )  # the number is not the user's choice: target_num_replicas tells it
        config |= {"name": plan.id.name, "ray_actor_options": target.process.get("ray_actor_options", {})}
    return {
        "name": plan.id.name,
        "status": plan.status.value,
        "status_trigger": plan.trigger.value,
        "message": plan.message,
        "deployment_config": config,
        "target_num_replicas": target.num_replicas if target is not None else 0,
        "required_resources": _resources(config.get("ray_actor_options", {})),
        "replicas": [
            _replica(row, apps.core.replicas.living.get(row.id.unique_id)) for row in plan.replicas.values()
        ],
        "recent_dead_replicas": [
            {**_replica(each.row, each), "state": ReplicaState.STOPPED.value}
            for each in apps.core.replicas.dead.get(plan.id, ())
        ],
        "autoscaling_detail": detail.model_dump(mode="json") if detail is not None else None,
    }


def _resources(options: JsonObject) -> dict[str, float]:
    """What each replica holds while it lives, by the names of resources."""
    given = {
        "GPU": options.get("num_gpus"),
        "memory": options.get("memory"),
        **(options.get("resources") or {}),
    }
    return {"CPU": options.get("num_cpus", 1), **{name: each for name, each in given.items() if each}}


def _replica(row: ReplicaRow, living: Living | None) -> dict[str, object]:
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
        "log_file_path": _log_path(facts.log_path) if facts is not None else None,
    }


def _log_path(path: str) -> str | None:
    """Where a log is, seen from the folder of all logs."""
    return f"/serve/{os.path.basename(path)}" if path else None
