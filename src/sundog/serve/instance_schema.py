"""What REST tells of a running Serve beyond its applications: health, scaling, graph, where to send requests.

Owns the shapes, with Ray Serve's names; `schema.py` gives all of them to users. Runs in any process.
"""

from __future__ import annotations

from enum import Enum

from pydantic import ConfigDict, Field

from sundog.serve.config import Checked
from sundog.serve.rows import RequestProtocol


class Target(Checked):
    """One place to send requests to."""

    ip: str
    port: int
    instance_id: str
    name: str


class TargetGroup(Checked):
    """All places for requests of one kind."""

    targets: list[Target]
    route_prefix: str
    protocol: RequestProtocol
    app_name: str = ""
    ingress_request_router_targets: list[Target] = []
    ingress_deployment_name: str = ""


class AutoscalingStatus(str, Enum):
    """What a deployment's number of replicas does."""

    UPSCALING = "UPSCALING"
    DOWNSCALING = "DOWNSCALING"
    STABLE = "STABLE"


class AutoscalingMetricsHealth(str, Enum):
    """Whether the figures that a policy decides from are fresh."""

    HEALTHY = "healthy"
    DELAYED = "delayed"
    UNAVAILABLE = "unavailable"


class ScalingDecision(Checked):
    """One change of a deployment's number of replicas."""

    timestamp_s: float
    reason: str
    prev_num_replicas: int
    curr_num_replicas: int
    policy: str | None = None


class DeploymentAutoscalingDetail(Checked):
    """How a deployment scales."""

    scaling_status: AutoscalingStatus
    decisions: list[ScalingDecision] = []
    metrics: dict[str, object] | None = None
    metrics_health: AutoscalingMetricsHealth = AutoscalingMetricsHealth.HEALTHY
    errors: list[str] = []


class DeploymentNode(Checked):
    """One deployment in the graph of an application."""

    name: str
    app_name: str
    outbound_deployments: list[dict[str, str]] = []
    is_ingress: bool = False


class DeploymentTopology(Checked):
    """Which deployments of an application call which."""

    app_name: str
    nodes: dict[str, DeploymentNode]
    ingress_deployment: str | None = None


class DurationStats(Checked):
    """How long something took, lately."""

    mean: float = 0.0
    std: float = 0.0
    min: float = 0.0
    max: float = 0.0


class ControllerHealthMetrics(Checked):
    """How the controller is. What sundog's controller does not do (it decodes no metrics of others) stays unset."""

    model_config = ConfigDict(extra="ignore")
    timestamp: float = 0.0
    controller_start_time: float = 0.0
    uptime_s: float = 0.0
    last_control_loop_time: float = 0.0
    num_control_loops: int = 0
    loop_duration_s: DurationStats | None = None
    loops_per_second: float = 0.0
    last_sleep_duration_s: float = 0.0
    expected_sleep_duration_s: float = 0.0
    event_loop_delay_s: float = 0.0
    num_asyncio_tasks: int = 0
    handle_ingest_duration_ms: DurationStats | None = None
    replica_ingest_duration_ms: DurationStats | None = None
    metrics_decompress_duration_ms: DurationStats | None = None
    columnar_decode_duration_ms: DurationStats | None = None
    handle_reports_received: int = 0
    replica_reports_received: int = 0
    ingest_reports_received: int = 0
    ingest_cpu_fraction: float = Field(default=0.0, ge=0)
    deployment_state_update_duration_s: DurationStats | None = None
    application_state_update_duration_s: DurationStats | None = None
    proxy_state_update_duration_s: DurationStats | None = None
    node_update_duration_s: DurationStats | None = None
    handle_metrics_delay_ms: DurationStats | None = None
    replica_metrics_delay_ms: DurationStats | None = None
    process_memory_mb: float = 0.0
