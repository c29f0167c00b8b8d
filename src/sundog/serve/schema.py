"""What configs and status of Serve look like: the YAML file, the REST body, `serve.status()`.

Owns the fields and the checks of configs, and the rows of a status. Runs in any process.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from pydantic import ConfigDict, Field, PositiveInt, StrictInt, field_validator, model_validator

from sundog.plain import JsonObject
from sundog.serve.config import (
    AutoscalingConfig,
    BackpressureConfig,
    Checked,
    ControllerOptions,
    DeploymentActorConfig,
    GangSchedulingConfig,
    ProxyLocation,
    RequestRouterConfig,
    RollingUpdateConfig,
)
from sundog.serve.instance_schema import (
    AutoscalingMetricsHealth as AutoscalingMetricsHealth,
)
from sundog.serve.instance_schema import (
    AutoscalingStatus as AutoscalingStatus,
)
from sundog.serve.instance_schema import (
    ControllerHealthMetrics as ControllerHealthMetrics,
)
from sundog.serve.instance_schema import (
    DeploymentAutoscalingDetail as DeploymentAutoscalingDetail,
)
from sundog.serve.instance_schema import (
    DeploymentNode as DeploymentNode,
)
from sundog.serve.instance_schema import (
    DeploymentTopology as DeploymentTopology,
)
from sundog.serve.instance_schema import (
    DurationStats as DurationStats,
)
from sundog.serve.instance_schema import (
    ScalingDecision as ScalingDecision,
)
from sundog.serve.instance_schema import (
    Target as Target,
)
from sundog.serve.instance_schema import (
    TargetGroup as TargetGroup,
)
from sundog.serve.rows import (
    DEFAULT_APP,
    DeploymentStatus,
    DeploymentStatusTrigger,
    ReplicaState,
)
from sundog.serve.rows import UNSET as _UNSET
from sundog.serve.rows import RequestProtocol as RequestProtocol

_REMOTE = ("http://", "https://", "s3://", "gs://", "azure://", "abfss://", "file://", "gcs://", "hdfs://")


def check_route_prefix(value: str | None) -> str | None:
    """A prefix of paths.

    Raises:
        ValueError: it does not start with a slash, ends with one, or has wildcards.
    """
    if value is None:
        return None
    if not value.startswith("/"):
        raise ValueError(f"A route_prefix begins with '/', not {value!r}.")
    if len(value) > 1 and value.endswith("/"):
        raise ValueError(f"A route_prefix other than '/' has no '/' at its end, not {value!r}.")
    if "{" in value or "}" in value:
        raise ValueError(
            f"A route_prefix is a fixed path without '{{' and '}}' (no wildcards), not {value!r}."
        )
    return value


class EncodingType(str, Enum):
    """How log lines are written."""

    TEXT = "TEXT"
    JSON = "JSON"


class LoggingConfig(Checked):
    """What Serve logs for a deployment, an application or itself."""

    model_config = ConfigDict(extra="forbid")
    encoding: str | EncodingType = EncodingType.TEXT
    log_level: int | str = "INFO"
    logs_dir: str | None = None
    enable_access_log: bool = True
    additional_log_standard_attrs: list[str] = Field(default_factory=list)

    @field_validator("encoding")
    @classmethod
    def _encoding(cls, value: object) -> object:
        if value not in list(EncodingType):
            raise ValueError(
                f"Got '{value}' for encoding. Encoding must be one of {[each.value for each in EncodingType]}."
            )
        return value

    @field_validator("log_level")
    @classmethod
    def _level(cls, value: object) -> object:
        names = logging.getLevelNamesMapping()
        if isinstance(value, int):
            if value not in names.values():
                raise ValueError(
                    f'Got "{value}" for log_level. log_level must be one of {sorted(set(names.values()))}.'
                )
            return logging.getLevelName(value)
        if value not in names:
            raise ValueError(f'Got "{value}" for log_level. log_level must be one of {list(names)}.')
        return value

    @field_validator("additional_log_standard_attrs")
    @classmethod
    def _attrs(cls, value: list[str]) -> list[str]:
        known = set(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}
        for each in value:
            if each not in known:
                raise ValueError(f"Unknown attribute '{each}'. Log attributes are {sorted(known)}.")
        return sorted(set(value))


class TracingConfig(Checked):
    """Where spans go. sundog records requests by itself; an exporter is Ray's."""

    model_config = ConfigDict(extra="forbid")
    enabled: bool = False
    exporter_import_path: str = ""
    sampling_ratio: float = Field(default=1.0, ge=0, le=1)


