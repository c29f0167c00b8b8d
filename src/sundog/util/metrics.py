"""Counters, gauges and histograms of the application.

Owns a registry per process: one family per metric name and kind, one series per set of tags,
behind one lock. Any thread may record. Sends nothing: within a session each value is also written into a mapped file of
this process (`observe/metric_files.py`), from which `/metrics` and the page read it, also after the process died. What
was recorded before `init()` is written when the session begins. `collect()` gives a snapshot of this process. Metrics
travel by name; values stay in the process that recorded them.
"""

from __future__ import annotations

import bisect
import os
import re
import threading
import time
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from sundog import engines
from sundog.observe.metric_files import MetricFile, SeriesKey
from sundog.owner import context

if TYPE_CHECKING:
    from collections.abc import Callable

    from sundog.plain import JsonObject

_TAGS_KEPT = 256  # sets of tags that a metric has checked and sorted
_AGAIN_S = 1.0  # time between two attempts to find room, or a session, for a series
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")

M = TypeVar("M", bound="Metric")
Tags = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class MetricSample:
    """One series at one moment. `buckets` counts per boundary (cumulative, last one +Inf)."""

    tags: dict[str, str]
    value: float
    count: int = 0
    buckets: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True)
class Family:
    """All series of one metric."""

    name: str
    kind: str
    description: str
    tag_keys: tuple[str, ...]
    samples: tuple[MetricSample, ...]


@dataclass
class _Series:
    value: float = 0.0
    count: int = 0
    per_bucket: list[int] = field(default_factory=list)
    at: int = 0  # the place of its first number in the file; 0: it has none

    def numbers(self, kind: str) -> tuple[float, ...]:
        """What the file holds of it."""
        if kind == "counter":
            return (self.value,)
        return (self.value, time.time()) if kind == "gauge" else (self.value, *self.per_bucket)


class _Definition:
    """What was registered under a name and kind, with its series."""

    def __init__(self, name: str, kind: str, description: str, tag_keys: tuple[str, ...]) -> None:
        self.name = name
        self.kind = kind
        self.description = description
        self.tag_keys = tag_keys
        self.boundaries: tuple[float, ...] = ()
        self.series: dict[Tags, _Series] = {}

    def snapshot(self) -> Family:
        samples = tuple(self._sample(dict(tags), series) for tags, series in self.series.items())
        return Family(self.name, self.kind, self.description, self.tag_keys, samples)

    def _sample(self, tags: dict[str, str], series: _Series) -> MetricSample:
        below = 0
        buckets = []
        for boundary, count in zip((*self.boundaries, float("inf")), series.per_bucket, strict=False):
            below += count
            buckets.append((boundary, below))
        return MetricSample(tags, series.value, series.count, tuple(buckets))


