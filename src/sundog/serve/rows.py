"""The rows that Serve's processes hand each other, and the names that all of them know.

Owns ids, states and messages. A reader sees here what travels between controller, proxies, routers and replicas. Runs
everywhere; imports nothing heavy.
"""

from __future__ import annotations

import secrets
import string
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from sundog.plain import NamedTuple

if TYPE_CHECKING:
    from sundog.actor import ActorHandle

    # What one process reports about its requests for one deployment: how many wait, how many run at each
    # replica, and for each replica that has answered since: requests, errors, seconds.
    Reported = tuple[int, dict[str, int], dict[str, list[float]]]

NAMESPACE = "serve"
CONTROLLER_NAME = "SERVE_CONTROLLER_ACTOR"
DEFAULT_APP = "default"
REQUEST_ID_HEADER = "x-request-id"
MODEL_ID_HEADER = "serve_multiplexed_model_id"
SESSION_ID_HEADER = "x-session-id"
TIMEOUT_HEADER = "x-request-timeout-seconds"
NO_DISCONNECT_HEADER = "x-request-disconnect-disabled"
MAX_REPLICAS_PER_NODE = 100


class DEFAULT(Enum):
    """`DEFAULT.VALUE` stands for an option that the user did not give; None may be a choice."""

    VALUE = 1


UNSET: Any = DEFAULT.VALUE  # the default of an option of any type


def random_name(length: int = 8) -> str:
    """A short name that nothing else has."""
    return "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(length))


@dataclass(frozen=True)
class DeploymentID:
    """One deployment of one application."""

    name: str
    app_name: str = DEFAULT_APP

    def __str__(self) -> str:
        return f"Deployment(name='{self.name}', app='{self.app_name}')"

    __repr__ = __str__


@dataclass(frozen=True)
class ReplicaID:
    """One replica of a deployment."""

    unique_id: str
    deployment_id: DeploymentID

    def to_full_id_str(self) -> str:
        """The name of its actor."""
        return f"SERVE_REPLICA::{self.deployment_id.app_name}#{self.deployment_id.name}#{self.unique_id}"

    def __str__(self) -> str:
        where = self.deployment_id
        return f"Replica(id='{self.unique_id}', deployment='{where.name}', app='{where.app_name}')"

    __repr__ = __str__


class ReplicaState(str, Enum):
    """Where a replica is in its life."""

    STARTING = "STARTING"
    UPDATING = "UPDATING"
    RECOVERING = "RECOVERING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    PENDING_MIGRATION = "PENDING_MIGRATION"


class DeploymentStatus(str, Enum):
    """How a deployment is."""

    UPDATING = "UPDATING"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    DEPLOY_FAILED = "DEPLOY_FAILED"
    UPSCALING = "UPSCALING"
    DOWNSCALING = "DOWNSCALING"


class DeploymentStatusTrigger(str, Enum):
    """What last changed a deployment's status."""

    UNSPECIFIED = "UNSPECIFIED"
    CONFIG_UPDATE_STARTED = "CONFIG_UPDATE_STARTED"
    CONFIG_UPDATE_COMPLETED = "CONFIG_UPDATE_COMPLETED"
    UPSCALE_COMPLETED = "UPSCALE_COMPLETED"
    DOWNSCALE_COMPLETED = "DOWNSCALE_COMPLETED"
    AUTOSCALING = "AUTOSCALING"
    REPLICA_STARTUP_FAILED = "REPLICA_STARTUP_FAILED"
    DEPLOYMENT_ACTOR_FAILED = "DEPLOYMENT_ACTOR_FAILED"
    HEALTH_CHECK_FAILED = "HEALTH_CHECK_FAILED"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    DELETING = "DELETING"


class RequestProtocol(str, Enum):
    """How a request came in."""

    UNDEFINED = "UNDEFINED"
    HTTP = "HTTP"
    GRPC = "gRPC"


class DeploymentHandleSource(str, Enum):
    """The kind of code that made a handle."""

    UNKNOWN = "UNKNOWN"
    PROXY = "PROXY"
    REPLICA = "REPLICA"


class RequestMetadata(NamedTuple):
    """What travels with a request, beside its arguments."""

    request_id: str
    internal_request_id: str
    call_method: str = "__call__"
    route: str = ""
    app_name: str = ""
    multiplexed_model_id: str = ""
    session_id: str = ""
    is_streaming: bool = False
    is_http_request: bool = False
    slot_token: str = ""


class Rejection(NamedTuple):
    """What a replica answers to a request that it does not take: the router looks for another one."""

    ongoing: int
    is_stopping: bool
    is_body_unreadable: bool = False  # the replica cannot map the memory of the proxy (`shared_bodies.py`)


@dataclass
class RunningReplicaInfo:
    """A replica that takes requests, as routers know it."""

    replica_id: ReplicaID
    actor: ActorHandle[object]
    board_row: int
    max_ongoing_requests: int
    node_id: str = ""
    node_ip: str = "127.0.0.1"
    multiplexed_model_ids: tuple[str, ...] = ()
    routing_stats: dict[str, object] = field(default_factory=dict)
    replica_metadata: dict[str, object] = field(default_factory=dict)
    share: float = 1.0  # of the requests that it should get, for a canary


@dataclass
class TimeStampedValue:
    """One point of a metric."""

    timestamp: float
    value: float


class Route(NamedTuple):
    """Where the requests of a path prefix go."""

    prefix: str
    app_name: str
    deployment: str
    timeout_s: float | None = None
