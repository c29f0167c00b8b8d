"""Options of deployments, of HTTP and of autoscaling, as users write them; each is checked where it is written.

Owns the fields, their defaults (Ray Serve's) and the checks. What they mean is decided where they are used. Runs in
any process.
"""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Callable
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    PrivateAttr,
    field_validator,
    model_validator,
)

from sundog.plain import JsonObject
from sundog.serve.imports import import_attr, pickle_by_value, setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeAlias, TypeVar

    from sundog.actor import ActorClass
    from sundog.serve.request_router import RequestRouter
    from sundog.serve.rows import DeploymentID, ReplicaID, TimeStampedValue

    _T = TypeVar("_T")
    _Counted: TypeAlias = Callable[[], _T] | _T
    Metrics: TypeAlias = dict[str, dict[ReplicaID, _T]]  # by the name of the metric, and by replica

# From what a policy decides on, to the number of replicas it wants and the state that its next call gets.
Policy: TypeAlias = Callable[..., tuple[Any, Any]]
DEFAULT_POLICY = "sundog.serve.autoscaling_policy:default_autoscaling_policy"
DEFAULT_ROUTER = "sundog.serve.request_router:PowerOfTwoChoicesRequestRouter"
DEFAULT_METRICS_INTERVAL_S = 10.0


class Checked(BaseModel):
    """A row whose fields are checked; what checks them is made with the first row: most kinds a program never has."""

    model_config = ConfigDict(defer_build=True)


def _json_only(name: str, value: JsonObject) -> JsonObject:
    try:
        json.dumps(value)
    except TypeError as error:
        raise ValueError(f"{name} takes only values that JSON can hold, not {value!r}: {error}.") from None
    return value


class AutoscalingContext:
    """What an autoscaling policy decides from. Numbers may be given as functions: they are counted when asked for."""

    def __init__(
        self,
        deployment_id: DeploymentID,
        deployment_name: str,
        app_name: str | None,
        current_num_replicas: int,
        target_num_replicas: int,
        running_replicas: Sequence[object],
        total_num_requests: _Counted[float],
        total_queued_requests: _Counted[float],
        aggregated_metrics: _Counted[Metrics[float]],
        raw_metrics: _Counted[Metrics[list[TimeStampedValue]]],
        capacity_adjusted_min_replicas: int,
        capacity_adjusted_max_replicas: int,
        policy_state: JsonObject,
        last_scale_up_time: float | None,
        last_scale_down_time: float | None,
        current_time: float | None,
        config: AutoscalingConfig,
        total_pending_async_requests: int = 0,
    ) -> None:
        self.deployment_id = deployment_id
        self.deployment_name = deployment_name
        self.app_name = app_name
        self.current_num_replicas = current_num_replicas
        self.target_num_replicas = target_num_replicas
        self.running_replicas = running_replicas
        self.capacity_adjusted_min_replicas = capacity_adjusted_min_replicas
        self.capacity_adjusted_max_replicas = capacity_adjusted_max_replicas
        self.policy_state = policy_state
        self.last_scale_up_time = last_scale_up_time
        self.last_scale_down_time = last_scale_down_time
        self.current_time = current_time
        self.config = config
        self.total_pending_async_requests = total_pending_async_requests
        self._requests, self._queued = total_num_requests, total_queued_requests
        self._aggregated, self._raw = aggregated_metrics, raw_metrics

    @cached_property
    def total_num_requests(self) -> float:
        """Requests that run or wait."""
        return float(_value(self._requests))

    @cached_property
    def total_queued_requests(self) -> float:
        """Requests that wait."""
        return float(_value(self._queued))

    @property
    def total_running_requests(self) -> float:
        """Requests that run."""
        return self.total_num_requests - self.total_queued_requests

    @cached_property
    def aggregated_metrics(self) -> Metrics[float]:
        """What replicas recorded themselves, by metric and replica, over the look-back period."""
        return _value(self._aggregated)

    @cached_property
    def raw_metrics(self) -> Metrics[list[TimeStampedValue]]:
        """The same, as points in time."""
        return _value(self._raw)


def _value(given: _Counted[_T]) -> _T:
    return given() if callable(given) else given


class _Imported(Checked):
    """A config with one field for code that runs in another process: its import path, or the code itself."""

    _pickled: bytes = PrivateAttr(default=b"")

    def _take(self, name: str) -> None:
        value = getattr(self, name)
        if not isinstance(value, str):
            self._pickled = pickle_by_value(value)
            plain = getattr(value, "__ray_actor_class__", value)
            object.__setattr__(self, name, f"{plain.__module__}:{plain.__qualname__}")
        elif not self._pickled:
            self._pickled = pickle_by_value(import_attr(value))

    def _given(self) -> Any:
        return pickle.loads(self._pickled)


