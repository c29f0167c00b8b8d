"""What may be asked for a task, an actor or a method, checked once, where it is written.

Owns: the options, their defaults, which values are allowed, and the resources they add up to. Refuses: acting
on them. Runs in the process that decorates or calls, on the caller's thread; nothing here blocks or imports
more than the standard library. `None` means the default, so an option can be reset (of `placement_group` it means
none), but for those options of which Ray refuses it. ::

    parse_task_options({...}) ─► TaskOptions ── .merged(num_cpus=2) ─► TaskOptions ── .demand() ─► resources
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from math import floor, isfinite
from operator import attrgetter, index
from typing import Any, Self

from sundog.accelerator_kinds import KINDS, check_pieces
from sundog.plain import fields, plain

__tracebackhide__ = True  # pytest folds the frames of this file

GRANULARITY = 1e-4  # the smallest share of a resource that is accounted for
ACCELERATOR_SHARE = 0.001  # a task's share of `accelerator_type:X`: it decides the place and never limits

_STRATEGY_CLASSES = (
    "NodeAffinitySchedulingStrategy",
    "PlacementGroupSchedulingStrategy",
    "NodeLabelSchedulingStrategy",
)
_OWN_KEYWORD = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
# A key is a name with a domain before it, if it has one; names and values begin and end with a letter or digit.
_NAME = r"[a-zA-Z0-9](?:[\w.\-]{0,61}[a-zA-Z0-9])?"
_LABEL_KEY = re.compile(rf"(?:[a-z0-9](?:[a-z0-9.\-]{{0,251}}[a-z0-9])?/)?{_NAME}")
_LABEL_VALUE = re.compile(rf"!?(in\(\s*{_NAME}(\s*,\s*{_NAME})*\s*\)|({_NAME})?)")
# The older form of a PlacementGroupSchedulingStrategy. "default": the submitting task's group, if it captures
# child tasks; None: no group.
_GROUP_OPTIONS = ("placement_group", "placement_group_bundle_index", "placement_group_capture_child_tasks")
_NONE_COUNTS = frozenset({"placement_group"})
BOTH_PLACES = """placement_group= and scheduling_strategy= both say where to run: give the group as \
scheduling_strategy=PlacementGroupSchedulingStrategy(group) alone."""
_NEVER_NONE = frozenset({"retry_exceptions", "max_restarts", "get_if_exists"})  # as in Ray
_NO_NONE_IN_OPTIONS = _NEVER_NONE | {"max_retries", "max_task_retries", "max_pending_calls"}

Resources = dict[str, float]
ExceptionTypes = tuple[type[BaseException], ...]


class MisuseError(TypeError, ValueError, AssertionError):
    """`@remote` or `@method` is not written as it must be. Ray raises an AssertionError there."""


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


# Each check takes the option's name, for the error, and its value, and gives back what is stored.
_Check = Callable[[str, object], Any]


def _wrong_type(name: str, wanted: str, value: object) -> TypeError:
    return TypeError(f"{name}= takes {wanted}, not {type(value).__name__} ({value!r}).")


def _amount(name: str, value: object) -> float:
    """An amount of a resource."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise _wrong_type(name, "a number", value)
    amount = float(value)
    if not isfinite(amount) or amount < 0:
        raise ValueError(f"{name}={value!r} is not allowed: an amount must be zero or more.")
    if 0 < amount < GRANULARITY:
        raise ValueError(
            f"{name}={value!r} is not allowed: the smallest share of a resource is {GRANULARITY}."
        )
    return amount


def _unreserved(name: str, value: object) -> float:
    amount = _amount(name, value)
    warnings.warn(
        f"{name}= of an actor reserves nothing: objects that do not fit in the object store are spilled.",
        DeprecationWarning,
        stacklevel=6,
    )
    return amount


def _seconds(name: str, value: object) -> float:
    """A bound on time."""
    if isinstance(value, (str, bytes, bool)) or not hasattr(value, "__float__"):
        raise _wrong_type(name, "a number of seconds", value)
    seconds = float(value)
    if not isfinite(seconds) or seconds <= 0:
        raise ValueError(f"{name}={value!r} is not allowed: give seconds above zero, or None for no limit.")
    return seconds


def _whole(low: int, meaning: str, *, default_at: int | None = None) -> _Check:
    """A whole number of at least `low`; `default_at` is a value that means "the default" to Ray."""

    def check(name: str, value: object) -> int | None:
        if not hasattr(value, "__index__"):
            raise _wrong_type(name, "a whole number", value)
        number = index(value)
        if number < low:
            raise ValueError(f"{name}={value!r} is not allowed: {meaning}.")
        return None if number == default_at else number

    return check


