"""A common queue of places: one actor hands out the places of all replicas, so that no caller has to guess.

Owns the places. An asyncio actor that a deployment shares (`deployment_actors`); callers use it through
`CapacityQueueRouter`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from dataclasses import dataclass, field

import sundog


@dataclass
class CapacityQueueStats:
    """What a queue has seen."""

    queue_size: int
    num_waiters: int
    num_replicas: int
    total_capacity: int
    total_in_flight: int
    total_acquires: int
    total_releases: int
    total_timeouts: int
    max_waiters_seen: int


@dataclass
class ReplicaCapacityInfo:
    """The places of one replica."""

    max_capacity: int
    in_flight: int = 0
    taken_s: deque[float] = field(default_factory=deque)


class _Queue:
    """Places of replicas, first come first served.

    Args:
        acquire_timeout_s: how long a caller waits for a place unless it says otherwise.
        token_ttl_s: a place that was not given back for so long is free again; None for never.
    """

    def __init__(self, acquire_timeout_s: float, token_ttl_s: float | None = None, **_given: object) -> None:
        self._timeout_s, self._ttl_s = acquire_timeout_s, token_ttl_s
        self._replicas: dict[str, ReplicaCapacityInfo] = {}
        self._waiters: deque[asyncio.Future[str]] = deque()
        self._acquires = self._releases = self._timeouts = self._waiters_max = 0

    async def set_replicas(self, capacities: dict[str, int]) -> None:
        """Set the replicas, with the number of places of each."""
        for name in set(self._replicas) - set(capacities):
            del self._replicas[name]
        for name, capacity in capacities.items():
            self._replicas.setdefault(name, ReplicaCapacityInfo(capacity)).max_capacity = capacity
        self._serve()

    async def register_replica(self, replica_id: str, capacity: int) -> None:
        """A replica has come."""
        self._replicas.setdefault(replica_id, ReplicaCapacityInfo(capacity))
        self._serve()

    async def unregister_replica(self, replica_id: str) -> None:
        """A replica is gone."""
        self._replicas.pop(replica_id, None)

    async def acquire(self, timeout_s: float | None = None) -> str | None:
        """A place: the name of its replica; None if none was free in time."""
        self._expire()
        found = self._take() if not self._waiters else None
        if found is not None:
            return found
        waiter: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._waiters_max = max(self._waiters_max, len(self._waiters))
        try:
            return await asyncio.wait_for(waiter, self._timeout_s if timeout_s is None else timeout_s)
        except TimeoutError:
            self._timeouts += 1
            return None
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    async def release(self, replica_id: str) -> None:
        """A place is free again."""
        row = self._replicas.get(replica_id)
        if row is not None and row.in_flight:
            row.in_flight -= 1
            row.taken_s.popleft()
            self._releases += 1
        self._serve()

    def _take(self) -> str | None:
        free = {
            name: row.in_flight for name, row in self._replicas.items() if row.in_flight < row.max_capacity
        }
        if not free:
            return None
        least = min(free.values())
        name = random.choice([each for each, count in free.items() if count == least])
        row = self._replicas[name]
        row.in_flight += 1
        row.taken_s.append(time.monotonic())
        self._acquires += 1
        return name

    def _serve(self) -> None:
        while self._waiters:
            if self._waiters[0].done():
                self._waiters.popleft()
                continue
            found = self._take()
            if found is None:
                return
            self._waiters.popleft().set_result(found)

    def _expire(self) -> None:
        if self._ttl_s is None:
            return
        oldest = time.monotonic() - self._ttl_s
        for row in self._replicas.values():
            while row.taken_s and row.taken_s[0] < oldest:
                row.taken_s.popleft()
                row.in_flight -= 1

    async def get_stats(self) -> CapacityQueueStats:
        """What the queue has seen."""
        rows = self._replicas.values()
        return CapacityQueueStats(
            sum(max(0, each.max_capacity - each.in_flight) for each in rows),
            len(self._waiters),
            len(rows),
            sum(each.max_capacity for each in rows),
            sum(each.in_flight for each in rows),
            self._acquires,
            self._releases,
            self._timeouts,
            self._waiters_max,
        )

    async def get_queue_length(self) -> int:
        """How many places are free."""
        return (await self.get_stats()).queue_size

    async def get_num_waiters(self) -> int:
        """How many callers wait."""
        return len(self._waiters)

    async def get_registered_replicas(self) -> list[str]:
        """The replicas it knows."""
        return list(self._replicas)

    async def get_replica_in_flight(self) -> dict[str, tuple[int, int]]:
        """Places in use and in all, by replica."""
        return {name: (row.in_flight, row.max_capacity) for name, row in self._replicas.items()}


CapacityQueue = sundog.remote(num_cpus=0)(_Queue)
