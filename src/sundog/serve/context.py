"""What code in a replica can ask: which replica it is in, and which request it serves.

Owns the replica's context (one per process) and the request's context (one per asyncio task or thread). Runs in
replicas, and in local testing mode in the user's own process.
"""

from __future__ import annotations

import contextvars
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sundog
from sundog.config import user_environ
from sundog.serve.exceptions import RayServeException
from sundog.serve.gang import GangContext
from sundog.serve.rows import NAMESPACE, DeploymentID, ReplicaID
from sundog.serve.schema import ReplicaRank

if TYPE_CHECKING:
    from sundog.actor import ActorHandle
    from sundog.serve.deployment import DeploymentConfig


@dataclass
class ReplicaContext:
    """The replica that the calling code runs in."""

    replica_id: ReplicaID
    servable_object: object
    _deployment_config: DeploymentConfig
    rank: ReplicaRank
    world_size: int
    gang_context: GangContext | None = None
    code_version: str | None = None

    @property
    def app_name(self) -> str:
        """The application's name."""
        return self.replica_id.deployment_id.app_name

    @property
    def deployment(self) -> str:
        """The deployment's name."""
        return self.replica_id.deployment_id.name

    @property
    def replica_tag(self) -> str:
        """The replica's own name."""
        return self.replica_id.unique_id


@dataclass
class DeploymentActorContext:
    """The deployment that the calling actor belongs to."""

    deployment_id: DeploymentID
    actor_name: str
    code_version: str | None = None

    @property
    def app_name(self) -> str:
        """The application's name."""
        return self.deployment_id.app_name

    @property
    def deployment(self) -> str:
        """The deployment's name."""
        return self.deployment_id.name


@dataclass(frozen=True)
class RequestContext:
    """The request that the calling code serves."""

    route: str = ""
    request_id: str = ""
    _internal_request_id: str = ""
    app_name: str = ""
    multiplexed_model_id: str = ""
    session_id: str = ""
    is_http_request: bool = False


_replica: ReplicaContext | None = None
_local_replica: contextvars.ContextVar[ReplicaContext | None] = contextvars.ContextVar(
    "sundog-serve-local-replica", default=None
)
_NO_REQUEST = RequestContext()
request_context: contextvars.ContextVar[RequestContext] = contextvars.ContextVar(
    "sundog-serve-request", default=_NO_REQUEST
)
batch_context: contextvars.ContextVar[tuple[RequestContext, ...]] = contextvars.ContextVar(
    "sundog-serve-batch", default=()
)


def set_replica_context(context: ReplicaContext) -> None:
    """This process is a replica from now on."""
    global _replica
    _replica = context


def enter_local_replica(context: ReplicaContext) -> None:
    """The calling asyncio task runs code of a replica in local testing mode; other code of the process does not."""
    _local_replica.set(context)


def _get_internal_replica_context() -> ReplicaContext | None:
    return _local_replica.get() or _replica


def _get_serve_request_context() -> RequestContext:
    return request_context.get()


def _get_serve_batch_request_context() -> tuple[RequestContext, ...]:
    return batch_context.get()


def get_replica_context() -> ReplicaContext:
    """The replica that the calling code runs in.

    Raises:
        RayServeException: it runs in none.
    """
    found = _get_internal_replica_context()
    if found is None:
        raise RayServeException(
            "This code runs in no replica, so `serve.get_replica_context()` has nothing to give. Call it in a "
            "deployment."
        )
    return found


def get_deployment_actor_context() -> DeploymentActorContext:
    """The deployment that the calling actor belongs to.

    Raises:
        RayServeException: it belongs to none.
    """
    facts = user_environ().get("SUNDOG_SERVE_DEPLOYMENT_ACTOR")
    if not facts:
        raise RayServeException(
            "This code runs in no deployment actor, so `serve.get_deployment_actor_context()` has nothing to give. "
            "Call it in an actor of `deployment_actors`."
        )
    app, name, actor, version = json.loads(facts)
    return DeploymentActorContext(DeploymentID(name, app), actor, version)


def deployment_actor_name(deployment: DeploymentID, name: str, version: str | None) -> str:
    """The name under which an actor of a deployment is found."""
    return f"SERVE_DEPLOYMENT_ACTOR::{deployment.app_name}#{deployment.name}#{name}#{version or ''}"


def get_deployment_actor(actor_name: str) -> ActorHandle[Any]:
    """The handle of an actor that the replicas of this deployment share (`deployment_actors`).

    Raises:
        RayServeException: called outside of a replica.
        ValueError: there is no such actor.
    """
    replica = _get_internal_replica_context()
    if replica is None:
        raise RayServeException(
            f"This code runs in no replica, so `serve.get_deployment_actor({actor_name!r})` has no deployment to look "
            "in. Call it in a replica."
        )
    name = deployment_actor_name(replica.replica_id.deployment_id, actor_name, replica.code_version)
    return sundog.get_actor(name, namespace=NAMESPACE)


def get_multiplexed_model_id() -> str:
    """The model that the request was sent for; empty if it names none."""
    batch = batch_context.get()
    return batch[0].multiplexed_model_id if batch else request_context.get().multiplexed_model_id
