"""Replicas in turn.

Owns the turn. In the loop of a process that calls a deployment.
"""

from __future__ import annotations

import random

from sundog.serve.request_router import FIFOMixin, PendingRequest, RequestRouter, RunningReplica


class RoundRobinRouter(FIFOMixin, RequestRouter):
    """Sends each request to the replica after the last one; one that is full is passed over."""

    _turn: int | None = None

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """All replicas, each a group of its own, beginning with the one whose turn it is."""
        count = len(candidate_replicas)
        if not count:
            return []
        # Processes begin at different replicas: otherwise the first replica would get the first request of
        # each.
        self._turn = random.randrange(count) if self._turn is None else self._turn + 1
        ordered = sorted(candidate_replicas, key=lambda each: each.replica_id.unique_id)
        return [[ordered[(self._turn + step) % count]] for step in range(count)]