class _Registry:
    """Every metric of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.definitions: dict[tuple[str, str], _Definition] = {}
        self._file: MetricFile | None = None
        self._again_s = 0.0
        self._left = b""  # the process that must not write any more

    # ------------------------------------------------------------------ the file
    def attach(self) -> None:
        """Write everything into the file of this process from now on, if it is in a session."""
        with self.lock:
            self._again_s = 0.0
            for definition in self.definitions.values():
                for tags, series in definition.series.items():
                    self._write(definition, tags, series)

    def detach(self) -> None:
        """The session ends, or this process is a fork of another: the file is no longer ours."""
        with self.lock:
            file, self._file = self._file, None
            self._left = context.facts.process_id
            for definition in self.definitions.values():
                for series in definition.series.values():
                    series.at = 0
        if file is not None:
            file.close()

    def _write(self, definition: _Definition, tags: Tags, series: _Series) -> None:
        if series.at == 0 and not self._place(definition, tags, series):
            return
        assert self._file is not None
        numbers = series.numbers(definition.kind)
        values, at = self._file.values, series.at
        for index, number in enumerate(numbers, at):
            values[index] = number

    def _place(self, definition: _Definition, tags: Tags, series: _Series) -> bool:
        """Find room for a series; False while there is no session, or no room on the disk."""
        me, now = context.facts.process_id, time.monotonic()
        if now < self._again_s or not context.facts.session or me in (b"", self._left):
            return False
        try:
            if self._file is None:
                self._file = MetricFile(str(context.facts.session["path"]), me)
            key = SeriesKey(
                definition.name, definition.kind, definition.description, tags, definition.boundaries
            )
            series.at = self._file.add(key)
        except OSError:
            self._again_s = now + _AGAIN_S
            return False
        return True

    # ------------------------------------------------------------------ recording
    def define(self, made: _Definition, boundaries: tuple[float, ...]) -> _Definition:
        with self.lock:
            known = self.definitions.setdefault((made.name, made.kind), made)
            if known is made:
                known.boundaries = boundaries
            elif known.boundaries != boundaries:
                warnings.warn(
                    f"Histogram {made.name!r} exists with boundaries {known.boundaries}; those are kept.",
                    UserWarning,
                    stacklevel=4,
                )
            return known

    def add(self, definition: _Definition, tags: Tags, value: float) -> None:
        with self.lock:
            series = definition.series.get(tags) or definition.series.setdefault(tags, _Series())
            series.value += value
            self._write(definition, tags, series)

    def put(self, definition: _Definition, tags: Tags, value: float) -> None:
        with self.lock:
            series = definition.series.get(tags) or definition.series.setdefault(tags, _Series())
            series.value = value
            self._write(definition, tags, series)

    def observe(self, definition: _Definition, tags: Tags, value: float) -> None:
        with self.lock:
            series = definition.series.get(tags)
            if series is None:
                series = definition.series[tags] = _Series(per_bucket=[0] * (len(definition.boundaries) + 1))
            series.value += value
            series.count += 1
            # A value equal to a boundary belongs below it ("le"), hence bisect_left.
            bucket = bisect.bisect_left(definition.boundaries, value)
            series.per_bucket[bucket] += 1
            if series.at and self._file is not None:  # two numbers of perhaps hundreds
                self._file.values[series.at] = series.value
                self._file.values[series.at + 1 + bucket] = series.per_bucket[bucket]
            else:
                self._write(definition, tags, series)

    def collect(self) -> list[Family]:
        with self.lock:
            return [definition.snapshot() for definition in self.definitions.values()]


_registry = _Registry()


def _forked() -> None:
    """In a child of `fork`: its parent keeps writing the file; the parent's lock may have been taken."""
    _registry.lock = threading.Lock()
    _registry.detach()


os.register_at_fork(after_in_child=_forked)
engines.after_begin.append(lambda _engine: _registry.attach())
engines.before_end.append(lambda _engine: _registry.detach())


def collect() -> list[Family]:
    """Give every metric of this process, as it is now.

    >>> Counter("doc_served").inc(3)
    >>> [(f.kind, f.samples[0].value) for f in collect() if f.name == "doc_served"]
    [('counter', 3.0)]
    """
    return _registry.collect()


class Metric:
    """What the three kinds share: a name, the tag keys, and tags given once for all."""

    kind = "untyped"

    def __init__(self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None) -> None:
        if not name:
            raise ValueError("A metric needs a name; an empty one was given.")
        tag_keys = tag_keys or ()
        if not isinstance(tag_keys, tuple):
            raise TypeError(f"tag_keys should be a tuple of str, got {type(tag_keys)}.")
        for key in tag_keys:
            if not isinstance(key, str):
                raise TypeError(f"Tag keys must be str, got {type(key)}.")
        self._name = name
        self._description = description
        self._tag_keys = tag_keys
        self._default_tags: dict[str, str] = {}
        self._known_tags: dict[tuple[tuple[str, str], ...], Tags] = {}  # checked and sorted before
        self._definition = self._define(())

    def _define(self, boundaries: tuple[float, ...]) -> _Definition | None:
        if not _NAME.match(self._name):
            warnings.warn(
                f"Invalid metric name {self._name!r}: only letters, digits, _ and : are allowed, and no "
                "digit first. Nothing will be recorded for it.",
                UserWarning,
                stacklevel=4,
            )
            return None
        if ":" in self._name:
            warnings.warn(
                f"Metric name {self._name!r}: a colon is reserved for recording rules; use _ instead.",
                FutureWarning,
                stacklevel=4,
            )
        made = _Definition(self._name, self.kind, self._description, self._tag_keys)
        return _registry.define(made, boundaries)

    def set_default_tags(self: M, default_tags: dict[str, str]) -> M:
        """Give tags that every later record has, unless it says otherwise. Returns the metric.

        Raises:
            ValueError: A key is not among the metric's tag keys.
            TypeError: A value is not a string.
        """
        for key, value in default_tags.items():
            if key not in self._tag_keys:
                raise ValueError(f"Unrecognized tag key {key!r}; {self._name!r} has {self._tag_keys}.")
            _check_tag_value(key, value)
        self._default_tags = dict(default_tags)
        self._known_tags.clear()
        return self

    def _tags(self, tags: dict[str, str] | None) -> Tags:
        known = tuple(tags.items()) if tags else ()
        try:
            found = self._known_tags.get(known)
        except TypeError:  # a value is not a string
            found = None
        if found is None:
            found = self._checked_tags(tags)
            if len(self._known_tags) < _TAGS_KEPT:
                self._known_tags[known] = found
        return found

    def _checked_tags(self, tags: dict[str, str] | None) -> Tags:
        for key, value in (tags or {}).items():
            _check_tag_value(key, value)
        final = {**self._default_tags, **(tags or {})}
        missing = [key for key in self._tag_keys if key not in final]
        if missing:
            raise ValueError(
                f"These tags have no value: {', '.join(missing)}. Give them in tags= or by set_default_tags()."
            )
        return tuple(sorted(final.items()))

    @property
    def info(self) -> JsonObject:
        """The metric's definition.

        >>> Gauge("doc_depth", description="waiting").info["description"]
        'waiting'
        """
        return {
            "name": self._name,
            "description": self._description,
            "tag_keys": self._tag_keys,
            "default_tags": self._default_tags,
        }

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self._arguments(), self._default_tags)

    def _arguments(self) -> tuple[object, ...]:
        return (self._name, self._description, self._tag_keys)


