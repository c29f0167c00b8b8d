"""Requests of one session go to one replica, as long as there is that replica.

Owns the ring of hashes. In the loop of a process that calls a deployment.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from typing import TYPE_CHECKING

from sundog.serve.request_router import PendingRequest, RequestRouter, RunningReplica
from sundog.serve.rows import ReplicaID

if TYPE_CHECKING:
    from sundog.serve.rows import DeploymentID


def _hash(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big")


class ConsistentHashRouter(RequestRouter):
    """Chooses by the request's session id: when replicas come or go, few sessions move."""

    def __init__(self, deployment_id: DeploymentID, **given: object) -> None:
        super().__init__(deployment_id, **given)
        self._points: list[int] = []
        self._owners: list[ReplicaID] = []
        self._virtual_nodes, self._fallbacks = 100, 2

    def initialize_state(
        self, num_virtual_nodes: int = 100, num_fallback_replicas: int = 2, **_kwargs: object
    ) -> None:
        """Take the options.

        Raises:
            ValueError: a number is out of range.
        """
        if not isinstance(num_virtual_nodes, int) or num_virtual_nodes < 1:
            raise ValueError(f"num_virtual_nodes must be a positive integer, got {num_virtual_nodes!r}.")
        if not isinstance(num_fallback_replicas, int) or num_fallback_replicas < 0:
            raise ValueError(
                f"num_fallback_replicas must be a non-negative integer, got {num_fallback_replicas!r}."
            )
        self._virtual_nodes, self._fallbacks = num_virtual_nodes, num_fallback_replicas

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Build the ring anew if the replicas are others."""
        before = self._replica_id_set
        super().update_replicas(replicas)
        if before != self._replica_id_set:
            ring = sorted(
                (_hash(f"{each.unique_id}#{number}"), each.unique_id, each)
                for each in self._replica_id_set
                for number in range(self._virtual_nodes)
            )
            self._points = [point for point, _, _ in ring]
            self._owners = [owner for _, _, owner in ring]

    def _ranked(self, key: str) -> list[ReplicaID]:
        found: list[ReplicaID] = []
        start = bisect_right(self._points, _hash(key))
        for step in range(len(self._points)):
            owner = self._owners[(start + step) % len(self._points)]
            if owner not in found:
                found.append(owner)
                if len(found) > self._fallbacks:
                    break
        return found

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """The replica of the session, then its stand-ins."""
        if pending_request is None:
            return [candidate_replicas] if candidate_replicas else []
        meta = pending_request.metadata
        by_id = {each.replica_id: each for each in candidate_replicas}
        ranked = self._ranked(meta.session_id or meta.internal_request_id)
        return [[by_id[each]] for each in ranked if each in by_id]
