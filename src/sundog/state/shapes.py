"""Queues of waiting requests: one queue for each distinct ``LeaseSpec``.

Owns: ``Want`` (how many more leases one owner wants for one key), and ``SpecQueue`` (all wants of one spec, in
the order in which they are served). Within a shape service rotates between jobs, then between the owners of
the job, then between the keys of the owner; so every want comes to the front after a bounded number of
grants to others. Refuses: resources and workers.
Runs in the node program, on its only thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

from sundog.accelerator_kinds import KINDS
from sundog.plain import field, plain
from sundog.state.instructions import LeaseSpec
from sundog.state.resources import Demand, ResourcePool, at_least_both, demand_of

if TYPE_CHECKING:
    from sundog.state.nodes import KnownNode, Lease


@plain(eq=False)
class Want:
    owner: bytes
    key: Hashable
    shape: SpecQueue
    job: str
    count: int
    """How many more leases are wanted, those in ``pending`` included."""
    since: float
    """When it began to wait: when it came, or when it was last served."""
    turn: int
    """The same as a sequence number: the smaller, the longer it has waited."""
    pending: OrderedDict[int, Lease] = field(default_factory=OrderedDict)
    told_infeasible: str = ""
    held_back: str = ""
    """Why it waits though there is room for it: what the gate of the lease machine said last."""

    @property
    def unmet(self) -> int:
        return self.count - len(self.pending)


@plain()
class Reservation:
    """The state of keeping resources for a request that starves: windows of keeping, with pauses in between.

    The pauses exist because a running task may itself need, before it can end, something small that the
    reservation withholds. Windows double, so that however long the others take, one window is long enough.
    """

    window_s: float
    until: float
    paused_until: float = 0.0
    reclaimed_at: float = float("-inf")


class SpecQueue:
    """All wants of one spec, and where that spec could run."""

    __slots__ = (
        "candidates",
        "epoch",
        "hold",
        "infeasible",
        "need",
        "reservation",
        "spec",
        "tiers",
        "waiting_for",
        "with_gpu",
        "_jobs",
    )

    def __init__(self, spec: LeaseSpec) -> None:
        self.spec = spec
        self.hold: Demand = demand_of(spec.resources)
        self.with_gpu = any(name in KINDS for name, _ in self.hold)
        self.need: Demand = at_least_both(self.hold, demand_of(spec.placement))
        self.epoch = -1  # of the topology that the next four were worked out for
        self.candidates: list[tuple[ResourcePool, KnownNode]] = []
        self.tiers: list[
            list[tuple[ResourcePool, KnownNode]]
        ] = []  # of the candidates: the first with room is taken
        self.infeasible = ""
        self.waiting_for = ""
        self.reservation: Reservation | None = None
        self._jobs: OrderedDict[str, OrderedDict[bytes, OrderedDict[Hashable, Want]]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __iter__(self) -> Iterator[Want]:
        for owners in self._jobs.values():
            for keys in owners.values():
                yield from keys.values()

    def add(self, want: Want) -> None:
        """Queue ``want`` (again): it is served when all wants that wait now have had their turn."""
        self._jobs.setdefault(want.job, OrderedDict()).setdefault(want.owner, OrderedDict()).setdefault(
            want.key, want
        )

    def remove(self, want: Want) -> None:
        """Take ``want`` out of the queue, if it is there."""
        owners = self._jobs.get(want.job)
        keys = owners.get(want.owner) if owners is not None else None
        if owners is None or keys is None or keys.pop(want.key, None) is None:
            return
        if not keys:
            del owners[want.owner]
        if not owners:
            del self._jobs[want.job]

    def head(self) -> Want | None:
        """Return the want whose turn it is."""
        for owners in self._jobs.values():
            for keys in owners.values():
                for want in keys.values():
                    return want
        return None

    def rotate(self, want: Want) -> None:
        """Put ``want``, its owner and its job behind all others; or take it out if it wants no more."""
        if want.unmet <= 0:
            self.remove(want)
        owners = self._jobs.get(want.job)
        if owners is None:
            return
        self._jobs.move_to_end(want.job)
        keys = owners.get(want.owner)
        if keys is None:
            return
        owners.move_to_end(want.owner)
        if want.key in keys:
            keys.move_to_end(want.key)

    def promote(self, want: Want) -> None:
        """Put ``want``, its owner and its job before all others: room is being made on its behalf."""
        owners = self._jobs[want.job]
        keys = owners[want.owner]
        keys.move_to_end(want.key, last=False)
        owners.move_to_end(want.owner, last=False)
        self._jobs.move_to_end(want.job, last=False)
