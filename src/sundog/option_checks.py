"""Which values an option may have: one check for each option of tasks, actors and methods.

Owns the checks, the words of their refusals and the form of labels. Refuses: knowing which options a task, an actor or
a method has; that is `options.py`. Pure, any process.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from math import isfinite
from operator import index
from typing import Any

from sundog.accelerator_kinds import KINDS, check_pieces

__tracebackhide__ = True  # pytest folds the frames of this file

GRANULARITY = 1e-4  # the smallest share of a resource that is accounted for

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

Resources = dict[str, float]
ExceptionTypes = tuple[type[BaseException], ...]


class MisuseError(TypeError, ValueError, AssertionError):
    """`@remote` or `@method` is not written as it must be. Ray raises an AssertionError there."""


# Each check takes the option's name, for the error, and its value, and gives back what is stored.
Check = Callable[[str, object], Any]


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


def _whole(low: int, meaning: str, *, default_at: int | None = None) -> Check:
    """A whole number of at least `low`; `default_at` is a value that means "the default" to Ray."""

    def check(name: str, value: object) -> int | None:
        if not hasattr(value, "__index__"):
            raise _wrong_type(name, "a whole number", value)
        number = index(value)
        if number < low:
            raise ValueError(f"{name}={value!r} is not allowed: {meaning}.")
        return None if number == default_at else number

    return check


def _instance(wanted: type, words: str) -> Check:
    def check(name: str, value: object) -> object:
        if not isinstance(value, wanted):
            raise _wrong_type(name, words, value)
        # A copy: the caller may change the dict later.
        return dict(value) if isinstance(value, dict) else value

    return check


def filled_text(name: str, value: object) -> str:
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


def _one_of(*allowed: str) -> Check:
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
    return {filled_text(name, group): size(f"{name}[{group!r}]", count) for group, count in value.items()}


_FLAG = _instance(bool, "True or False")
_TEXT = _instance(str, "a string")
_DICT = _instance(dict, "a dict")
_FOREVER = "-1 (no limit), zero or more"

CHECKS: dict[str, Check] = {
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
    "namespace": filled_text,
    "lifetime": _one_of("detached", "non_detached"),
    "get_if_exists": _FLAG,
    "concurrency_group": filled_text,
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
