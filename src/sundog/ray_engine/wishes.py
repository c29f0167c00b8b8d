"""Options of sundog in Ray's words: options that Ray has, that the shim carries out, or that are refused.

Owns this division, and the translation of strategies. Runs in the process that decorates or calls.
"""

from __future__ import annotations

import inspect
from importlib import import_module

from sundog.options import ActorOptions, MethodOptions, TaskOptions, given_of
from sundog.util.scheduling_strategies import In, NotIn
from sundog.wire.inspect import measured_of_all

SHIM_OPTIONS = ("timeout_s", "capsule", "post_mortem", "profile")
"""Carried out by the shim, in the worker."""

AT_THE_DECORATOR = ("max_calls", "concurrency_groups")
"""Ray takes them there alone."""

_REFUSED = {
    "queue_timeout_s": "Ray does not tell how long a task has waited until it runs. Use wait(timeout=…) and cancel()",
    "enforce_memory": "Ray's workers share the limits of their node. Use memory=, by which Ray places tasks",
}


def rays_options(options: TaskOptions | ActorOptions) -> dict[str, object]:
    """What was asked for, for Ray's `.options()`.

    Raises:
        ValueError: an option that cannot be carried out on a Ray cluster.
    """
    given = given_of(options)
    check(given)
    for name in SHIM_OPTIONS:
        given.pop(name, None)
    if "retry_exceptions" in given:
        given["retry_exceptions"] = _as_list(given["retry_exceptions"])
    if options.runtime_env is not None:
        given["runtime_env"] = dict(options.runtime_env)
    strategy = given.get("scheduling_strategy")
    if strategy is not None:
        given["scheduling_strategy"] = rays_strategy(strategy)
    return given


def method_options(options: MethodOptions) -> dict[str, object]:
    """What `@method` asked for, for Ray's.

    Raises:
        ValueError: an option that cannot be carried out on a Ray cluster.
    """
    given = given_of(options)
    check(given)
    if "retry_exceptions" in given:
        given["retry_exceptions"] = _as_list(given["retry_exceptions"])
    return {name: value for name, value in given.items() if name not in (*SHIM_OPTIONS, "name")}


def shims(options: TaskOptions | ActorOptions | MethodOptions) -> tuple[tuple[str, object], ...]:
    """What the shim has to carry out; the same for all calls, it is part of what is exported."""
    given = given_of(options)
    if measured_of_all():  # sundog profile run
        given.setdefault("profile", measured_of_all())
    return tuple((name, given[name]) for name in SHIM_OPTIONS if name in given)


def check(given: dict[str, object]) -> None:
    """Refuse what neither Ray nor the shim would carry out.

    Raises:
        ValueError: an option that has no meaning on a Ray cluster.

    >>> check({"queue_timeout_s": 1.0})
    Traceback (most recent call last):
    ...
    ValueError: queue_timeout_s= cannot be carried out on engine 'ray': Ray does not tell how long a task has waited \
until it runs. Use wait(timeout=…) and cancel().
    """
    for name, why in _REFUSED.items():
        if name in given:
            raise ValueError(f"{name}= cannot be carried out on engine 'ray': {why}.")


def _as_list(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def rays_strategy(value: object) -> object:
    """A scheduling strategy as Ray's own, with all that is in it."""
    return _as_theirs(value, import_module("ray.util.scheduling_strategies"))


def _as_theirs(value: object, theirs: object) -> object:
    if isinstance(value, dict):
        return {key: _as_theirs(each, theirs) for key, each in value.items()}
    if not type(value).__module__.startswith("sundog."):
        return value
    cls = getattr(theirs, type(value).__name__)
    if isinstance(value, (In, NotIn)):
        return cls(*value.values)
    wanted = inspect.signature(cls).parameters
    return cls(**{name: _as_theirs(getattr(value, name), theirs) for name in wanted if hasattr(value, name)})
