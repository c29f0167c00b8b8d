"""What may be asked for a task, an actor or a method, checked once, where it is written.

Owns: the options, their defaults, and the resources they add up to; `option_checks.py` has the values that are
allowed. Refuses: acting on them. Runs in the process that decorates or calls, on the caller's thread; nothing here
blocks. `None` means the default, so an option can be reset (of `placement_group` it means
none), but for those options of which Ray refuses it. ::

    parse_task_options({...}) ─► TaskOptions ── .merged(num_cpus=2) ─► TaskOptions ── .demand() ─► resources
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from math import floor
from operator import attrgetter
from typing import Any, Self

from sundog.option_checks import CHECKS, Check, ExceptionTypes, MisuseError, Resources, filled_text
from sundog.plain import fields, plain

__tracebackhide__ = True  # pytest folds the frames of this file

ACCELERATOR_SHARE = 0.001  # a task's share of `accelerator_type:X`: it decides the place and never limits

# The older form of a PlacementGroupSchedulingStrategy. "default": the submitting task's group, if it captures
# child tasks; None: no group.
_GROUP_OPTIONS = ("placement_group", "placement_group_bundle_index", "placement_group_capture_child_tasks")
_NONE_COUNTS = frozenset({"placement_group"})
BOTH_PLACES = """placement_group= and scheduling_strategy= both say where to run: give the group as \
scheduling_strategy=PlacementGroupSchedulingStrategy(group) alone."""
_NEVER_NONE = frozenset({"retry_exceptions", "max_restarts", "get_if_exists"})  # as in Ray
_NO_NONE_IN_OPTIONS = _NEVER_NONE | {"max_retries", "max_task_retries", "max_pending_calls"}


class _Options:
    """What the three kinds share: they can be merged, and not changed."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot assign to {name!r}: options are immutable; .merged() makes a copy")

    def __setstate__(self, state: tuple[None, dict[str, object]]) -> None:
        for name, value in state[1].items():
            object.__setattr__(self, name, value)

    def merged(self, **overrides: object) -> Self:
        """A copy with some options replaced; only those are checked.

        Raises:
            ValueError: an option does not exist, has a value that is not allowed, or can only be set where
                the function or class is decorated.
            TypeError: a value is of the wrong type.
        """
        kind = _KINDS[type(self)]
        if not kind.decorator_only.isdisjoint(overrides):
            name = min(kind.decorator_only.intersection(overrides))
            raise ValueError(
                f"{name!r} cannot be set in .options(): set it where the {kind.noun} is decorated, "
                f"@{'method' if kind.noun == 'method' else 'remote'}({name}=...)."
            )
        _refuse_none(kind, _NO_NONE_IN_OPTIONS, overrides)
        # Programs call .options() in loops: copying slots is faster than the constructor, and they are checked.
        copy = object.__new__(type(self))
        for write, value in zip(kind.writers, kind.read_all(self), strict=True):
            write(copy, value)
        for name, value in _checked(kind, overrides).items():
            object.__setattr__(copy, name, value)
        return copy


@plain(frozen=True, kw_only=True)
class TaskOptions(_Options):
    """Options of a remote function. `num_returns=None` is 1, or "streaming" for a generator function.

    Of each attempt: `queue_timeout_s` bounds the time before it starts, `timeout_s` the time it runs; None is no bound.

    >>> parse_task_options({"num_cpus": 0.5, "resources": {"disk": 1}}).demand()
    {'CPU': 0.5, 'disk': 1.0}
    """

    num_cpus: float | None = None
    num_gpus: float | None = None
    memory: float | None = None
    enforce_memory: bool = False
    resources: Resources | None = None
    accelerator_type: str | None = None
    max_retries: int = 3
    retry_exceptions: bool | ExceptionTypes = False
    max_calls: int = 0
    num_returns: int | str | None = None
    timeout_s: float | None = None
    queue_timeout_s: float | None = None
    name: str | None = None
    runtime_env: dict[str, object] | None = None
    scheduling_strategy: object = None
    placement_group: object = "default"
    placement_group_bundle_index: int = -1
    placement_group_capture_child_tasks: bool | None = None
    label_selector: dict[str, str] | None = None
    fallback_strategy: list[dict[str, dict[str, str]]] | None = None
    enable_task_events: bool = True
    post_mortem: bool = False
    capsule: bool = False
    profile: str | None = None
    _metadata: dict[str, object] | None = None
    _labels: dict[str, str] | None = None
    _generator_backpressure_num_objects: int | None = None
    _num_objects_per_yield: int | None = None

    def demand(self) -> Resources:
        """The logical resources the task holds while it runs; one CPU unless it says otherwise."""
        return _demand(self, cpus=1.0 if self.num_cpus is None else self.num_cpus)


