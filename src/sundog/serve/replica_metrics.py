"""The numbers of one replica, under Ray Serve's names.

Owns the metrics. Metrics are made when the first request has ended: a replica starts sooner without them. In a
replica.
"""

from __future__ import annotations

from typing import Any

from sundog.serve.rows import ReplicaID
from sundog.util import metrics

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


class ReplicaMetrics:
    """Counts requests, errors and milliseconds."""

    def __init__(self, replica: ReplicaID) -> None:
        where = replica.deployment_id
        self._tags = {
            "deployment": where.name,
            "replica": replica.unique_id,
            "application": where.app_name,
        }
        self._made: tuple[Any, Any, Any] | None = None

    def started(self) -> None:
        """The replica runs."""
        self._counter("serve_deployment_replica_starts", "Starts of this replica.").inc()

    def _counter(self, name: str, text: str) -> Any:
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
