"""The numbers of one proxy, under Ray Serve's names.

Owns the metrics. In a proxy's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from sundog.serve.replica_metrics import LATENCY_MS, Level
from sundog.util import metrics

if TYPE_CHECKING:
    from sundog.util.metrics import Counter, Histogram

_TAGS = ("route", "method", "application", "status_code")


class ProxyMetrics:
    """Counts requests, errors and milliseconds."""

    def __init__(self) -> None:
        self._made: tuple[Counter, Counter, Histogram] | None = None
        self._level: Level | None = None

    def watch(self, read: Callable[[], int]) -> None:
        """A request has begun; `read` tells how many there are."""
        if self._level is None:
            gauge = metrics.Gauge("serve_num_ongoing_http_requests", "HTTP requests that this proxy is at.")
            self._level = Level(asyncio.get_running_loop(), gauge, read)
        if not self._level.is_watched:
            self._level.watch()

    def ended(self, route: str, method: str, status: int, app: str, seconds: float) -> None:
        """A request has been answered."""
        if self._made is None:
            self._made = (
                metrics.Counter(
                    "serve_num_http_requests", "HTTP requests that this proxy has answered.", _TAGS
                ),
                metrics.Counter(
                    "serve_num_http_error_requests",
                    "HTTP requests that this proxy has answered with a status of 400 or more.",
                    ("route", "method", "application", "error_code"),
                ),
                metrics.Histogram(
                    "serve_http_request_latency_ms", "Time that HTTP requests took.", LATENCY_MS, _TAGS
                ),
            )
        requests, errors, latency = self._made
        code = str(status)
        tags = {"route": route, "method": method, "application": app, "status_code": code}
        requests.inc(tags=tags)
        latency.observe(seconds * 1000, tags=tags)
        if status >= 400:
            errors.inc(tags={"route": route, "method": method, "application": app, "error_code": code})