def _check_uris(env: JsonObject | None) -> JsonObject | None:
    for uri in [*(env or {}).get("py_modules", []), (env or {}).get("working_dir")]:
        if uri is not None and not str(uri).startswith(_REMOTE):
            raise ValueError(
                "In a Serve config, working_dir and py_modules of a runtime_env name remote URIs, "
                f"not {uri!r}."
            )
    return env


class RayActorOptionsSchema(Checked):
    """Resources of each replica."""

    runtime_env: JsonObject = {}
    num_cpus: float | None = Field(default=None, ge=0)
    num_gpus: float | None = Field(default=None, ge=0)
    memory: float | None = Field(default=None, ge=0)
    resources: JsonObject = {}
    accelerator_type: str | None = None
    label_selector: dict[str, str] | None = None
    fallback_strategy: list[JsonObject] | None = None

    @field_validator("runtime_env")
    @classmethod
    def _env(cls, value: JsonObject | None) -> JsonObject | None:
        return _check_uris(value)


class DeploymentSchema(Checked):
    """Options of one deployment in a config; those that are left out stay as they are in the code."""

    model_config = ConfigDict(populate_by_name=True)
    name: str
    num_replicas: PositiveInt | str | None = _UNSET
    max_ongoing_requests: int = Field(default=_UNSET, gt=0)
    max_queued_requests: StrictInt = _UNSET
    backpressure_config: BackpressureConfig = _UNSET
    user_config: dict[object, object] | None = _UNSET
    autoscaling_config: JsonObject | AutoscalingConfig | None = _UNSET
    graceful_shutdown_wait_loop_s: float = Field(default=_UNSET, ge=0)
    graceful_shutdown_timeout_s: float = Field(default=_UNSET, ge=0)
    health_check_period_s: float = Field(default=_UNSET, gt=0)
    health_check_timeout_s: float = Field(default=_UNSET, gt=0)
    ray_actor_options: RayActorOptionsSchema = _UNSET
    placement_group_bundles: list[dict[str, float]] = _UNSET
    placement_group_strategy: str = _UNSET
    placement_group_bundle_label_selector: list[dict[str, str]] = _UNSET
    max_replicas_per_node: int = _UNSET
    logging_config: LoggingConfig = _UNSET
    request_router_config: JsonObject | RequestRouterConfig = _UNSET
    gang_scheduling_config: JsonObject | GangSchedulingConfig | None = _UNSET
    deployment_actors: list[JsonObject | DeploymentActorConfig] | None = _UNSET
    rolling_update_percentage: float = Field(default=_UNSET, gt=0.0, le=1.0)
    max_surge_percent: int = Field(default=_UNSET, ge=0, le=100)
    rolling_update_config: RollingUpdateConfig = _UNSET

    @model_validator(mode="before")
    @classmethod
    def _replicas(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        count, scaling = values.get("num_replicas"), values.get("autoscaling_config")
        if isinstance(count, int):
            if scaling not in (None, _UNSET):
                raise ValueError(
                    f"autoscaling_config sets the number of replicas, so num_replicas cannot be {count!r} too. "
                    "Leave one out."
                )
        elif count not in ("auto", None, _UNSET):
            raise ValueError(f"num_replicas takes an int or 'auto', not {count!r}.")
        gang = values.get("gang_scheduling_config")
        if gang not in (None, _UNSET):
            gang = GangSchedulingConfig(**gang) if isinstance(gang, dict) else gang
            if isinstance(count, int) and count % gang.gang_size:
                raise ValueError(
                    f"Replicas start in whole gangs: gang_size={gang.gang_size} does not divide num_replicas={count}."
                )
        return values

    @model_validator(mode="after")
    def _exclusive(self) -> DeploymentSchema:
        def given(value: object) -> bool:
            return value is not _UNSET and value is not None

        if given(self.max_replicas_per_node) and given(self.placement_group_bundles):
            raise ValueError(
                "A deployment takes max_replicas_per_node or placement_group_bundles, not both. Leave one out."
            )
        if given(self.gang_scheduling_config):
            for name in ("max_replicas_per_node", "placement_group_strategy"):
                if given(getattr(self, name)):
                    raise ValueError(
                        f"A deployment with gang_scheduling_config takes no {name}. Leave one of the two out."
                    )
        if (
            given(self.max_queued_requests)
            and self.max_queued_requests < 1
            and self.max_queued_requests != -1
        ):
            raise ValueError(
                f"max_queued_requests is at least 1, or -1 for any number, not {self.max_queued_requests!r}."
            )
        return self

    def given_options(self) -> JsonObject:
        """What the config says, without the name."""
        return {
            name: getattr(self, name)
            for name in self.model_fields_set
            if name != "name" and getattr(self, name) is not _UNSET
        }

    def is_autoscaling_configured(self) -> bool:
        """Whether the number of replicas changes by itself."""
        return self.num_replicas == "auto" or self.autoscaling_config not in (None, _UNSET)


class ServeApplicationSchema(Checked):
    """One application of a config."""

    name: str = DEFAULT_APP
    route_prefix: str | None = "/"
    import_path: str
    runtime_env: JsonObject = {}
    host: str = "127.0.0.1"
    port: int = 8000
    deployments: list[DeploymentSchema] = []
    autoscaling_policy: JsonObject | None = None
    args: JsonObject = {}
    logging_config: LoggingConfig | None = None
    external_scaler_enabled: bool = False

    @field_validator("route_prefix")
    @classmethod
    def _prefix(cls, value: str | None) -> str | None:
        return check_route_prefix(value)

    @field_validator("runtime_env")
    @classmethod
    def _env(cls, value: JsonObject | None) -> JsonObject | None:
        return _check_uris(value)

    @field_validator("import_path")
    @classmethod
    def _path(cls, value: str) -> str:
        if value.count(":") > 1:
            raise ValueError(f'Got invalid import path "{value}". An import path may have at most one colon.')
        mark = ":" if ":" in value else "."
        if mark not in value or value.rfind(mark) in (0, len(value) - 1):
            raise ValueError(
                f'Got invalid import path "{value}". An import path is written module:name, for example my_app:app.'
            )
        return value

    @model_validator(mode="after")
    def _scalers(self) -> ServeApplicationSchema:
        scaled = [each.name for each in self.deployments if each.is_autoscaling_configured()]
        if self.external_scaler_enabled and scaled:
            raise ValueError(
                "With external_scaler_enabled=True no deployment of the application scales itself, but these have "
                f"autoscaling: {', '.join(map(repr, scaled))}. Remove either setting."
            )
        return self

    @property
    def deployment_names(self) -> list[str]:
        """Of the deployments that the config mentions."""
        return [each.name for each in self.deployments]


class gRPCOptionsSchema(Checked):
    """Ray's gRPC proxy; sundog has none."""

    port: int = 9000
    grpc_servicer_functions: list[str] = []
    request_timeout_s: float | None = None
    enable_reflection: bool = True


class HTTPOptionsSchema(Checked):
    """Where HTTP requests come in."""

    host: str = "127.0.0.1"
    port: int = 8000
    root_path: str = ""
    request_timeout_s: float | None = None
    keep_alive_timeout_s: int = 90
    ssl_keyfile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile_password: str | None = None
    ssl_ca_certs: str | None = None


class ServeDeploySchema(Checked):
    """A whole config: what should run."""

    proxy_location: ProxyLocation = ProxyLocation.EveryNode
    http_options: HTTPOptionsSchema = Field(default_factory=HTTPOptionsSchema)
    grpc_options: gRPCOptionsSchema = Field(default_factory=gRPCOptionsSchema)
    controller_options: ControllerOptions | None = None
    logging_config: LoggingConfig | None = None
    tracing_config: TracingConfig | None = None
    applications: list[ServeApplicationSchema]
    target_capacity: float | None = Field(default=None, ge=0, le=100)

    @field_validator("applications")
    @classmethod
    def _applications(cls, value: list[ServeApplicationSchema]) -> list[ServeApplicationSchema]:
        for what, found in (
            ("application", [each.name for each in value]),
            ("route prefix", [each.route_prefix for each in value if each.route_prefix is not None]),
        ):
            twice = [f'"{name}"' for name, count in Counter(found).items() if count > 1]
            if twice:
                raise ValueError(
                    f"Found multiple configs for {what} {', '.join(twice)}. Please remove all duplicates."
                )
        if any(not each.name for each in value):
            raise ValueError("Each application in the config needs a name, not an empty one.")
        for each in value:
            for name in ("host", "port"):
                if name in each.model_fields_set:
                    raise ValueError(
                        f"The application {each.name!r} has its own {name}. All applications share one: give {name} "
                        "once, at the top of the config, and not here."
                    )
        return value

    @staticmethod
    def get_empty_schema_dict() -> JsonObject:
        """A config with nothing in it."""
        return {"applications": []}


class ProxyStatus(str, Enum):
    """How a proxy is."""

    STARTING = "STARTING"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    DRAINING = "DRAINING"
    DRAINED = "DRAINED"


class ApplicationStatus(str, Enum):
    """How an application is."""

    NOT_STARTED = "NOT_STARTED"
    DEPLOYING = "DEPLOYING"
    DEPLOY_FAILED = "DEPLOY_FAILED"
    RUNNING = "RUNNING"
    UNHEALTHY = "UNHEALTHY"
    DELETING = "DELETING"


class APIType(str, Enum):
    """How an application was deployed."""

    UNKNOWN = "unknown"
    IMPERATIVE = "imperative"
    DECLARATIVE = "declarative"


@dataclass
class DeploymentStatusOverview:
    """One deployment in a status."""

    status: DeploymentStatus
    status_trigger: DeploymentStatusTrigger
    replica_states: dict[ReplicaState, int]
    message: str


@dataclass
class ApplicationStatusOverview:
    """One application in a status."""

    status: ApplicationStatus
    message: str
    last_deployed_time_s: float
    deployments: dict[str, DeploymentStatusOverview]


@dataclass(eq=True)
class ServeStatus:
    """What `serve.status()` returns."""

    proxies: dict[str, ProxyStatus] = field(default_factory=dict)
    applications: dict[str, ApplicationStatusOverview] = field(default_factory=dict)
    target_capacity: float | None = None


class ReplicaRank(Checked):
    """The number of a replica among the replicas of its deployment."""

    rank: int
    node_rank: int = 0
    local_rank: int = 0


class ScaleDeploymentRequest(Checked):
    """Set a deployment's number of replicas from outside."""

    target_num_replicas: int = Field(ge=0)


class ServeActorDetails(Checked):
    """A process of Serve."""

    model_config = ConfigDict(frozen=True)
    node_id: str | None = None
    node_ip: str | None = None
    node_instance_id: str | None = None
    actor_id: str | None = None
    actor_name: str | None = None
    worker_id: str | None = None
    log_file_path: str | None = None


class ReplicaDetails(ServeActorDetails):
    """A replica."""

    replica_id: str
    state: ReplicaState
    pid: int | None = None
    start_time_s: float


class ProxyDetails(ServeActorDetails):
    """A proxy."""

    status: ProxyStatus


class DeploymentDetails(Checked):
    """A deployment with all that is known of it."""

    model_config = ConfigDict(frozen=True)
    name: str
    status: DeploymentStatus
    status_trigger: DeploymentStatusTrigger
    message: str
    deployment_config: JsonObject
    target_num_replicas: int
    required_resources: JsonObject
    replicas: list[ReplicaDetails]
    recent_dead_replicas: list[ReplicaDetails] = []
    autoscaling_detail: DeploymentAutoscalingDetail | None = None


class ApplicationDetails(Checked):
    """An application with all that is known of it."""

    model_config = ConfigDict(frozen=True)
    name: str
    route_prefix: str | None
    docs_path: str | None
    status: ApplicationStatus
    message: str
    last_deployed_time_s: float
    deployed_app_config: JsonObject | None = None
    source: APIType
    deployments: dict[str, DeploymentDetails]
    external_scaler_enabled: bool = False
    deployment_topology: DeploymentTopology | None = None


class ServeInstanceDetails(Checked):
    """All that runs: the body of `GET /api/serve/applications/`."""

    controller_info: ServeActorDetails = Field(default_factory=ServeActorDetails)
    proxy_location: ProxyLocation | None = None
    http_options: HTTPOptionsSchema | None = None
    grpc_options: gRPCOptionsSchema | None = None
    proxies: dict[str, ProxyDetails]
    applications: dict[str, ApplicationDetails]
    target_capacity: float | None = None
    target_groups: list[TargetGroup] = []
    controller_health_metrics: ControllerHealthMetrics = Field(default_factory=ControllerHealthMetrics)
    restores_unset_config_options: bool = False

    @staticmethod
    def get_empty_schema_dict() -> JsonObject:
        """What is known when nothing runs."""
        return {"controller_info": {}, "proxies": {}, "applications": {}, "target_capacity": None}


if not TYPE_CHECKING:  # a typing tool would take every name for present
    from sundog import absent as _absent

    __getattr__ = _absent.getter("serve.schema")