class RequestRouterConfig(_Imported):
    """Which request router a deployment has, and how it retries."""

    request_router_class: str | Callable[..., object] = DEFAULT_ROUTER
    request_router_kwargs: JsonObject = Field(default_factory=dict)
    request_routing_stats_period_s: PositiveFloat = 10
    request_routing_stats_timeout_s: PositiveFloat = 30
    initial_backoff_s: PositiveFloat = 0.025
    backoff_multiplier: PositiveFloat = 2
    max_backoff_s: PositiveFloat = 0.5

    @field_validator("request_router_kwargs")
    @classmethod
    def _kwargs(cls, value: JsonObject) -> JsonObject:
        return _json_only("request_router_kwargs", value)

    def __init__(self, **given: object) -> None:
        super().__init__(**given)
        if not self.is_default_request_router():
            self._take("request_router_class")

    def is_default_request_router(self) -> bool:
        """Whether nobody asked for another one."""
        return self.request_router_class == DEFAULT_ROUTER

    def get_request_router_class(self) -> type[RequestRouter]:
        """The class."""
        found: type[RequestRouter] = (
            import_attr(DEFAULT_ROUTER) if self.is_default_request_router() else self._given()
        )
        return found


class AggregationFunction(str, Enum):
    """How points of a metric become one number."""

    MEAN = "mean"
    MAX = "max"
    MIN = "min"


class AutoscalingPolicy(_Imported):
    """The function (or class) that decides how many replicas there should be."""

    policy_function: str | Callable[..., object] = DEFAULT_POLICY
    policy_kwargs: JsonObject = Field(default_factory=dict)

    @field_validator("policy_kwargs")
    @classmethod
    def _kwargs(cls, value: JsonObject) -> JsonObject:
        return _json_only("policy_kwargs", value)

    def __init__(self, **given: object) -> None:
        super().__init__(**given)
        if not self.is_default_policy_function():
            self._take("policy_function")

    def is_default_policy_function(self) -> bool:
        """Whether nobody asked for another one."""
        return self.policy_function == DEFAULT_POLICY

    def get_policy(self) -> Policy:
        """The function; for a policy that is a class, an instance of it."""
        found = import_attr(DEFAULT_POLICY) if self.is_default_policy_function() else self._given()
        policy: Policy = found(**self.policy_kwargs) if isinstance(found, type) else found
        return policy


class BackpressureConfig(Checked):
    """What a client sees whose request is dropped."""

    model_config = ConfigDict(extra="forbid")
    status_code: Literal[503, 429] = 503
    retry_after_s: NonNegativeFloat | None = Field(default=None, allow_inf_nan=False)


class AutoscalingConfig(Checked):
    """How many replicas a deployment may have, and when that number changes."""

    min_replicas: NonNegativeInt = 1
    initial_replicas: NonNegativeInt | None = None
    max_replicas: PositiveInt = 1
    target_ongoing_requests: PositiveFloat | None = 2
    metrics_interval_s: PositiveFloat = DEFAULT_METRICS_INTERVAL_S
    look_back_period_s: PositiveFloat = 30.0
    smoothing_factor: PositiveFloat = 1.0
    upscale_smoothing_factor: PositiveFloat | None = None
    downscale_smoothing_factor: PositiveFloat | None = None
    upscaling_factor: PositiveFloat | None = None
    downscaling_factor: PositiveFloat | None = None
    downscale_delay_s: NonNegativeFloat = 600.0
    downscale_to_zero_delay_s: NonNegativeFloat | None = None
    upscale_delay_s: NonNegativeFloat = 30.0
    aggregation_function: str | AggregationFunction = AggregationFunction.MEAN
    policy: AutoscalingPolicy = Field(default_factory=AutoscalingPolicy)

    @model_validator(mode="after")
    def _replicas(self) -> AutoscalingConfig:
        low, high, initial = self.min_replicas, self.max_replicas, self.initial_replicas
        if high < low:
            raise ValueError(
                f"max_replicas is {high}, below min_replicas, which is {low}. Raise max_replicas or lower min_replicas."
            )
        if initial is not None and initial < low:
            raise ValueError(
                f"initial_replicas is {initial}, below min_replicas, which is {low}. Raise initial_replicas, or lower "
                "min_replicas."
            )
        if initial is not None and initial > high:
            raise ValueError(
                f"initial_replicas is {initial}, above max_replicas, which is {high}. Lower initial_replicas, or raise "
                "max_replicas."
            )
        return self

    @field_validator("aggregation_function")
    @classmethod
    def _aggregation(cls, value: object) -> AggregationFunction:
        return value if isinstance(value, AggregationFunction) else AggregationFunction(str(value).lower())

    @classmethod
    def default(cls) -> AutoscalingConfig:
        """What `num_replicas="auto"` means."""
        return cls(target_ongoing_requests=2, min_replicas=1, max_replicas=100)

    def get_upscaling_factor(self) -> float:
        """How much of a step up is taken."""
        return self.upscaling_factor or self.upscale_smoothing_factor or self.smoothing_factor

    def get_downscaling_factor(self) -> float:
        """How much of a step down is taken."""
        return self.downscaling_factor or self.downscale_smoothing_factor or self.smoothing_factor

    def get_target_ongoing_requests(self) -> float:
        """How many requests one replica should have."""
        return self.target_ongoing_requests or 2


