"""Routes by a common queue of places (`capacity_queue.py`).

Owns which place each request has. Falls back to the default rule when the queue does not answer. In the loop of a
process that calls a deployment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sundog
from sundog.exceptions import RayError
from sundog.serve import client as clients
from sundog.serve.context import deployment_actor_name
from sundog.serve.request_router import (
    PendingRequest,
    PowerOfTwoChoicesRequestRouter,
    RunningReplica,
)
from sundog.serve.rows import NAMESPACE, ReplicaID

if TYPE_CHECKING:
    from sundog.actor import ActorHandle
    from sundog.serve.rows import DeploymentID


class CapacityQueueRouter(PowerOfTwoChoicesRequestRouter):
    """Takes a place from the queue for each request, and gives it back when the request has ended."""

    def __init__(self, deployment_id: DeploymentID, **given: object) -> None:
        super().__init__(deployment_id, **given)
        self._queue: ActorHandle[object] | None = None
        self._name, self._faults_max, self._faults = "capacity_queue", 3, 0
        # By request: the replica of its place, and the queue that gave it, which may be asked again after a fault.
        self._places: dict[str, tuple[ActorHandle[object], str]] = {}

    def initialize_state(
        self, capacity_queue_actor_name: str = "capacity_queue", max_fault_retries: int = 3, **_kwargs: object
    ) -> None:
        """Take the options."""
        self._name, self._faults_max = capacity_queue_actor_name, max_fault_retries

    async def _find(self) -> ActorHandle[object]:
        if self._queue is None:
            controller = clients.connect().controller
            version = await controller.version_of.remote(self._deployment_id)
            name = deployment_actor_name(self._deployment_id, self._name, version)
            self._queue = sundog.get_actor(name, namespace=NAMESPACE)
        return self._queue

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """The replica whose place the queue gives; none if no place is free."""
        if pending_request is not None:  # its replica had no room after all
            self._give_back(pending_request.metadata.internal_request_id)
        by_name = {each.replica_id.unique_id: each for each in candidate_replicas}
        try:
            queue = await self._find()
            await queue.set_replicas.remote(
                {name: each.max_ongoing_requests for name, each in by_name.items()}
            )
            name = await queue.acquire.remote()
        except (RayError, ValueError):
            self._queue = None
            self._faults += 1
            if self._faults < self._faults_max:
                return []
            return await super().choose_replicas(candidate_replicas, pending_request)
        self._faults = 0
        if name is None:
            return []
        if name not in by_name or pending_request is None:
            queue.release.remote(name)
            return []
        self._places[pending_request.metadata.internal_request_id] = (queue, name)
        return [[by_name[name]]]

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """Give the place back."""
        self._give_back(internal_request_id)

    def _give_back(self, internal_request_id: str) -> None:
        queue, name = self._places.pop(internal_request_id, (None, ""))
        if queue is not None:
            queue.release.remote(name)
