"""What users see of Serve in the state API."""

from __future__ import annotations

import os
import signal
from types import ModuleType

from sundog import serve
from sundog.util import state
from tests.integration.serve.services import eventually, get, start


def test_an_idle_serve_shows_no_running_call(ray: ModuleType) -> None:
    port = start()

    @serve.deployment(ray_actor_options={"num_cpus": 0})
    def hello() -> str:
        return "hello"

    serve.run(hello.bind())
    assert get("/", port)[:2] == (200, "hello")
    calls = [("type", "=", "ACTOR_TASK")]
    eventually(lambda: not state.list_tasks(filters=[*calls, ("state", "=", "RUNNING")]))
    eventually(lambda: any("handle_http" in each.name for each in state.list_tasks(filters=calls)))


def test_rest_tells_of_the_graph_the_scaling_the_targets_and_the_controller(ray: ModuleType) -> None:
    from sundog.serve.operations import details
    from sundog.serve.rows import ReplicaState
    from sundog.serve.schema import (
        AutoscalingStatus,
        ProxyStatus,
        ReplicaDetails,
        RequestProtocol,
        ServeInstanceDetails,
    )

    at = start()

    @serve.deployment(
        autoscaling_config={"min_replicas": 1, "max_replicas": 2}, ray_actor_options={"num_cpus": 0}
    )
    class Model:
        pass

    @serve.deployment(ray_actor_options={"num_cpus": 0}, max_surge_percent=50)
    class Ingress:
        def __init__(self, model: object) -> None:
            self.model = model

    serve.run(Ingress.bind(Model.bind()), name="app", route_prefix="/app")
    found = ServeInstanceDetails(**details())
    app = found.applications["app"]

    assert app.deployment_topology is not None and app.deployment_topology.ingress_deployment == "Ingress"
    nodes = app.deployment_topology.nodes
    assert nodes["Ingress"].outbound_deployments == [{"name": "Model", "app_name": "app"}]
    assert nodes["Ingress"].is_ingress and not nodes["Model"].outbound_deployments
    scaling = app.deployments["Model"].autoscaling_detail
    assert scaling is not None and scaling.scaling_status == AutoscalingStatus.STABLE
    assert app.deployments["Ingress"].autoscaling_detail is None
    assert app.deployments["Ingress"].recent_dead_replicas == []
    assert app.deployments["Ingress"].deployment_config["max_surge_percent"] == 50
    assert "num_replicas" not in app.deployments["Model"].deployment_config
    (group,) = found.target_groups
    assert (group.protocol, group.route_prefix) == (RequestProtocol.HTTP, "/")
    assert [target.port for target in group.targets] == [at]
    (proxy,) = found.proxies.values()
    assert proxy.status == ProxyStatus.HEALTHY and proxy.actor_name == group.targets[0].name
    health = found.controller_health_metrics
    assert health.num_control_loops > 0 and health.uptime_s > 0 and health.process_memory_mb > 1
    assert found.controller_info.actor_id
    assert str(found.controller_info.log_file_path).startswith("/serve/controller_")

    (old,) = app.deployments["Model"].replicas
    assert old.pid is not None
    os.kill(old.pid, signal.SIGKILL)

    def dead() -> list[ReplicaDetails]:
        return ServeInstanceDetails(**details()).applications["app"].deployments["Model"].recent_dead_replicas

    eventually(lambda: len(dead()) == 1)
    (row,) = dead()
    assert (row.replica_id, row.pid, row.state) == (old.replica_id, old.pid, ReplicaState.STOPPED)
    assert row.log_file_path == old.log_file_path