@plain(frozen=True, kw_only=True)
class ActorOptions(_Options):
    """Options of an actor class.

    >>> options = parse_actor_options({})
    >>> options.demand(), options.placement_demand()
    ({}, {'CPU': 1.0})
    """

    num_cpus: float | None = None
    num_gpus: float | None = None
    memory: float | None = None
    enforce_memory: bool = False
    resources: Resources | None = None
    object_store_memory: float | None = None
    accelerator_type: str | None = None
    max_restarts: int = 0
    max_task_retries: int = 0
    max_concurrency: int | None = None
    max_pending_calls: int = -1
    concurrency_groups: dict[str, int] | None = None
    name: str | None = None
    namespace: str | None = None
    lifetime: str | None = None
    get_if_exists: bool = False
    allow_out_of_order_execution: bool | None = None
    runtime_env: dict[str, object] | None = None
    scheduling_strategy: object = None
    placement_group: object = "default"
    placement_group_bundle_index: int = -1
    placement_group_capture_child_tasks: bool | None = None
    label_selector: dict[str, str] | None = None
    fallback_strategy: list[dict[str, dict[str, str]]] | None = None
    enable_task_events: bool = True
    post_mortem: bool = False
    capsule: bool = False
    profile: str | None = None
    _metadata: dict[str, object] | None = None
    _labels: dict[str, str] | None = None
    _actor_generator_backpressure_num_objects: int | None = None

    def demand(self) -> Resources:
        """The logical resources the actor holds as long as it lives."""
        return _demand(self, cpus=self._running_cpus())

    def placement_demand(self) -> Resources:
        """What must be free to place the actor: one CPU by default, even if it holds none afterwards."""
        return _demand(self, cpus=1.0 if self.num_cpus is None else self.num_cpus)

    def check_creation(self) -> None:
        """Check what only makes sense together, when an actor is about to be created.

        Not part of parsing: ``@remote(get_if_exists=True)`` may get its name from a later ``.options()``.

        Raises:
            ValueError: get_if_exists without a name, or ordered execution with several threads.
        """
        if self.get_if_exists and self.name is None:
            raise ValueError("get_if_exists=True needs a name=: without one there is no actor to look for.")
        if self.allow_out_of_order_execution is False and (self.max_concurrency or 1) > 1:
            raise ValueError(
                f"max_concurrency={self.max_concurrency} runs calls at the same time, so they cannot keep "
                "their order: leave allow_out_of_order_execution unset, or set max_concurrency=1."
            )

    def _running_cpus(self) -> float:
        if self.num_cpus is not None:
            return self.num_cpus
        # As in Ray: an actor that requests GPUs (even 0) or custom resources keeps its CPU. An actor that
        # requests nothing, or only memory, returns its CPU once it is placed.
        return 1.0 if self.num_gpus is not None or self.resources else 0.0


@plain(frozen=True, kw_only=True)
class MethodOptions(_Options):
    """Options of an actor's method. `max_task_retries=None` takes the actor's. Timeouts as in `TaskOptions`."""

    num_returns: int | str | None = None
    concurrency_group: str | None = None
    max_task_retries: int | None = None
    retry_exceptions: bool | ExceptionTypes = False
    timeout_s: float | None = None
    queue_timeout_s: float | None = None
    name: str | None = None
    enable_task_events: bool | None = None  # None: as its actor
    post_mortem: bool = False
    capsule: bool = False
    profile: str | None = None
    _generator_backpressure_num_objects: int | None = None
    _num_objects_per_yield: int | None = None


def parse_task_options(given: Mapping[str, object]) -> TaskOptions:
    """Check the options of a remote function.

    Raises:
        ValueError: an option does not exist (the message has the closest one), or a value is not allowed.
        TypeError: a value is of the wrong type.
    """
    return TaskOptions(**_checked(_KINDS[TaskOptions], given))


def parse_actor_options(given: Mapping[str, object]) -> ActorOptions:
    """Check the options of an actor class; errors as in `parse_task_options`."""
    return ActorOptions(**_checked(_KINDS[ActorOptions], given))