class ProxyLocation(str, Enum):
    """Where proxies run."""

    Disabled = "Disabled"
    HeadOnly = "HeadOnly"
    EveryNode = "EveryNode"

    @classmethod
    def _normalize(cls, location: object) -> ProxyLocation | None:
        if location is None or isinstance(location, cls):
            return location
        if isinstance(location, str):
            return cls.Disabled if location in ("Disabled", "NoServer") else cls(location)
        raise TypeError(f"proxy_location must be a ProxyLocation or str, got {type(location).__name__}.")


class HTTPOptions(Checked):
    """Where HTTP requests come in, and how long they may take. Only this machine can reach the default host."""

    model_config = ConfigDict(validate_assignment=True, arbitrary_types_allowed=True)
    host: str | None = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    middlewares: list[object] = []
    location: ProxyLocation | None = None
    num_cpus: int = 0
    root_url: str = ""
    root_path: str = ""
    request_timeout_s: float | None = None
    keep_alive_timeout_s: int = 90
    ssl_keyfile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile_password: str | None = None
    ssl_ca_certs: str | None = None
    num_proxies: int = Field(default_factory=lambda: int(setting("SUNDOG_SERVE_PROXIES", 1)), ge=1, le=64)
    head_timeout_s: float = Field(default=30.0, gt=0)  # in which a client must have sent a request's head

    @field_validator("location", mode="before")
    @classmethod
    def _location(cls, value: object) -> ProxyLocation | None:
        if value is not None:
            warnings.warn(
                "`location` in HTTPOptions is deprecated: use the `proxy_location` argument of serve.start().",
                DeprecationWarning,
                stacklevel=2,
            )
        return ProxyLocation._normalize(value)

    @model_validator(mode="after")
    def _no_host(self) -> HTTPOptions:
        if self.host is None:
            object.__setattr__(self, "location", ProxyLocation.Disabled)
        if (self.ssl_certfile is None) != (self.ssl_keyfile is None):
            raise ValueError("Both ssl_keyfile and ssl_certfile must be provided together.")
        return self

    @field_validator("middlewares")
    @classmethod
    def _middlewares(cls, value: list[object]) -> list[object]:
        if value:
            raise ValueError(
                "`middlewares` in HTTPOptions has been removed: add middlewares to the FastAPI app of an ingress."
            )
        return value

    @field_validator("num_cpus")
    @classmethod
    def _num_cpus(cls, value: int) -> int:
        if value:
            raise ValueError("`num_cpus` in HTTPOptions has been removed: proxies reserve no CPU.")
        return value


class gRPCOptions(Checked):
    """Options of Ray's gRPC proxy. sundog has none: options are taken, and a servicer function is refused."""

    port: int = 9000
    grpc_servicer_functions: list[str] = []
    enable_reflection: bool = True
    request_timeout_s: float | None = None


