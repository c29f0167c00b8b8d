"""A simulated program that wants leases and actors, and what it knows of its leases from its messages alone.

It hears of its grants late, as a real owner does: it says with each want which grant it has read last.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from sundog.state.leases import Grant, Leases, LeaseSpec
from tests.state.simulation.network import Message

Demand = tuple[object, LeaseSpec]


@dataclass(eq=False)
class Owner:
    owner: bytes
    alive: bool = True
    leases: dict[int, bytes] = field(default_factory=dict)
    asked_back: set[int] = field(default_factory=set)
    actors: list[bytes] = field(default_factory=list)
    last_grant: int = 0
    wanted: dict[object, tuple[LeaseSpec, int]] = field(default_factory=dict)
    """By key: what the last want said, less the grants that were read since."""
    read: Counter[Demand] = field(default_factory=Counter)
    """How many grants were read."""
    asked: Counter[Demand] = field(default_factory=Counter)
    """How many grants were ever asked for: those that had been read, and as many as a want then said."""

    def wants(self, key: object, spec: LeaseSpec, count: int) -> Message:
        """Want ``count`` more leases; returns the message that says so."""
        self.wanted[key] = (spec, count)
        self.asked[key, spec] = max(self.asked[key, spec], self.read[key, spec] + count)
        return "want", key, spec, count, self.last_grant

    def reads(self, grant: Grant, spec: LeaseSpec, useless: int) -> None:
        """A grant arrives; of those of its kind so many were useless: their workers ended, or they were asked back."""
        self.last_grant = max(self.last_grant, grant.number)
        self.leases[grant.lease] = grant.worker
        key = grant.key
        self.read[key, spec] += 1
        most = self.asked[key, spec] + useless
        assert self.read[key, spec] <= most, f"{grant}: at most {most} leases were wanted"
        wanted, count = self.wanted[key]
        if wanted == spec:
            self.wanted[key] = (spec, max(0, count - 1))

    def check_settled(self, leases: Leases) -> None:
        """No message is on its way: what this owner still waits for, the machine still has to grant."""
        known = leases._wants.get(self.owner, {})
        for key, (spec, count) in self.wanted.items():
            want = known.get(key)
            found = want.count if want is not None and want.shape.spec == spec else 0
            assert found >= count, (
                f"{self.owner!r} waits for {count} of {key!r}, the machine knows of {found}"
            )
