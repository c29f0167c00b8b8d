"""Replicas that start and fail together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class GangContext:
    """The gang of a replica.

    Attributes:
        gang_id: names this gang.
        rank: of the replica in the gang, from 0.
        world_size: how many replicas the gang has.
        member_replica_ids: all of them, by rank.
        pg_name: of the gang's placement group; empty if it has none.
    """

    gang_id: str
    rank: int
    world_size: int
    member_replica_ids: list[str]
    pg_name: str = ""
