"""Where the requests for a deployment may go, as the controller tells the routers.

Owns the row. Runs in the controller and in every process that sends requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sundog.serve.config import RequestRouterConfig
    from sundog.serve.rows import RunningReplicaInfo


@dataclass
class DeploymentTargets:
    """All that routers need to know of a deployment."""

    replicas: list[RunningReplicaInfo] = field(default_factory=list)
    is_available: bool = True
    exists: bool = True
    max_queued_requests: int = -1
    backpressure_status: int = 503
    backpressure_retry_s: float | None = None
    board_row: int = -1  # for the number of requests that wait at proxies
    router_config: RequestRouterConfig | None = None
    autoscales: bool = False
