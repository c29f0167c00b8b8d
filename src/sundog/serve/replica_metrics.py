"""The numbers of one replica, under Ray Serve's names.

Owns the metrics. Metrics are made when the first request has ended: a replica starts sooner without them. In a
replica.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sundog.serve.rows import ReplicaID
from sundog.util import metrics

if TYPE_CHECKING:
    import asyncio

    from sundog.util.metrics import Counter, Gauge, Histogram

_LEVEL_S = 0.5
LATENCY_MS: list[float] = [
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    1000,
    2000,
    5000,
    10000,
    60000,
    120000,
    300000,
    600000,
]


class Level:
    """A number that changes with each request, written twice a second while it is not zero. In a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, gauge: Gauge, read: Callable[[], int]) -> None:
        self._loop, self._gauge, self._read = loop, gauge, read
        self.is_watched = False

    def watch(self) -> None:
        """A request has begun: write the number from now on, until it is zero."""
        self.is_watched = True
        self._loop.call_later(_LEVEL_S, self._write)

    def _write(self) -> None:
        now = self._read()
        self._gauge.set(now)
        if now:
            self._loop.call_later(_LEVEL_S, self._write)
        else:
            self.is_watched = False


class ReplicaMetrics:
    """Counts requests, errors and milliseconds."""

    def __init__(self, replica: ReplicaID) -> None:
        where = replica.deployment_id
        self._tags = {
            "deployment": where.name,
            "replica": replica.unique_id,
            "application": where.app_name,
        }
        self._made: tuple[Counter, Counter, Histogram] | None = None
        self._healthy: Gauge | None = None
        self._was_healthy: bool | None = None

    def started(self) -> None:
        """The replica runs."""
        self._counter("serve_deployment_replica_starts", "Starts of this replica.").inc()
        self.is_healthy(True)

    def is_healthy(self, answer: bool) -> None:
        """How its last health check went."""
        if answer != self._was_healthy:
            self._was_healthy = answer
            if self._healthy is None:
                self._healthy = self.gauge(
                    "serve_deployment_replica_healthy", "1 if this replica is healthy."
                )
            self._healthy.set(int(answer))

    def gauge(self, name: str, text: str) -> Gauge:
        """A number of this replica that goes up and down."""
        return metrics.Gauge(name, text, ("deployment", "replica", "application")).set_default_tags(
            self._tags
        )

    def _counter(self, name: str, text: str) -> Counter:
        return metrics.Counter(
            name, text, ("deployment", "replica", "application", "route")
        ).set_default_tags({**self._tags, "route": ""})

    def ended(self, route: str, seconds: float, status: str) -> None:
        """A request has ended."""
        if self._made is None:
            latency = metrics.Histogram(
                "serve_deployment_processing_latency_ms",
                "Time that requests took in this replica.",
                LATENCY_MS,
                ("deployment", "replica", "application", "route"),
            ).set_default_tags({**self._tags, "route": ""})
            self._made = (
                self._counter("serve_deployment_request_counter", "Requests that this replica has run."),
                self._counter("serve_deployment_error_counter", "Requests that raised in this replica."),
                latency,
            )
        requests, errors, latency = self._made
        tags = {"route": route}
        if status in ("ERROR", "500"):
            errors.inc(tags=tags)
        else:
            requests.inc(tags=tags)
        latency.observe(seconds * 1000, tags=tags)
