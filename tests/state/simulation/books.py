"""What a bystander knows of the cluster from its events and instructions alone, and what must hold of it.

The books are kept without looking into the machines. ``check`` then also looks inside, to find a wrong sum
before it does harm.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from sundog.state import actors as A
from sundog.state import placement
from sundog.state.actors import Actors
from sundog.state.leases import Grant, Infeasible, Leases, LeaseSpec
from sundog.state.nodes import KnownNode
from sundog.state.resources import CPU, UNIT, Holding, ResourcePool, to_units

REMOVED_GROUP = "removed"


@dataclass(eq=False)
class Granted:
    grant: Grant
    in_group: bool
    cpu_lent: bool = False
    woken: bool = False
    """It was blocked once and took its CPU back by force."""


@dataclass(eq=False)
class ActorBook:
    name: str
    max_restarts: int
    owner: bytes
    detached: bool
    let_go: bool = False
    """It was killed, or its last handle is gone."""
    state: str = ""
    incarnation: int = 0
    constructed: set[int] = field(default_factory=set)


class Books:
    def __init__(self) -> None:
        self.totals: dict[bytes, dict[str, int]] = {}
        self.grants: dict[int, Granted] = {}
        self.by_worker: dict[bytes, int] = {}
        self.specs: dict[int, LeaseSpec] = {}  # of all leases that were ever granted
        self.useless: set[int] = set()  # leases that were asked back, or whose workers ended or have to
        self.useless_of: Counter[tuple[bytes, object, LeaseSpec]] = Counter()
        self.living: set[bytes] = set()
        self.dead: set[bytes] = set()
        self.stopping: set[bytes] = set()
        self.dead_owners: set[bytes] = set()
        self.wants: dict[tuple[bytes, object], tuple[LeaseSpec, int]] = {}
        self.told: dict[tuple[bytes, object, LeaseSpec], str] = {}
        self.groups: dict[bytes, str] = {}
        self.actors: dict[bytes, ActorBook] = {}
        self.actor_specs: dict[bytes, LeaseSpec] = {}
        self.scheduled_at = 0.0
        self.draining: set[bytes] = set()

    # ------------------------------------------------------------------ leases

    def add_node(self, node_id: bytes, totals: dict[str, float]) -> None:
        self.totals[node_id] = {name: to_units(amount) for name, amount in totals.items()}

    def node_lost(self, node_id: bytes, workers: list[bytes]) -> None:
        del self.totals[node_id]
        self.draining.discard(node_id)
        for worker in workers:
            self.died(worker)
        self.groups.clear()  # any of them may lose a bundle, and become ready once more
        self.told.clear()  # what was possible may not be so any more

    def known(self, worker: bytes) -> bool:
        return worker in self.living and worker not in self.dead

    def started(self, worker: bytes) -> None:
        if worker not in self.dead:
            self.living.add(worker)

    def wanted(self, owner: bytes, key: object, spec: LeaseSpec, count: int) -> None:
        before = self.wants.get((owner, key))
        if before is not None and (before[0] != spec or count == 0):
            self.told.pop((owner, key, before[0]), None)
        if count:
            self.wants[owner, key] = (spec, count)
        else:
            self.wants.pop((owner, key), None)

    def granted(self, grant: Grant) -> None:
        assert grant.lease not in self.specs, f"lease {grant.lease} granted twice"
        assert grant.worker not in self.by_worker, f"{grant}: its worker already serves somebody"
        assert grant.worker not in self.stopping, f"{grant}: its worker was told to stop"
        assert grant.owner not in self.dead_owners, f"{grant}: its owner is dead"
        spec, count = self.wants.pop((grant.owner, grant.key), (None, 0))
        assert spec is not None and spec.resources == grant.resources, f"{grant}: nobody asked for it"
        self.specs[grant.lease] = spec
        # In a bundle that is placed there, what runs may need more before it can end.
        assert spec.strategy[0] == "pg" or grant.node_id not in self.draining, (
            f"{grant}: its node is to leave"
        )
        if count > 1:
            self.wants[grant.owner, grant.key] = (spec, count - 1)
        else:
            self.told.pop((grant.owner, grant.key, spec), None)
        self.by_worker[grant.worker] = grant.lease
        self.grants[grant.lease] = Granted(grant, spec.strategy[0] == "pg")
        self._check_sum(grant)

    def unread(self, owner: bytes, key: object, spec: LeaseSpec, last_grant: int) -> int:
        """How many leases an owner will read of that it did not know of when it had read up to ``last_grant``."""
        return sum(
            (held.grant.owner, held.grant.key, self.specs[lease]) == (owner, key, spec)
            and held.grant.number > last_grant
            and lease not in self.useless
            for lease, held in self.grants.items()
        )

    def lost(self, lease: int) -> None:
        """A lease serves no longer: its worker ends, or its owner was told to give it back."""
        if lease not in self.useless:
            self.useless.add(lease)
            grant = self.grants[lease].grant
            self.useless_of[grant.owner, grant.key, self.specs[lease]] += 1

    def _check_sum(self, new: Grant) -> None:
        """Nothing may be granted past the totals; what a worker forced back when it woke is not a grant."""
        used: Counter[str] = Counter()
        gpus: Counter[int] = Counter()
        for held in self.grants.values():
            grant = held.grant
            if grant.node_id != new.node_id:
                continue
            amounts = {name: to_units(amount) for name, amount in grant.resources}
            if held.cpu_lent or held.woken:
                amounts.pop(CPU, None)
            if not held.in_group:
                used.update(amounts)
            share = amounts.get("GPU", 0)
            for gpu in dict(grant.accelerators).get("GPU", ()):
                gpus[gpu] += min(share, UNIT)
        totals = self.totals[new.node_id]
        for name, _ in new.resources:
            assert used[name] <= totals.get(name, 0), f"{new}: {name} granted past the total"
        assert all(units <= UNIT for units in gpus.values()), f"{new}: a GPU is shared by more than fits"

    def _gone(self, lease: int | None) -> None:
        held = self.grants.pop(lease, None) if lease is not None else None
        if held is not None:
            del self.by_worker[held.grant.worker]

    def released(self, lease: int) -> None:
        held = self.grants.get(lease)
        if held is not None and held.grant.worker not in self.stopping:
            self._gone(lease)

    def stopped(self, worker: bytes) -> None:
        assert worker not in self.stopping, "told to stop twice"
        assert worker not in self.dead, "a dead worker is told to stop"
        if worker in self.by_worker:
            self.lost(self.by_worker[worker])
        self.stopping.add(worker)

    def died(self, worker: bytes) -> None:
        self.dead.add(worker)
        self.living.discard(worker)
        if worker in self.by_worker:
            self.lost(self.by_worker[worker])
        self._gone(self.by_worker.get(worker))

    def blocked(self, worker: bytes) -> None:
        lease = self.by_worker.get(worker)
        if lease is not None and worker not in self.stopping:
            self.grants[lease].cpu_lent = True

    def unblocked(self, worker: bytes) -> None:
        lease = self.by_worker.get(worker)
        if lease is not None and worker not in self.stopping:
            self.grants[lease].woken |= self.grants[lease].cpu_lent
            self.grants[lease].cpu_lent = False

    def owner_died(self, owner: bytes) -> None:
        self.dead_owners.add(owner)
        self.wants = {at: want for at, want in self.wants.items() if at[0] != owner}
        self.told = {at: why for at, why in self.told.items() if at[0] != owner}

    def infeasible(self, told: Infeasible) -> None:
        at = (told.owner, told.key, told.spec)
        # Another reason is news: what was merely too large may now never be possible.
        assert self.told.get(at) != told.reason, f"{told} said twice"
        self.told[at] = told.reason

    def group_ready(self, pg_id: bytes) -> None:
        assert self.groups.get(pg_id) is None, "a group became ready twice, or after its removal"
        self.groups[pg_id] = "ready"

    def group_removed(self, pg_id: bytes) -> None:
        assert self.groups.get(pg_id) != REMOVED_GROUP, "a group was removed twice"
        self.groups[pg_id] = REMOVED_GROUP

    # ------------------------------------------------------------------ actors

    def registered(self, actor_id: bytes, spec: LeaseSpec, book: ActorBook) -> None:
        name = book.name
        holders = [
            a for a, book in self.actors.items() if name and book.name == name and book.state != A.DEAD
        ]
        assert not holders, f"the name {name} is held twice"
        self.actors[actor_id] = book
        self.actor_specs[actor_id] = spec

    def name_is_taken(self, name: str, by: bytes) -> bool:
        book = self.actors[by]
        kept = not book.detached and not book.let_go and book.owner not in self.dead_owners
        return book.name == name and (book.state != A.DEAD or kept)

    def published(self, told: A.Publish) -> None:
        book = self.actors[told.actor_id]
        assert book.state != A.DEAD, f"{told}: it was dead"
        assert told.incarnation >= book.incarnation, f"{told}: an earlier life speaks"
        assert book.max_restarts < 0 or told.incarnation <= book.max_restarts, f"{told}: too many lives"
        assert (told.worker is not None) == (told.state == A.ALIVE)
        if told.state == A.ALIVE:
            assert told.incarnation in book.constructed, f"{told}: never constructed"
        book.state, book.incarnation = told.state, told.incarnation

    def constructed(self, told: A.Construct) -> None:
        book = self.actors[told.actor_id]
        assert book.state in (A.PENDING_CREATION, A.RESTARTING), f"{told} in state {book.state}"
        assert told.incarnation not in book.constructed, f"{told}: constructed before"
        assert self.known(told.worker) and told.worker in self.by_worker, f"{told}: not its worker"
        book.constructed.add(told.incarnation)

    # ------------------------------------------------------------------ after every step

    def check(self, leases: Leases, actors: Actors) -> None:
        for node in leases._nodes.values():
            check_node(leases, node)
        for shape in leases._waiting:
            head = shape.head()
            assert head is not None and head.unmet > 0
            if shape.epoch == leases._epoch:
                place = placement.choose(shape, self.scheduled_at)
                # What fits waits only while a CPU is kept for another job, which has just used it.
                held_back = place is not None and leases._allowed(shape, place[0], self.scheduled_at) is None
                assert place is None or held_back, f"{shape.spec} fits and was left waiting"
        hosts = [row.worker for row in actors.rows() if row.worker is not None]
        assert len(hosts) == len(set(hosts)), "two actors on one worker"

    @staticmethod
    def unmet(leases: Leases) -> list[str]:
        """What waits, beside what cannot be met."""
        return [
            f"{row.key!r}: {row.why}"
            for row in leases.table(0.0)
            if not row.infeasible and "placement group" not in row.why
        ]

    @staticmethod
    def check_settled(actors: Actors) -> None:
        """Nothing is on its way: so every actor is alive, dead, or waits for a lease."""
        for row in actors.rows():
            assert row.state in (A.ALIVE, A.DEAD) or row.asked, f"{row} hangs"


def check_node(leases: Leases, node: KnownNode) -> None:
    """The pools of a node add up, and its lists agree with each other."""
    owed: dict[int, tuple[ResourcePool, dict[str, int], dict[int, int]]] = {id(node.pool): _all_of(node.pool)}
    for group in leases._groups:
        for bundle in group.bundles.values():
            if bundle.node is node:
                owed[id(bundle.pool)] = _all_of(bundle.pool)
                _subtract(owed[id(node.pool)], bundle.holding, cpu_lent=False)
    for lease in node.leases.values():
        _subtract(owed[id(lease.pool)], lease.holding, lease.cpu_lent)
        assert lease.worker is None or lease.worker.lease is lease
        assert lease.worker is None or lease.worker.worker in node.workers
    for pool, units, slots in owed.values():
        assert pool.free == units, f"the sum is wrong: {pool.free} are free, it should be {units}"
        assert pool.slots_free.get("GPU", {}) == slots
        for name, left in units.items():
            assert left >= 0 or name == CPU
        for left in slots.values():
            assert left >= 0
    for worker in node.idle.values():
        assert worker.lease is None and not worker.stopping and not worker.retired
    assert node.blocked_count == sum(worker.blocked for worker in node.workers.values())
    assert node.stopping_count == sum(worker.stopping for worker in node.workers.values())
    assert node.starting_count == sum(node.starting.values()) <= leases._starting_max


def _all_of(pool: ResourcePool) -> tuple[ResourcePool, dict[str, int], dict[int, int]]:
    return pool, dict(pool.totals), dict(pool.slots.get("GPU", {}))


def _subtract(
    owed: tuple[ResourcePool, dict[str, int], dict[int, int]], holding: Holding, cpu_lent: bool
) -> None:
    for name, units in holding.units:
        if not (name == CPU and cpu_lent):
            owed[1][name] -= units
    for _, gpu, units in holding.pieces:
        owed[2][gpu] -= units
