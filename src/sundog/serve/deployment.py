"""`@serve.deployment`, `.options()` and `.bind()`: what should run, before anything does.

Owns the options of a deployment and their checks. Runs in the user's process.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, NoReturn, overload

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    field_validator,
)

from sundog.plain import JsonObject
from sundog.serve.config import (
    AutoscalingConfig,
    BackpressureConfig,
    Checked,
    DeploymentActorConfig,
    GangSchedulingConfig,
    RequestRouterConfig,
    RollingUpdateConfig,
)
from sundog.serve.rows import DEFAULT, MAX_REPLICAS_PER_NODE
from sundog.serve.rows import UNSET as _UNSET
from sundog.serve.schema import LoggingConfig

if TYPE_CHECKING:
    from pydantic import ValidationInfo

_ACTOR_OPTIONS = {
    "accelerator_type",
    "memory",
    "num_cpus",
    "num_gpus",
    "resources",
    "runtime_env",
    "label_selector",
    "fallback_strategy",
}


class DeploymentConfig(Checked):
    """The options of a deployment that are not about its process."""

    model_config = ConfigDict(validate_assignment=True, arbitrary_types_allowed=True)
    num_replicas: PositiveInt = 1
    max_ongoing_requests: PositiveInt = 5
    max_queued_requests: int = -1
    backpressure_config: BackpressureConfig = Field(default_factory=BackpressureConfig)
    user_config: object = None
    autoscaling_config: AutoscalingConfig | None = None
    graceful_shutdown_wait_loop_s: NonNegativeFloat = 2
    graceful_shutdown_timeout_s: NonNegativeFloat = 20
    health_check_period_s: PositiveFloat = 10
    health_check_timeout_s: PositiveFloat = 30
    logging_config: LoggingConfig | None = None
    request_router_config: RequestRouterConfig = Field(default_factory=RequestRouterConfig)
    max_constructor_retry_count: PositiveInt = 20
    gang_scheduling_config: GangSchedulingConfig | None = None
    deployment_actors: list[DeploymentActorConfig] | None = None
    rolling_update_percentage: float = Field(default=0.2, gt=0, le=1)
    max_surge_percent: int = Field(default=0, ge=0, le=100)
    rolling_update_config: RollingUpdateConfig = Field(default_factory=RollingUpdateConfig)

    @field_validator("max_queued_requests", mode="before")
    @classmethod
    def _queued(cls, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"max_queued_requests takes a whole number, not {value!r}.")
        if value < 1 and value != -1:
            raise ValueError(
                f"max_queued_requests takes 1 or more, not {value!r}. Give -1 to let any number of requests wait."
            )
        return value

    @field_validator("user_config", mode="before")
    @classmethod
    def _user_config(cls, value: object) -> object:
        if value is not None and not isinstance(value, bytes):
            try:
                json.dumps(value)
            except TypeError as error:
                raise ValueError(f"user_config is not JSON-serializable: {error}.") from None
        return value

    @field_validator("backpressure_config", "request_router_config", "rolling_update_config", mode="before")
    @classmethod
    def _absent(cls, value: object, info: ValidationInfo) -> object:
        made: dict[str | None, type[BaseModel]] = {
            "backpressure_config": BackpressureConfig,
            "request_router_config": RequestRouterConfig,
            "rolling_update_config": RollingUpdateConfig,
        }
        return made[info.field_name]() if value is None else value

    @field_validator("deployment_actors")
    @classmethod
    def _actors(cls, value: list[DeploymentActorConfig] | None) -> list[DeploymentActorConfig] | None:
        names = [each.name for each in value or ()]
        if len(names) != len(set(names)):
            raise ValueError(
                f"Duplicate deployment actor names: {sorted(names)}. Each name may be used once."
            )
        return value


class ReplicaConfig:
    """What a replica runs, and what its process is given."""

    def __init__(
        self,
        definition: Callable[..., object],
        init_args: tuple[object, ...] = (),
        init_kwargs: dict[str, object] | None = None,
        ray_actor_options: JsonObject | None = None,
        placement_group_bundles: list[dict[str, float]] | None = None,
        placement_group_strategy: str | None = None,
        placement_group_bundle_label_selector: list[dict[str, str]] | None = None,
        max_replicas_per_node: int | None = None,
    ) -> None:
        if not callable(definition) and not isinstance(definition, str):
            raise TypeError(f"@serve.deployment decorates a class or a function, not {definition!r}.")
        if not inspect.isclass(definition) and not isinstance(definition, str) and (init_args or init_kwargs):
            raise ValueError("init_args and init_kwargs are not supported for function deployments.")
        self.definition = definition
        self.init_args = tuple(init_args or ())
        self.init_kwargs = dict(init_kwargs or {})
        self.ray_actor_options = _actor_options(ray_actor_options)
        self.placement_group_bundles = placement_group_bundles
        self.placement_group_strategy = placement_group_strategy
        self.placement_group_bundle_label_selector = placement_group_bundle_label_selector
        self.max_replicas_per_node = max_replicas_per_node
        self._check()

    def _check(self) -> None:
        limit, bundles = self.max_replicas_per_node, self.placement_group_bundles
        if limit is not None:
            if not isinstance(limit, int) or isinstance(limit, bool):
                raise TypeError(
                    f"max_replicas_per_node takes a whole number from 1 to {MAX_REPLICAS_PER_NODE}, or None for no "
                    f"limit, not {limit!r} (a {type(limit).__name__})."
                )
            if not 1 <= limit <= MAX_REPLICAS_PER_NODE:
                raise ValueError(
                    f"max_replicas_per_node lies between 1 and {MAX_REPLICAS_PER_NODE}, or is None for no limit; it is "
                    f"not {limit!r}."
                )
            if bundles is not None:
                raise ValueError(
                    f"max_replicas_per_node={limit!r} and placement_group_bundles exclude each other. Give only one of "
                    "them."
                )
        if self.placement_group_strategy is not None and bundles is None:
            raise ValueError(
                f"placement_group_strategy={self.placement_group_strategy!r} has no bundles to place. Give "
                "placement_group_bundles, too."
            )
        if bundles is not None:
            from sundog.util.placement_group import VALID_PLACEMENT_GROUP_STRATEGIES

            strategy = self.placement_group_strategy or "PACK"
            if strategy not in VALID_PLACEMENT_GROUP_STRATEGIES:
                raise ValueError(f"Invalid placement group strategy '{strategy}'.")
            if not isinstance(bundles, list) or not bundles:
                raise ValueError(
                    "`placement_group_bundles` must be a non-empty list of resource dictionaries."
                )
            for key, first in (("CPU", "num_cpus"), ("GPU", "num_gpus")):
                asked = self.ray_actor_options.get(first) or 0
                if asked > bundles[0].get(key, 0):
                    raise ValueError(
                        f"A replica runs in the first of its placement_group_bundles, which has "
                        f"{bundles[0].get(key, 0)} {key}, but {first} of ray_actor_options asks for {asked}. Enlarge "
                        "that bundle or ask for less."
                    )


def _actor_options(given: JsonObject | None) -> JsonObject:
    if given is not None and not isinstance(given, dict):
        raise TypeError(f"ray_actor_options takes a dict, not {given!r} (a {type(given).__name__}).")
    options = dict(given or {})
    for name in options:
        if name not in _ACTOR_OPTIONS:
            raise ValueError(
                f"ray_actor_options has no option {name!r} for replicas. It takes these: {sorted(_ACTOR_OPTIONS)}."
            )
    amounts = {**options, **(options.get("resources") or {})}
    for name, amount in amounts.items():
        if isinstance(amount, (int, float)) and amount < 0:
            raise ValueError(f"{name} of ray_actor_options takes 0 or more, not {amount!r}.")
    options.setdefault("num_cpus", 1)
    if options["num_cpus"] is None:
        options["num_cpus"] = 1
    return options


class Application:
    """A deployment bound to the arguments of its constructor, which may be other applications."""

    def __init__(self, bound_deployment: Deployment) -> None:
        self._bound_deployment = bound_deployment


class Deployment:
    """A class or function that replicas run, with its options. Made by `@serve.deployment`."""

    def __init__(
        self,
        name: str,
        config: DeploymentConfig,
        replica_config: ReplicaConfig,
        given: set[str],
        version: str | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise TypeError("name must be a string.")
        if "#" in name:
            raise ValueError(f"A deployment cannot be named {name!r}: leave out the '#'.")
        self._name = name
        self._deployment_config = config
        self._replica_config = replica_config
        self._given = given  # options that the user chose
        self._version = version

    name = property(lambda self: self._name)
    version = property(lambda self: self._version)
    func_or_class = property(lambda self: self._replica_config.definition)
    num_replicas = property(lambda self: self._deployment_config.num_replicas)
    user_config = property(lambda self: self._deployment_config.user_config)
    max_ongoing_requests = property(lambda self: self._deployment_config.max_ongoing_requests)
    max_queued_requests = property(lambda self: self._deployment_config.max_queued_requests)
    backpressure_config = property(lambda self: self._deployment_config.backpressure_config)
    ray_actor_options = property(lambda self: self._replica_config.ray_actor_options)
    init_args = property(lambda self: self._replica_config.init_args)
    init_kwargs = property(lambda self: self._replica_config.init_kwargs)
    logging_config = property(lambda self: self._deployment_config.logging_config)

    def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise RuntimeError(
            f"A call of deployment {self._name!r} makes no object. Bind its arguments with `deployment.bind()` and "
            "pass the application to `serve.run()`."
        )

    def bind(self, *args: object, **kwargs: object) -> Application:
        """An application: this deployment with arguments for its constructor."""
        made = copy(self)
        made._replica_config = copy(self._replica_config)
        if not inspect.isclass(self.func_or_class) and (args or kwargs):
            raise ValueError("init_args and init_kwargs are not supported for function deployments.")
        made._replica_config.init_args, made._replica_config.init_kwargs = args, kwargs
        return Application(made)

    def options(self, func_or_class: Callable[..., object] | None = None, **given: Any) -> Deployment:
        """The same deployment with other options.

        Raises:
            TypeError: there is no such option.
            ValueError: a value is wrong, or two options exclude each other.
        """
        is_internal = given.pop("_internal", False)
        init_args = given.pop("_init_args", _UNSET)
        init_kwargs = given.pop("_init_kwargs", _UNSET)
        given = {name: value for name, value in given.items() if value is not _UNSET}
        version = given.pop("version", self._version) if is_internal else self._version
        made = _make(self, func_or_class or self.func_or_class, init_args, init_kwargs, given)
        made._version = version
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Deployment):
            return NotImplemented
        mine, theirs = self._replica_config, other._replica_config
        return (
            self._name == other._name
            and self._deployment_config == other._deployment_config
            and mine.init_args == theirs.init_args
            and mine.init_kwargs == theirs.init_kwargs
            and mine.ray_actor_options == theirs.ray_actor_options
        )

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"Deployment(name={self._name})"


_PROCESS = (
    "ray_actor_options",
    "placement_group_bundles",
    "placement_group_strategy",
    "placement_group_bundle_label_selector",
    "max_replicas_per_node",
)


def _make(
    base: Deployment | None,
    definition: Callable[..., object],
    args: tuple[object, ...] | DEFAULT,
    kwargs: dict[str, object] | DEFAULT,
    given: JsonObject,
) -> Deployment:
    known = {*DeploymentConfig.model_fields, *_PROCESS, "name", "version"}
    unknown = sorted(set(given) - known)
    if unknown:
        raise TypeError(f"deployment() got an unexpected keyword argument {unknown[0]!r}.")
    _check_options(given)
    chosen = set(given)
    name = given.pop("name", base.name if base else getattr(definition, "__name__", "deployment"))
    config = base._deployment_config.model_copy() if base else DeploymentConfig()
    old = base._replica_config if base else None
    process = {each: given.pop(each) if each in given else getattr(old, each, None) for each in _PROCESS}
    _with_auto(config, given)
    scaling = given.get("autoscaling_config", config.autoscaling_config)
    for key, value in given.items():
        if key == "num_replicas" and value is None:
            continue
        setattr(config, key, value)
    if scaling is not None and "num_replicas" in given and given["num_replicas"] is not None:
        config.autoscaling_config = None
    _check_gang(config, process)
    replica = ReplicaConfig(
        definition,
        (old.init_args if old else ()) if isinstance(args, DEFAULT) else args,
        (old.init_kwargs if old else {}) if isinstance(kwargs, DEFAULT) else kwargs,
        **process,
    )
    return Deployment(name, config, replica, (base._given if base else set()) | chosen)


def _check_options(given: JsonObject) -> None:
    if "version" in given:
        raise ValueError(
            f"@serve.deployment takes no version (given: {given['version']!r}). Leave it out: Serve keeps track of "
            "versions by itself."
        )
    if "max_ongoing_requests" in given and given["max_ongoing_requests"] is None:
        raise ValueError("max_ongoing_requests takes a number, not None. Leave it out for the default.")
    count = given.get("num_replicas")
    if count == 0 and count is not False:
        raise ValueError(f"num_replicas takes 1 or more, not {count!r}.")
    if isinstance(count, str) and count != "auto":
        raise ValueError(f"num_replicas takes a whole number or 'auto', not {count!r}.")
    if count not in (None, "auto") and given.get("autoscaling_config") is not None:
        raise ValueError(
            f"num_replicas={count!r} and autoscaling_config exclude each other. Leave one out, or give "
            "num_replicas='auto'."
        )


def _with_auto(config: DeploymentConfig, given: JsonObject) -> None:
    """What `num_replicas="auto"` stands for."""
    if given.get("num_replicas") != "auto":
        return
    del given["num_replicas"]
    default = AutoscalingConfig.default().model_dump(exclude={"policy"})
    chosen = given.get("autoscaling_config")
    if isinstance(chosen, BaseModel):
        chosen = chosen.model_dump(exclude_unset=True)
    given["autoscaling_config"] = AutoscalingConfig(**{**default, **(chosen or {})})


def _check_gang(config: DeploymentConfig, process: JsonObject) -> None:
    gang = config.gang_scheduling_config
    if gang is None:
        return
    if config.autoscaling_config is None and config.num_replicas % gang.gang_size:
        raise ValueError(
            f"num_replicas={config.num_replicas} does not fill whole gangs: gang_size is {gang.gang_size}. Choose a "
            "multiple of it."
        )
    for name in ("max_replicas_per_node", "placement_group_strategy"):
        if process[name] is not None:
            raise ValueError(
                f"{name}={process[name]!r} and gang_scheduling_config exclude each other. Give only one of them."
            )


@overload
def deployment(_func_or_class: Callable[..., object], /) -> Deployment: ...
@overload
def deployment(
    _func_or_class: None = None, **given: object
) -> Callable[[Callable[..., object]], Deployment]: ...
def deployment(
    _func_or_class: Callable[..., object] | None = None, **given: object
) -> Deployment | Callable[[Callable[..., object]], Deployment]:
    """Make a class or function a deployment; with options, as `@serve.deployment(num_replicas=2)`.

    Args:
        name: the deployment's name; that of the class or function by default.
        num_replicas: how many replicas; "auto" lets Serve decide between 1 and 100.
        max_ongoing_requests: how many requests a replica takes at a time.
        max_queued_requests: how many wait at each caller before others are refused; -1 for any number.
        autoscaling_config: let the number of replicas follow the load.
        user_config: passed to the method `reconfigure`, and again whenever it changes.
        ray_actor_options: resources and environment of each replica.
        health_check_period_s, health_check_timeout_s: of `check_health`.
        graceful_shutdown_wait_loop_s, graceful_shutdown_timeout_s: how a replica ends.
        rolling_update_config: how a new version replaces a running one.

    Raises:
        TypeError: there is no such option.
        ValueError: a value is wrong, or two options exclude each other.
    """
    given = {name: value for name, value in given.items() if value is not _UNSET}

    def decorate(target: Callable[..., object]) -> Deployment:
        return _make(None, target, _UNSET, _UNSET, dict(given))

    if callable(_func_or_class):
        return decorate(_func_or_class)
    # an error is raised here, and not where the class is decorated
    _make(None, _nothing, _UNSET, _UNSET, dict(given))
    return decorate


def _nothing() -> None:
    return None
