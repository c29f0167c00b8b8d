"""A replica as a process that sends requests sees it.

Owns the row, which the router of a deployment keeps up to date. Runs in the loop of that process's client.
"""

from __future__ import annotations

from sundog.serve.rows import RunningReplicaInfo


class Replica:
    """A replica as this process sees it."""

    __slots__ = (
        "actor",
        "call",
        "http",
        "id",
        "info",
        "is_gone",
        "limit",
        "mine",
        "models",
        "row",
        "share",
        "stream",
    )

    def __init__(self, info: RunningReplicaInfo) -> None:
        self.id = info.replica_id
        self.actor = info.actor
        self.call = info.actor.handle_request
        self.http = info.actor.handle_http
        self.stream = info.actor.handle_request_streaming
        self.mine = 0  # requests of this process that the replica has
        self.is_gone = False
        self.update(info)

    def update(self, info: RunningReplicaInfo) -> None:
        self.info = info
        self.row = info.board_row
        self.limit = info.max_ongoing_requests
        self.models = frozenset(info.multiplexed_model_ids)
        self.share = info.share
