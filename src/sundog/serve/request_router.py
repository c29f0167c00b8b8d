"""Request routers that users write: a class that chooses replicas for each request.

Owns the base class, the mixins and the rows that a router sees. What a router decides is carried out in
`custom_routing.py`. Runs in the loop of a process that calls a deployment (`client.py`).
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sundog.serve.replica_view import Replica
from sundog.serve.rows import DeploymentID, ReplicaID, RequestMetadata

if TYPE_CHECKING:
    from sundog.refs import ObjectRef


@dataclass
class RequestRoutingContext:
    """What was tried for a request already."""

    tried_same_node: bool = False
    tried_same_az: bool = False
    tried_first_multiplexed_models: bool = False
    tried_fewest_multiplexed_models: bool = False
    multiplexed_start_matching_time: float | None = None
    should_backoff: bool = False


@dataclass
class PendingRequest:
    """A request that waits for a replica."""

    args: list[object]
    kwargs: dict[str, object]
    metadata: RequestMetadata
    created_at: float = field(default_factory=time.time)
    routing_context: RequestRoutingContext = field(default_factory=RequestRoutingContext)
    resolved: bool = True


class ReplicaResult:
    """The answer of a replica, as `on_request_routed` sees it."""

    def __init__(self, ref: ObjectRef[object] | None) -> None:
        self.obj_ref = ref

    def cancel(self) -> None:
        """Give the request up."""
        import sundog

        if self.obj_ref is not None:  # else it was never sent
            sundog.cancel(self.obj_ref)


class RunningReplica:
    """A replica that takes requests, as a router sees it."""

    def __init__(self, replica: Replica, busy: Callable[[Replica], int]) -> None:
        self._replica, self._busy = replica, busy

    replica_id = property(lambda self: self._replica.id)
    actor_id = property(lambda self: self._replica.actor._actor_id)
    actor_handle = property(lambda self: self._replica.actor)
    node_id = property(lambda self: self._replica.info.node_id)
    availability_zone = property(lambda self: None)
    multiplexed_model_ids = property(lambda self: set(self._replica.models))
    routing_stats = property(lambda self: self._replica.info.routing_stats)
    replica_metadata = property(lambda self: dict(self._replica.info.replica_metadata))
    max_ongoing_requests = property(lambda self: self._replica.limit)

    @property
    def queue_len(self) -> int:
        """How many requests it has, from all processes of this machine."""
        return self._busy(self._replica)

    async def get_queue_len(self, *, deadline_s: float = 0.0) -> int:
        """The same, as Ray asks for it."""
        return self.queue_len

    def __repr__(self) -> str:
        return f"RunningReplica({self._replica.id})"


class RequestRouter(ABC):
    """Chooses replicas for requests. Subclasses say how in `choose_replicas`."""

    def __init__(self, deployment_id: DeploymentID, **_given: object) -> None:
        self._deployment_id = deployment_id
        self._replicas: dict[ReplicaID, RunningReplica] = {}
        self._replicas_list: list[RunningReplica] = []
        self._replica_id_set: set[ReplicaID] = set()
        super().__init__()

    def initialize_state(self, **kwargs: Any) -> None:
        """Called once with `request_router_kwargs`."""

    @property
    def curr_replicas(self) -> dict[ReplicaID, RunningReplica]:
        """The replicas that take requests."""
        return self._replicas

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """The replicas have changed."""
        self._replicas = {each.replica_id: each for each in replicas}
        self._replicas_list = list(replicas)
        self._replica_id_set = set(self._replicas)

    @abstractmethod
    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Replicas for a request, in groups: the least busy of the first group that has room gets it."""

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: ReplicaResult
    ) -> None:
        """A request was sent."""

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """A request has ended."""

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """A replica is gone."""

    def on_send_request(self, replica_id: ReplicaID) -> None:
        """A request is about to be sent."""

    def select_available_replicas(
        self, candidates: list[RunningReplica] | None = None
    ) -> list[RunningReplica]:
        """The replicas with room for another request."""
        found = self._replicas_list if candidates is None else candidates
        return [each for each in found if each.queue_len < each.max_ongoing_requests]


class LocalityMixin:
    """Ranks replicas by how near they are; on one machine all are equally near."""

    def rank_replicas_via_locality(self, replicas: list[RunningReplica]) -> list[list[RunningReplica]]:
        """Same node, same zone, others."""
        return [list(replicas), [], []]

    def apply_locality_routing(self, pending_request: PendingRequest | None = None) -> set[ReplicaID]:
        """The replicas that a request may go to."""
        if pending_request is not None:
            pending_request.routing_context.should_backoff = True
        return self._replica_id_set  # type: ignore[attr-defined, no-any-return]


class MultiplexMixin:
    """Ranks replicas by the models that they have loaded."""

    def rank_replicas_via_multiplex(
        self, replicas: list[RunningReplica], multiplexed_model_id: str
    ) -> list[list[RunningReplica]]:
        """Replicas in groups: with the model, with fewest models, others."""
        having = [each for each in replicas if multiplexed_model_id in each.multiplexed_model_ids]
        rest = [each for each in replicas if each not in having]
        fewest = min((len(each.multiplexed_model_ids) for each in replicas), default=0)
        few = [each for each in rest if len(each.multiplexed_model_ids) == fewest]
        return [having, few, [each for each in rest if each not in few]]

    def apply_multiplex_routing(self, pending_request: PendingRequest | None = None) -> set[ReplicaID]:
        """The replicas that a request may go to: the first rank that has any."""
        everything: set[ReplicaID] = self._replica_id_set  # type: ignore[attr-defined]
        if pending_request is None:
            return everything
        pending_request.routing_context.should_backoff = True
        ranks = self.rank_replicas_via_multiplex(
            self._replicas_list,  # type: ignore[attr-defined]
            pending_request.metadata.multiplexed_model_id,
        )
        return next(({each.replica_id for each in rank} for rank in ranks if rank), everything)


class FIFOMixin:
    """Requests are sent in the order in which they came; all routers do so here."""


class PowerOfTwoChoicesRequestRouter(FIFOMixin, LocalityMixin, MultiplexMixin, RequestRouter):
    """The default: the less busy of two replicas that are drawn at random. Deployments with the default are routed
    without this class, by the same rule (`router.py`); it is here for subclasses."""

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Two at random."""
        if pending_request is not None and pending_request.metadata.multiplexed_model_id:
            allowed = self.apply_multiplex_routing(pending_request)
            candidate_replicas = [each for each in candidate_replicas if each.replica_id in allowed]
        if not candidate_replicas:
            return []
        return [random.sample(candidate_replicas, min(2, len(candidate_replicas)))]


__all__ = [
    "FIFOMixin",
    "LocalityMixin",
    "MultiplexMixin",
    "PendingRequest",
    "PowerOfTwoChoicesRequestRouter",
    "ReplicaID",
    "ReplicaResult",
    "RequestRouter",
    "RunningReplica",
]
