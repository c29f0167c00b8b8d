"""Families of figures in the text format of Prometheus.

Owns the format, so that figures can be read where prometheus-client is not installed. Pure: rows in, bytes out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from sundog.dashboard.figures import MetricFamily

_IN_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})
_IN_LABEL = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def render(families: Iterable[MetricFamily]) -> bytes:
    """All families, in the order given. Counters get the suffix `_total`.

    >>> family = Family("jobs", "counter", "How many")
    >>> family.add(2, state="done")
    >>> print(render([family]).decode(), end="")
    # HELP jobs_total How many
    # TYPE jobs_total counter
    jobs_total{state="done"} 2.0
    """
    return "".join(line for family in families for line in _lines(family)).encode()


def _lines(family: MetricFamily) -> Iterator[str]:
    name = family.name
    if family.kind == "counter":
        name = name.removesuffix("_total") + "_total"
    every = [*(each[0] for each in family.samples), *(each[0] for each in family.histograms)]
    keys = sorted({key for labels in every for key in labels})
    yield f"# HELP {name} {family.help.translate(_IN_HELP)}\n# TYPE {name} {family.kind}\n"
    for labels, value in family.samples:
        yield f"{name}{_labels(keys, labels)} {number(value)}\n"
    for labels, buckets, total in family.histograms:
        for bound, count in buckets:
            yield f"{name}_bucket{_labels(keys, labels, le=bound)} {number(count)}\n"
        yield f"{name}_count{_labels(keys, labels)} {number(buckets[-1][1])}\n"
        yield f"{name}_sum{_labels(keys, labels)} {number(total)}\n"


def _labels(keys: list[str], labels: Mapping[str, str], **more: str) -> str:
    pairs = [*((key, labels.get(key, "")) for key in keys), *more.items()]
    inside = ",".join(f'{key}="{value.translate(_IN_LABEL)}"' for key, value in pairs)
    return f"{{{inside}}}" if inside else ""


def number(value: float) -> str:
    """A value as Prometheus writes it.

    >>> number(2), number(float("inf")), number(float("nan"))
    ('2.0', '+Inf', 'NaN')
    """
    value = float(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