def _instance(wanted: type, words: str) -> _Check:
    def check(name: str, value: object) -> object:
        if not isinstance(value, wanted):
            raise _wrong_type(name, words, value)
        # A copy: the caller may change the dict later.
        return dict(value) if isinstance(value, dict) else value

    return check


def _filled_text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong_type(name, "a string", value)
    if not value:
        raise ValueError(f"Actor {name} cannot be an empty string: leave it out for an actor without one.")
    return value


def _resources(name: str, value: object) -> Resources:
    if not isinstance(value, dict):
        raise _wrong_type(name, "a dict of resource names to amounts", value)
    for resource in value:
        if not isinstance(resource, str):
            raise _wrong_type(name, "names that are strings", resource)
        if resource in _OWN_KEYWORD or not resource:
            use = _OWN_KEYWORD.get(resource)
            hint = f"use {use}= for it" if use else "a resource needs a name"
            raise ValueError(f"{name}={{{resource!r}: ...}} is not allowed: {hint}.")
    found = {resource: _amount(f"{name}[{resource!r}]", amount) for resource, amount in value.items()}
    for resource in found.keys() & KINDS.keys():
        check_pieces(name, resource, found[resource])
    return found


def _returns(name: str, value: object) -> int | str:
    allowed = 'zero or more, "dynamic" or "streaming"'
    if isinstance(value, str):
        if value not in ("dynamic", "streaming"):
            raise MisuseError(f"{name}={value!r} is not allowed: {allowed}.")
        return value
    return int(_whole(0, allowed)(name, value))


def _retry_exceptions(name: str, value: object) -> bool | ExceptionTypes:
    if isinstance(value, bool):
        return value
    if not isinstance(value, (list, tuple)):
        raise _wrong_type(name, "True, False or a list of exception classes", value)
    for item in value:
        if not (isinstance(item, type) and issubclass(item, BaseException)):
            raise ValueError(f"{name} may list only exception classes, and {item!r} is not one.")
    return tuple(value)


def is_a(value: object, *names: str) -> bool:
    """Whether a value is of one of these classes, by name: they live in a layer above this one."""
    return any(base.__name__ in names for base in type(value).__mro__)


def _strategy(name: str, value: object) -> object:
    if isinstance(value, str):
        if value not in ("DEFAULT", "SPREAD"):
            raise ValueError(f'{name}={value!r} is not allowed: "DEFAULT", "SPREAD" or a strategy object.')
        return value
    if not is_a(value, *_STRATEGY_CLASSES):
        raise _wrong_type(name, f'"DEFAULT", "SPREAD" or one of {", ".join(_STRATEGY_CLASSES)}', value)
    return value


def _backpressure(name: str, value: object) -> int | None:
    number: int | None = _whole(-1, "at least 1, or -1 for no limit", default_at=-1)(name, value)
    if number == 0:
        raise ValueError(f"{name}=0 is not allowed: give at least 1, or -1 for no limit.")
    return number


def _group(name: str, value: object) -> object:
    if value != "default" and not is_a(value, "PlacementGroup"):
        raise _wrong_type(name, 'a placement group, "default" or None', value)
    return value


def check_labels(name: str, value: object) -> dict[str, str]:
    """Labels and what they must be, of a selector.

    Raises:
        ValueError: a key or value is not as labels are written.
        TypeError: something else than strings.
    """
    if not isinstance(value, dict):
        raise _wrong_type(name, "a dict of labels to values", value)
    for label, wanted in value.items():
        if not isinstance(label, str) or not isinstance(wanted, str):
            raise _wrong_type(name, "labels and values that are strings", {label: wanted})
        if not _LABEL_KEY.fullmatch(label):
            raise ValueError(
                f"{name}={{{label!r}: ...}} is not allowed: a key is up to 63 letters, digits, '-', '_' and '.', with "
                "a letter or digit at both ends, and may have a domain and '/' before it."
            )
        if not _LABEL_VALUE.fullmatch(wanted):
            raise ValueError(
                f"{name}={{{label!r}: {wanted!r}}} is not allowed: write value, !value, in(a,b) or !in(a,b)."
            )
    return dict(value)


def _fallbacks(name: str, value: object) -> list[dict[str, dict[str, str]]]:
    """What else would do, the best first: dicts of options, of which `label_selector` is the only one so far."""
    if not isinstance(value, list):
        raise _wrong_type(name, "a list of dicts of options", value)
    checked = []
    for each in value:
        if not isinstance(each, dict):
            raise ValueError(f"{name}=[{each!r}] is not allowed: each entry is a dict of options.")
        if set(each) != {"label_selector"}:
            raise ValueError(
                f"{name}=[{each!r}] is not allowed: each entry is {{'label_selector': {{...}}}}."
            )
        checked.append({"label_selector": check_labels(f"label_selector in {name}", each["label_selector"])})
    return checked


