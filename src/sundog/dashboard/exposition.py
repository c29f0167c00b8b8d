"""A session's figures in the text format of Prometheus.

::

    Looker.look ──► families (sundog's names, Ray's, the user's) ──► text_format ──► text

Owns names and labels of user metrics: each is given as `ray_NAME`, as Ray does, and as `sundog_NAME`. Counters and
histograms are summed over processes, also those that died; a gauge is given per process (`WorkerId`). A scrape looks
once; two within `CACHE_S` share a look. Any thread may ask.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable

import sundog
from sundog.dashboard import figures, ray_figures
from sundog.dashboard.figures import Looker, MetricFamily
from sundog.dashboard.text_format import render
from sundog.observe.metric_files import COUNTER, GAUGE, Series
from sundog.observe.sessions import Opened

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
CACHE_S = 0.5
_NOT_IN_LABEL = re.compile(r"[^a-zA-Z0-9_]")


class Exporter:
    """What `/metrics` of one session answers.

    Args:
        opened: the session, running or ended.
    """

    def __init__(self, opened: Opened) -> None:
        self.looker = Looker(opened)
        self._lock = threading.Lock()
        self._made: tuple[float, bytes] = (-CACHE_S, b"")

    def text(self) -> bytes:
        """All figures now, in Prometheus' text format."""
        with self._lock:
            made_s, text = self._made
            if time.monotonic() - made_s < CACHE_S:
                return text
            text = render(self.families())
            self._made = (time.monotonic(), text)
            return text

    def families(self) -> list[MetricFamily]:
        """User metrics as rows."""
        look = self.looker.look()
        found = figures.families(look, self.looker.facts)
        found += ray_figures.families(look, self.looker.facts, sundog.__version__)
        taken = {_base(each.name) for each in found}
        session = {"SessionName": look.name}
        return [*found, *user_families(look.user, session, taken)]


def _base(name: str) -> str:
    return name.removesuffix("_total")


def user_families(series: Iterable[Series], common: dict[str, str], taken: set[str]) -> list[MetricFamily]:
    """User metrics under both prefixes. A name that one of our own figures has is left out.

    Of one name that was given to metrics of different kinds, the first kind counts.
    """
    made: dict[str, MetricFamily] = {}
    for each in series:
        key = each.key
        for prefix in ("ray_", "sundog_"):
            name = prefix + key.name
            if _base(name) in taken:
                continue
            family = made.setdefault(name, MetricFamily(name, key.kind, key.description or key.name))
            if family.kind == key.kind:
                _add(family, each, common)
    return list(made.values())


def _add(family: MetricFamily, each: Series, common: dict[str, str]) -> None:
    labels = {**common, **({"WorkerId": each.process} if each.key.kind == GAUGE else {})}
    labels |= {_label(key): value for key, value in each.key.tags}
    if each.key.kind in (COUNTER, GAUGE):
        family.samples.append((labels, each.values[0]))
        return
    total, below = 0.0, []
    for boundary, count in zip((*each.key.boundaries, float("inf")), each.values[1:]):
        total += count
        below.append(("+Inf" if boundary == float("inf") else repr(float(boundary)), total))
    family.histograms.append((labels, below, each.values[0]))


def _label(key: str) -> str:
    """A tag key as a label's name.

    >>> _label("http-status"), _label("9th")
    ('http_status', '_9th')
    """
    text = _NOT_IN_LABEL.sub("_", key) or "_"
    return f"_{text}" if text[0].isdigit() else text
