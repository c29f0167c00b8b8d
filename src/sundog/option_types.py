"""The keywords of `@remote(...)`, `.options(...)` and `@method(...)`, for type checkers.

Owns: which options there are and of which type; `sundog.options` checks the values at run time, and a test holds the
two against each other. Refuses: running. Only type checkers import this module.

`num_returns` is missing on purpose: it decides what a call returns, so it has overloads of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from sundog.util.placement_group import PlacementGroup
    from sundog.util.scheduling_strategies import SchedulingStrategyT

Exceptions = Sequence[type[BaseException]]


class PlacedOptions(TypedDict, total=False):
    """What tasks and actors share: resources, and where to run."""

    num_cpus: float | None
    num_gpus: float | None
    memory: float | None
    enforce_memory: bool | None
    resources: Mapping[str, float] | None
    accelerator_type: str | None
    name: str | None
    runtime_env: Mapping[str, object] | None
    scheduling_strategy: SchedulingStrategyT
    placement_group: PlacementGroup | Literal["default"] | None
    placement_group_bundle_index: int | None
    placement_group_capture_child_tasks: bool | None
    label_selector: Mapping[str, str] | None
    fallback_strategy: Sequence[Mapping[str, Mapping[str, str]]] | None
    enable_task_events: bool | None
    post_mortem: bool | None
    capsule: bool | None
    profile: str | None
    _metadata: Mapping[str, object] | None
    _labels: Mapping[str, str] | None


class TaskKeywords(PlacedOptions, total=False):
    """Options of a remote function."""

    max_retries: int | None
    retry_exceptions: bool | Exceptions | None
    timeout_s: float | None
    queue_timeout_s: float | None
    _generator_backpressure_num_objects: int | None
    _num_objects_per_yield: int | None


class ActorKeywords(PlacedOptions, total=False):
    """Options of an actor class."""

    object_store_memory: float | None
    max_restarts: int | None
    max_task_retries: int | None
    max_concurrency: int | None
    max_pending_calls: int | None
    namespace: str | None
    lifetime: Literal["detached", "non_detached"] | None
    get_if_exists: bool | None
    allow_out_of_order_execution: bool | None
    _actor_generator_backpressure_num_objects: int | None


class RemoteKeywords(TaskKeywords, ActorKeywords, total=False):
    """What `@remote(...)` takes, on a function or a class: with what cannot be changed by `.options` later."""

    max_calls: int | None
    _num_objects_per_yield: int | None
    concurrency_groups: Mapping[str, int] | Sequence[Mapping[str, object]] | None


class MethodKeywords(TypedDict, total=False):
    """Options of an actor's method."""

    concurrency_group: str | None
    max_task_retries: int | None
    retry_exceptions: bool | Exceptions | None
    timeout_s: float | None
    queue_timeout_s: float | None
    name: str | None
    enable_task_events: bool | None
    post_mortem: bool | None
    capsule: bool | None
    profile: str | None
    _generator_backpressure_num_objects: int | None
    _num_objects_per_yield: int | None