def _profile(name: str, value: object) -> str:
    """How to measure a task: one of four, or `line:NAME,NAME` for functions that it calls, too."""
    kind, colon, names = value.partition(":") if isinstance(value, str) else (value, "", "")
    if kind == "line" and colon and all(each.strip() for each in names.split(",")):
        return f"line:{','.join(each.strip() for each in names.split(','))}"
    return str(_one_of("cpu", "wall", "line", "memory")(name, value))


def _one_of(*allowed: str) -> _Check:
    words = ", ".join(f'"{each}"' for each in allowed) + " or None"

    def check(name: str, value: object) -> str:
        if not isinstance(value, str):
            raise _wrong_type(name, words, value)
        if value not in allowed:
            raise ValueError(f"{name}={value!r} is not allowed: {words}.")
        return value

    return check


def _groups(name: str, value: object) -> dict[str, int]:
    """Threads per concurrency group, from a dict or from Ray's list of {"name", "max_concurrency"}."""
    if isinstance(value, list):
        try:
            value = {group["name"]: group["max_concurrency"] for group in value}
        except (TypeError, KeyError):
            raise ValueError(f'{name}: each item of a list needs "name" and "max_concurrency".') from None
    if not isinstance(value, dict):
        raise _wrong_type(name, "a dict of group names to the calls each may run at a time", value)
    size = _whole(1, "a group runs at least one call at a time")
    return {_filled_text(name, group): size(f"{name}[{group!r}]", count) for group, count in value.items()}


_FLAG = _instance(bool, "True or False")
_TEXT = _instance(str, "a string")
_DICT = _instance(dict, "a dict")
_FOREVER = "-1 (no limit), zero or more"

_CHECKS: dict[str, _Check] = {
    "num_cpus": _amount,
    "num_gpus": _amount,
    "memory": _amount,
    "enforce_memory": _FLAG,
    "resources": _resources,
    "object_store_memory": _unreserved,
    "accelerator_type": _TEXT,
    "max_retries": _whole(-1, _FOREVER),
    "max_restarts": _whole(-1, _FOREVER),
    "max_task_retries": _whole(-1, _FOREVER),
    "max_pending_calls": _whole(-1, _FOREVER, default_at=0),
    "max_concurrency": _whole(0, "at least 1", default_at=0),
    "max_calls": _whole(0, "zero (no limit) or more"),
    "retry_exceptions": _retry_exceptions,
    "num_returns": _returns,
    "timeout_s": _seconds,
    "queue_timeout_s": _seconds,
    "name": _TEXT,
    "namespace": _filled_text,
    "lifetime": _one_of("detached", "non_detached"),
    "get_if_exists": _FLAG,
    "concurrency_group": _filled_text,
    "concurrency_groups": _groups,
    "allow_out_of_order_execution": _FLAG,
    "runtime_env": _DICT,
    "scheduling_strategy": _strategy,
    "placement_group": _group,
    "placement_group_bundle_index": _whole(-1, "-1 (any bundle), zero or more"),
    "placement_group_capture_child_tasks": _FLAG,
    "label_selector": check_labels,
    "fallback_strategy": _fallbacks,
    "enable_task_events": _FLAG,
    "post_mortem": _FLAG,
    "capsule": _FLAG,
    "profile": _profile,
    "_metadata": _DICT,
    "_labels": _DICT,
    "_generator_backpressure_num_objects": _backpressure,
    "_actor_generator_backpressure_num_objects": _backpressure,
    "_num_objects_per_yield": _whole(1, "at least 1"),
}


class _Kind:
    """One of the three classes with what is needed to check its options fast."""

    def __init__(
        self, noun: str, options: type[object], decorator_only: frozenset[str], **checks: _Check
    ) -> None:
        self.noun = noun
        self.article = "an" if noun[0] == "a" else "a"
        self.defaults: dict[str, object] = {f.name: f.default for f in fields(options)}
        self.read_all: Callable[[object], tuple[object, ...]] = attrgetter(*self.defaults)
        self.writers = [getattr(options, name).__set__ for name in self.defaults]
        self.checks = {name: checks.get(name, _CHECKS[name]) for name in self.defaults}
        self.decorator_only = decorator_only


_KINDS: dict[type[object], _Kind] = {
    TaskOptions: _Kind("task", TaskOptions, frozenset({"max_calls", "_num_objects_per_yield"})),
    # A task's name is only a label, but an actor is found by it.
    ActorOptions: _Kind("actor", ActorOptions, frozenset({"concurrency_groups"}), name=_filled_text),
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
