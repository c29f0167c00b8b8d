"""The rows of `serve.status()` and of the REST interface."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

from sundog.serve.config import AutoscalingConfig, HTTPOptions, ProxyLocation
from sundog.serve.controller_health import LoopHealth
from sundog.serve.deployment import DeploymentConfig
from sundog.serve.plan import DeploymentPlan, DeploymentTarget
from sundog.serve.replica import ReplicaFacts
from sundog.serve.replicas import Living
from sundog.serve.reporting import details_of, status_of, topology_of
from sundog.serve.rows import DeploymentID, DeploymentStatus, ReplicaState
from sundog.serve.schema import ApplicationStatus, ProxyStatus, ServeInstanceDetails
from sundog.serve.specs import AppSpec, DeploymentSpec, ServeOptions
from tests.serve.fakes import MODEL, FakeActor


class FakeProxies:
    port = 8123

    def __init__(self, status: ProxyStatus = ProxyStatus.HEALTHY) -> None:
        self.status = status

    def statuses(self) -> dict[str, ProxyStatus]:
        return {"n1": self.status}

    def details(self) -> dict[str, object]:
        return {"n1": {"status": self.status.value, "node_id": "n1"}}


class FakeReplicas:
    def __init__(self) -> None:
        self.living: dict[str, Living] = {}
        self.dead: dict[DeploymentID, list[Living]] = {}


class FakeAutoscaler:
    def detail(self, _plan: DeploymentPlan) -> None:
        return None


class FakeCore:
    actor_id, worker_id, node, log_path = "a0", "w0", "n1", "/tmp/session/logs/serve/controller.log"

    def __init__(self) -> None:
        self.plans: dict[DeploymentID, DeploymentPlan] = {}
        self.proxies, self.replicas, self.autoscaler = FakeProxies(), FakeReplicas(), FakeAutoscaler()
        self.options = ServeOptions(HTTPOptions(port=0), ProxyLocation.EveryNode)
        self.health = LoopHealth(0.0)


class FakeApps:
    """One application of two deployments, of which one runs."""

    def __init__(self, config: DeploymentConfig | None = None, **options: Any) -> None:
        self.core = FakeCore()
        config = config or DeploymentConfig()
        rows = [
            DeploymentSpec("Model", config, b"", {}, "v1", ["Store"]),
            DeploymentSpec("Store", DeploymentConfig(), b"", {}, "v1"),
        ]
        self.specs = {"shop": AppSpec("shop", "/shop", "Model", rows)}
        self.states = {"shop": (ApplicationStatus.RUNNING, "all is well")}
        self.deployed_s = {"shop": 12.5}
        self.plan = self.core.plans[MODEL] = DeploymentPlan(MODEL, lambda: "r1")
        process = {"ray_actor_options": {"num_cpus": 1, **options}}
        self.plan.deploy(DeploymentTarget("v1", config, 1, "code", process))
        other = DeploymentID("Model", "other")
        self.core.plans[other] = DeploymentPlan(other, lambda: "r9")

    def run(self) -> Living:
        """Have the replica run."""
        self.plan.step(0.0)
        self.plan.started("r1", 0.0)
        living = Living(self.plan.replicas["r1"], cast(Any, FakeActor()), 0)
        living.facts = ReplicaFacts(41, "n1", "a1", "w1", "/docs", "/tmp/session/logs/serve/replica.log")
        self.core.replicas.living["r1"] = living
        return living

    def details(self) -> Any:
        """As the REST interface gives them: what JSON does not know would raise."""

        async def ask() -> object:
            return details_of(cast(Any, self))

        return json.loads(json.dumps(asyncio.run(ask())))

    def deployment(self) -> Any:
        return self.details()["applications"]["shop"]["deployments"]["Model"]


def test_the_status_has_each_application_with_its_own_deployments() -> None:
    apps = FakeApps()
    apps.run()
    found = status_of(cast(Any, apps))
    assert found.proxies == {"n1": ProxyStatus.HEALTHY} and list(found.applications) == ["shop"]
    shop = found.applications["shop"]
    assert (shop.status, shop.message, shop.last_deployed_time_s) == (
        ApplicationStatus.RUNNING,
        "all is well",
        12.5,
    )
    assert list(shop.deployments) == ["Model"]
    model = shop.deployments["Model"]
    assert model.status == DeploymentStatus.UPDATING and model.replica_states == {ReplicaState.RUNNING: 1}


def test_an_application_of_which_nothing_is_known_yet_is_being_deployed() -> None:
    apps = FakeApps()
    apps.states.clear()
    apps.deployed_s.clear()
    shop = status_of(cast(Any, apps)).applications["shop"]
    assert (shop.status, shop.message, shop.last_deployed_time_s) == (ApplicationStatus.DEPLOYING, "", 0.0)


def test_the_details_are_such_as_rays_schema_takes() -> None:
    apps = FakeApps()
    apps.run()
    found = ServeInstanceDetails(**apps.details())
    assert found.applications["shop"].status == ApplicationStatus.RUNNING
    assert found.controller_info.log_file_path == "/serve/controller.log"
    assert found.http_options is not None and found.http_options.port == 8123


def test_the_path_of_the_documentation_is_that_of_the_ingress_below_the_prefix() -> None:
    apps = FakeApps()
    assert apps.details()["applications"]["shop"]["docs_path"] is None
    living = apps.run()
    assert apps.details()["applications"]["shop"]["docs_path"] == "/shop/docs"
    apps.specs["shop"].route_prefix = "/"
    assert apps.details()["applications"]["shop"]["docs_path"] == "/docs"
    assert living.facts is not None
    living.facts.docs_path = None
    assert apps.details()["applications"]["shop"]["docs_path"] is None


def test_a_replica_is_told_with_its_process_and_its_log() -> None:
    apps = FakeApps()
    apps.plan.step(0.0)
    (starting,) = apps.deployment()["replicas"]
    assert (starting["state"], starting["pid"], starting["log_file_path"]) == ("STARTING", None, None)
    apps.run()
    (replica,) = apps.deployment()["replicas"]
    assert (replica["replica_id"], replica["state"], replica["pid"]) == ("r1", "RUNNING", 41)
    assert replica["actor_name"] == "SERVE_REPLICA::shop#Model#r1"
    assert replica["log_file_path"] == "/serve/replica.log"


def test_replicas_that_have_ended_are_told_as_stopped_whatever_they_did_last() -> None:
    apps = FakeApps()
    apps.core.replicas.dead[MODEL] = [apps.run()]
    (dead,) = apps.deployment()["recent_dead_replicas"]
    assert (dead["state"], dead["pid"]) == ("STOPPED", 41)


def test_the_number_of_replicas_is_no_option_of_a_deployment_that_scales_itself() -> None:
    fixed, scaled = FakeApps(), FakeApps(DeploymentConfig(autoscaling_config=AutoscalingConfig()))
    assert fixed.deployment()["deployment_config"]["num_replicas"] == 1
    assert "num_replicas" not in scaled.deployment()["deployment_config"]
    assert scaled.deployment()["target_num_replicas"] == 1


def test_every_resource_that_a_replica_holds_is_told() -> None:
    assert FakeApps().deployment()["required_resources"] == {"CPU": 1}
    apps = FakeApps(num_cpus=0.5, num_gpus=2, memory=None, resources={"licence": 1})
    assert apps.deployment()["required_resources"] == {"CPU": 0.5, "GPU": 2, "licence": 1}


def test_a_deployment_without_a_target_has_no_options() -> None:
    apps = FakeApps()
    apps.plan.target = None
    found = apps.deployment()
    assert (found["deployment_config"], found["target_num_replicas"], found["replicas"]) == ({}, 0, [])


def test_requests_can_be_sent_to_a_healthy_proxy_alone_and_only_if_something_runs() -> None:
    apps = FakeApps()
    (group,) = apps.details()["target_groups"]
    assert [(each["ip"], each["port"]) for each in group["targets"]] == [("127.0.0.1", 8123)]
    apps.core.proxies.status = ProxyStatus.UNHEALTHY
    (group,) = apps.details()["target_groups"]
    assert group["targets"] == []
    apps.specs.clear()
    assert apps.details()["target_groups"] == []


def test_the_graph_has_the_deployments_that_each_is_bound_to() -> None:
    found = topology_of(FakeApps().specs["shop"])
    assert found.ingress_deployment == "Model" and found.nodes["Model"].is_ingress
    assert found.nodes["Model"].outbound_deployments == [{"name": "Store", "app_name": "shop"}]
    assert not found.nodes["Store"].is_ingress and found.nodes["Store"].outbound_deployments == []