def parse_method_options(given: Mapping[str, object]) -> MethodOptions:
    """Check the options of an actor's method; errors as in `parse_task_options`."""
    return MethodOptions(**_checked(_KINDS[MethodOptions], given))


def _demand(options: TaskOptions | ActorOptions, cpus: float) -> Resources:
    amounts = {"CPU": cpus, "GPU": options.num_gpus or 0.0, "memory": floor(options.memory or 0.0)}
    if options.resources:
        amounts.update(options.resources)
    if options.accelerator_type:
        amounts[f"accelerator_type:{options.accelerator_type}"] = ACCELERATOR_SHARE
    return {name: rounded for name, amount in amounts.items() if (rounded := round(amount, 4)) > 0}


class _Kind:
    """One of the three classes with what is needed to check its options fast."""

    def __init__(
        self, noun: str, options: type[object], decorator_only: frozenset[str], **checks: Check
    ) -> None:
        self.noun = noun
        self.article = "an" if noun[0] == "a" else "a"
        self.defaults: dict[str, object] = {f.name: f.default for f in fields(options)}
        self.read_all: Callable[[object], tuple[object, ...]] = attrgetter(*self.defaults)
        self.writers = [getattr(options, name).__set__ for name in self.defaults]
        self.checks = {name: checks.get(name, CHECKS[name]) for name in self.defaults}
        self.decorator_only = decorator_only


_KINDS: dict[type[object], _Kind] = {
    TaskOptions: _Kind("task", TaskOptions, frozenset({"max_calls", "_num_objects_per_yield"})),
    # A task's name is only a label, but an actor is found by it.
    ActorOptions: _Kind("actor", ActorOptions, frozenset({"concurrency_groups"}), name=filled_text),
    MethodOptions: _Kind("method", MethodOptions, frozenset({"_num_objects_per_yield"})),
}


def _refuse_none(kind: _Kind, names: frozenset[str], given: Mapping[str, object]) -> None:
    if kind.noun != "method" and not names.isdisjoint(given):
        for name in [name for name in names if name in given and given[name] is None]:
            raise TypeError(f"{name}=None is not allowed: leave the option out to get its default.")


def _checked(kind: _Kind, given: Mapping[str, object]) -> dict[str, Any]:
    values: dict[str, object] = {}
    _refuse_none(kind, _NEVER_NONE, given)
    for name, value in given.items():
        check = kind.checks.get(name)
        if check is None:
            raise (MisuseError if kind.noun == "method" else ValueError)(_unknown(kind, name))
        stored = None if value is None and name != "enable_task_events" else check(name, value)
        values[name] = kind.defaults[name] if stored is None and name not in _NONE_COUNTS else stored
    if not values.keys().isdisjoint(_GROUP_OPTIONS):
        _check_group_options(values)
    return values


def _check_group_options(values: Mapping[str, object]) -> None:
    if values.get("scheduling_strategy") is not None and values.get("placement_group", "default") not in (
        "default",
        None,
    ):
        raise ValueError(BOTH_PLACES)
    plain = {"placement_group": "default", "placement_group_bundle_index": -1}
    used = [name for name in _GROUP_OPTIONS if name in values and values[name] != plain.get(name)]
    if used:
        warnings.warn(
            f"{', '.join(used)}: an old way to name a placement group. Use "
            "scheduling_strategy=PlacementGroupSchedulingStrategy(...).",
            DeprecationWarning,
            stacklevel=5,
        )


def _unknown(kind: _Kind, name: str) -> str:
    valid = list(kind.checks)
    from difflib import get_close_matches

    hint = ""
    if close := get_close_matches(str(name), valid, n=1):
        hint = f" Did you mean {close[0]!r}?"
    elif others := [other for other in _KINDS.values() if name in other.checks]:
        hint = f" It is an option of {others[0].article} {others[0].noun}."
    public = ", ".join(option for option in valid if not option.startswith("_"))
    return f"{name!r} is not an option of {kind.article} {kind.noun}.{hint} Valid options: {public}."


def given_of(options: TaskOptions | ActorOptions | MethodOptions) -> dict[str, object]:
    """The options that differ from their defaults.

    >>> given_of(parse_task_options({"num_cpus": 2, "max_retries": 3}))
    {'num_cpus': 2.0}
    """
    kind = _KINDS[type(options)]
    pairs = zip(kind.defaults.items(), kind.read_all(options), strict=True)
    return {name: value for (name, default), value in pairs if value != default}