def _rebuild(cls: Callable[..., M], arguments: tuple[object, ...], default_tags: dict[str, str]) -> M:
    return cls(*arguments).set_default_tags(default_tags)


def _check_tag_value(key: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"Tag values must be str, got {type(value)} for {key!r}.")


def _check_number(value: object) -> None:
    if not isinstance(value, (int, float)):
        raise TypeError(f"A metric takes a number, not {value!r}.")


class Counter(Metric):
    """A number that only grows.

    Args:
        name: Letters, digits and _; not a digit first.
        description: For people.
        tag_keys: The tags that every record must have a value for.
    """

    kind = "counter"

    def inc(self, value: float = 1.0, tags: dict[str, str] | None = None) -> None:
        """Add `value`.

        Raises:
            ValueError: It is not positive, or a tag is missing.
            TypeError: It is not a number, or a tag value is not a string.
        """
        _check_number(value)
        if value <= 0:
            raise ValueError(f"value must be >0, got {value}")
        if self._definition is not None:
            _registry.add(self._definition, self._tags(tags), value)


class Gauge(Metric):
    """A number that goes up and down; the last one recorded counts. Arguments as for `Counter`."""

    kind = "gauge"

    def set(self, value: float | None, tags: dict[str, str] | None = None) -> None:
        """Record `value`; None records nothing. Errors as for `Counter.inc`, any sign allowed."""
        if value is None:
            return
        _check_number(value)
        if self._definition is not None:
            _registry.put(self._definition, self._tags(tags), float(value))


class Histogram(Metric):
    """How often values fall between boundaries.

    Args:
        name: As for `Counter`.
        description: For people.
        boundaries: Upper bounds of the buckets, positive; a last bucket takes what is above.
        tag_keys: As for `Counter`.

    Raises:
        ValueError: There is no boundary, or one is not positive.
    """

    kind = "histogram"

    def __init__(
        self,
        name: str,
        description: str = "",
        boundaries: list[float] | None = None,
        tag_keys: tuple[str, ...] | None = None,
    ) -> None:
        if not boundaries:
            raise ValueError('A Histogram needs boundaries, e.g. Histogram("name", boundaries=[1.0, 2.0]).')
        for index, boundary in enumerate(boundaries):
            if boundary <= 0:
                raise ValueError(f"Boundary {boundary} at index {index} of {boundaries} is not positive.")
        self.boundaries = boundaries
        super().__init__(name, description, tag_keys)

    def _define(self, boundaries: tuple[float, ...]) -> _Definition | None:
        return super()._define(tuple(sorted(self.boundaries)))

    def observe(self, value: float, tags: dict[str, str] | None = None) -> None:
        """Count `value` in its bucket. Errors as for `Counter.inc`, any sign allowed."""
        _check_number(value)
        if self._definition is not None:
            _registry.observe(self._definition, self._tags(tags), value)

    @property
    def info(self) -> JsonObject:
        """The metric's definition, with its boundaries."""
        return {**super().info, "boundaries": self.boundaries}

    def _arguments(self) -> tuple[object, ...]:
        return (self._name, self._description, self.boundaries, self._tag_keys)


__all__ = ["Counter", "Gauge", "Histogram"]