class ControllerOptions(Checked):
    """Options of the controller's process."""

    model_config = ConfigDict(extra="forbid")
    runtime_env: JsonObject | None = None

    @field_validator("runtime_env")
    @classmethod
    def _env(cls, value: JsonObject | None) -> JsonObject | None:
        others = sorted(set(value or ()) - {"env_vars"})
        if others:
            raise ValueError(
                f"The runtime_env of ControllerOptions takes 'env_vars' alone. Leave out {others}."
            )
        variables = (value or {}).get("env_vars", {})
        if not isinstance(variables, dict):
            raise ValueError(
                f"runtime_env's env_vars maps names to texts (dict[str, str]); not a {type(variables).__name__}."
            )
        for key, text in variables.items():
            if not isinstance(key, str) or not key:
                raise ValueError(
                    f"A variable in env_vars needs a name that is a str and not empty, not {key!r}."
                )
            if not isinstance(text, str):
                raise ValueError(
                    f"The variable {key!r} in env_vars takes a str, not a {type(text).__name__}."
                )
        return value


class DeploymentActorConfig(_Imported):
    """An actor that all replicas of a deployment share; `serve.get_deployment_actor(name)` gives its handle."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    name: str
    actor_class: object
    init_args: tuple[object, ...] = ()
    init_kwargs: dict[str, object] = Field(default_factory=dict)
    actor_options: JsonObject = Field(default_factory=dict)

    def __init__(self, **given: object) -> None:
        super().__init__(**given)
        self._take("actor_class")

    @field_validator("init_args", mode="before")
    @classmethod
    def _args(cls, value: Iterable[object] | None) -> tuple[object, ...]:
        return tuple(value or ())

    def get_actor_class(self) -> ActorClass[object]:
        """The actor class."""
        found: ActorClass[object] = self._given()
        return found


class GangPlacementStrategy(str, Enum):
    """How the replicas of a gang are placed."""

    PACK = "PACK"
    SPREAD = "SPREAD"


class GangRuntimeFailurePolicy(str, Enum):
    """What happens to a gang when one of its replicas fails."""

    RESTART_GANG = "RESTART_GANG"
    RESTART_REPLICA = "RESTART_REPLICA"


class GangSchedulingConfig(Checked):
    """Replicas that start and fail together."""

    gang_size: int = Field(ge=1)
    gang_placement_strategy: GangPlacementStrategy = GangPlacementStrategy.PACK
    runtime_failure_policy: GangRuntimeFailurePolicy = GangRuntimeFailurePolicy.RESTART_GANG

    @field_validator("runtime_failure_policy")
    @classmethod
    def _policy(cls, value: GangRuntimeFailurePolicy) -> GangRuntimeFailurePolicy:
        if value == GangRuntimeFailurePolicy.RESTART_REPLICA:
            raise NotImplementedError(
                "The RESTART_REPLICA policy is not implemented; Ray Serve has none either."
            )
        return value


class RollingUpdateConfig(Checked):
    """How a running version is replaced. Counts may be a number of replicas or a share such as "25%".

    Args:
        max_surge: replicas beyond the target number while both versions run, if there is room for them.
        max_unavailable: replicas that may be missing from the target number meanwhile.
        max_error_rate: share of failed requests (0 to 1) of the new version above which it is rolled back.
        max_latency_ratio: mean latency of the new version, divided by the old version's, above which it is rolled back.
        min_requests: how many requests the new version must have answered before its rates count.
        canary: share of the requests that the new version gets until it is promoted; None for a whole update.
    """

    model_config = ConfigDict(extra="forbid")
    max_surge: int | str = "25%"
    max_unavailable: int | str = 0
    max_error_rate: float | None = Field(default=None, ge=0, le=1)
    max_latency_ratio: float | None = Field(default=None, gt=0)
    min_requests: PositiveInt = 20
    canary: str | float | None = None

    @field_validator("max_surge", "max_unavailable")
    @classmethod
    def _share(cls, value: int | str) -> int | str:
        count_of(value, 100)
        return value

    @field_validator("canary")
    @classmethod
    def _canary(cls, value: str | float | None) -> str | float | None:
        share_of(value)
        return value


def count_of(value: int | str, total: int) -> int:
    """A number of replicas from "25%" or 2, rounded up.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(value, int) and value >= 0:
        return value
    if isinstance(value, str) and value.endswith("%"):
        try:
            share = float(value[:-1])
        except ValueError:
            share = -1
        if 0 <= share <= 100:
            return -int(-share * total // 100)
    raise ValueError(f"Expected a number of replicas or a share such as '25%', got {value!r}.")


def share_of(value: str | float | None) -> float | None:
    """A share from "5%" or 0.05.

    Raises:
        ValueError: it is neither.
    """
    if value is None:
        return None
    try:
        share = float(value[:-1]) / 100 if isinstance(value, str) and value.endswith("%") else float(value)
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise ValueError(f"canary must be a share between 0% and 100%, such as '5%', got {value!r}.")
    return share
