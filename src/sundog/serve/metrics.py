"""Metrics of user code in replicas: as in `sundog.util.metrics`, with tags that say which replica.

Owns the tags. Runs in any process; outside of a replica nothing is added.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TypeVar

from sundog.serve.context import _get_internal_replica_context, request_context
from sundog.util import metrics

M = TypeVar("M", bound="_Tagged")
_RESERVED = ("deployment", "replica", "application")


def _keys(given: object) -> tuple[str, ...]:
    if given is not None and not isinstance(given, tuple):
        raise TypeError(f"A metric takes its tag_keys as a tuple, not as {type(given)}.")
    keys: tuple[str, ...] = given or ()
    if _get_internal_replica_context() is None:
        return keys
    _check(keys)
    return (*_RESERVED, *keys)


def _check(names: Container[str]) -> None:
    for name in _RESERVED:
        if name in names:
            raise ValueError(
                f"Serve itself sets the tag {name!r} on every metric of a replica. Name yours otherwise."
            )


def _defaults(given: dict[str, str]) -> dict[str, str]:
    replica = _get_internal_replica_context()
    if replica is None:
        return given
    _check(given)
    return {
        **given,
        "deployment": replica.deployment,
        "replica": replica.replica_tag,
        "application": replica.app_name,
    }


class _Tagged(metrics.Metric):
    def set_default_tags(self: M, default_tags: dict[str, str]) -> M:
        """Tags for every value, beside those of the replica."""
        return super().set_default_tags(_defaults(default_tags))

    def __reduce__(self) -> tuple[object, ...]:
        """What the user gave, without the tags of this replica: the replica that loads it has tags of its own."""
        arguments, defaults = self._arguments(), self._default_tags
        if _get_internal_replica_context() is not None:
            keys = tuple(key for key in self._tag_keys if key not in _RESERVED)
            arguments = (*arguments[:-1], keys)
            defaults = {key: value for key, value in defaults.items() if key not in _RESERVED}
        return metrics._rebuild, (type(self), arguments, defaults)

    def _with_route(self, tags: dict[str, str] | None) -> dict[str, str] | None:
        if "route" in self.info["tag_keys"] and "route" not in (tags or {}):
            return {**(tags or {}), "route": request_context.get().route}
        return tags


class Counter(_Tagged, metrics.Counter):
    """Counts up."""

    def __init__(self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None) -> None:
        super().__init__(name, description, _keys(tag_keys))
        self.set_default_tags({})

    def inc(self, value: float = 1.0, tags: dict[str, str] | None = None) -> None:
        """Add to it."""
        super().inc(value, self._with_route(tags))


class Gauge(_Tagged, metrics.Gauge):
    """A value that goes up and down."""

    def __init__(self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None) -> None:
        super().__init__(name, description, _keys(tag_keys))
        self.set_default_tags({})

    def set(self, value: float | None, tags: dict[str, str] | None = None) -> None:
        """Set it."""
        super().set(value, self._with_route(tags))


class Histogram(_Tagged, metrics.Histogram):
    """Counts values by size."""

    def __init__(
        self,
        name: str,
        description: str = "",
        boundaries: list[float] | None = None,
        tag_keys: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(name, description, boundaries, _keys(tag_keys))
        self.set_default_tags({})

    def observe(self, value: float, tags: dict[str, str] | None = None) -> None:
        """Add a value."""
        super().observe(value, self._with_route(tags))
