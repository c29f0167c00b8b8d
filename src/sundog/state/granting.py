"""The inside of the lease machine: from a queued request to a worker with resources, and back.

Owns: the tables, and the steps that ``leases.Leases`` builds its events from: queue, assign (draw
resources), start or reuse a worker, grant, take back. Refuses: being called from outside ``Leases``.
Runs in the node program, on its only thread.

After every event holds: each request that fits a pool it may draw from, beside what is kept for others, and that the
gate (if there is one) lets through, has been assigned; what the gate holds back is asked about again at every tick.
Hence a new request only has to look at its own shape, and only freed resources look at all
shapes.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable

from sundog.state import placement, starvation
from sundog.state.bundles import Groups
from sundog.state.instructions import (
    GROUP_REMOVED,
    Grant,
    GroupReady,
    GroupRemoved,
    Infeasible,
    Instruction,
    LeaseSpec,
    StartWorker,
    StopWorker,
)
from sundog.state.nodes import KnownNode, Lease, Worker
from sundog.state.resources import ResourcePool, from_units
from sundog.state.shapes import SpecQueue, Want
from sundog.state.tenants import Tenants

SHAPES_KEPT = 1024
GONE_KEPT = 4096


class Granting:
    """The tables of the scheduler and the steps between them."""

    def __init__(self, starting_max: int, worker_max: int) -> None:
        self._starting_max = starting_max
        self._worker_max = worker_max
        self._nodes: dict[bytes, KnownNode] = {}
        self._workers: dict[bytes, Worker] = {}
        self._gone: OrderedDict[bytes, None] = OrderedDict()
        self._leases: dict[int, Lease] = {}
        self._owned: dict[bytes, dict[int, Lease]] = {}
        self._held: Counter[tuple[bytes, Hashable]] = Counter()
        self._wants: dict[bytes, dict[Hashable, Want]] = {}
        self._shapes: dict[LeaseSpec, SpecQueue] = {}
        self._waiting: dict[SpecQueue, None] = {}
        self._groups = Groups()
        self._reserved: list[ResourcePool] = []
        self._lease_count = 0
        self._grant_count = 0
        self._turns = 0
        self.tenants = Tenants()
        self.pack_until = placement.PACK_UNTIL
        # Asked before a request that fits is assigned: "" or why it has to wait (memory is short).
        self.gate: Callable[[Want], str] | None = None
        # changes when nodes or groups change, so that each shape searches again for the nodes where it may
        # run
        self._epoch = 0

    # ------------------------------------------------------------------ requests

    def _shape(self, spec: LeaseSpec) -> SpecQueue:
        shape = self._shapes.get(spec)
        if shape is None:
            if len(self._shapes) >= SHAPES_KEPT:
                self._shapes = {shape.spec: shape for shape in self._shapes.values() if shape}
            shape = self._shapes[spec] = SpecQueue(spec)
        return shape

    def _unread(self, owner: bytes, key: Hashable, spec: LeaseSpec, last_grant: int) -> int:
        """How many leases of a want its owner had been granted but did not know of: it had read up to ``last_grant``.

        A lease that the owner will not keep is left out, though its grant is on its way as well: its worker is dead or
        dying, or it has been asked back. The want may then be one too large: a worker too many idles until the owner
        gives it back. One too small could leave a task waiting for ever.
        """
        found = 0
        for lease in reversed(self._owned.get(owner, {}).values()):  # they stand in the order of their grants
            if lease.grant <= last_grant:
                break
            lasts = not (lease.ended or lease.reclaimed)
            found += lasts and lease.key == key and lease.shape.spec == spec
        return found

    def _set_count(self, want: Want, count: int, now: float, out: list[Instruction]) -> None:
        if count == 0:
            if self._withdraw(want):
                self._schedule_all(now, out)
            return
        was_met = want.unmet <= 0
        want.count = count
        surplus = len(want.pending) - count
        while len(want.pending) > count:
            self._unassign(want.pending[next(reversed(want.pending))])
        if want.unmet > 0:
            if was_met:
                self._turns += 1
                want.since, want.turn = now, self._turns
            self._enqueue(want, out)
            self._schedule((want.shape,), now, out)
            if want.unmet > 0 and self.tenants.several():
                self._claim_share(want, out)
        else:
            self._dequeue(want)
        if surplus > 0:
            self._schedule_all(now, out)

    def _claim_share(self, want: Want, out: list[Instruction]) -> None:
        """Ask leases back at once from jobs that have more than their share, for one that has less."""
        for lease in self.tenants.to_ask_back(want, self._nodes.values(), self._waiting):
            lease.reclaimed_for = want.job
            out.append(starvation.ask(lease))

    def _withdraw(self, want: Want) -> bool:
        """Drop ``want``; whether that may have made room for others."""
        want.count = 0
        freed = bool(want.pending) or want.shape.reservation is not None
        for lease in list(want.pending.values()):
            self._unassign(lease)
        self._dequeue(want)
        self._drop_want(want)
        return freed

    def _drop_want(self, want: Want) -> None:
        wants = self._wants[want.owner]
        del wants[want.key]
        if not wants:
            del self._wants[want.owner]

    def _enqueue(self, want: Want, out: list[Instruction] | None) -> None:
        shape = want.shape
        shape.add(want)
        self._waiting[shape] = None
        if shape.epoch != self._epoch:
            self._look(shape)
        reason = shape.infeasible or self.tenants.impossible(want)
        if out is not None and reason and want.told_infeasible != reason:
            want.told_infeasible = reason
            out.append(Infeasible(want.owner, want.key, shape.spec, reason))

    def _dequeue(self, want: Want) -> None:
        shape = want.shape
        shape.remove(want)
        if not shape:
            self._waiting.pop(shape, None)
            self._lift(shape)

    def _lift(self, shape: SpecQueue) -> bool:
        """Keep nothing for ``shape`` any longer; whether something was kept."""
        if shape.reservation is None:
            return False
        shape.reservation = None
        for pool in self._reserved:
            if pool.reserved_for is shape:
                pool.unreserve()
        return True

    def _look(self, shape: SpecQueue) -> None:
        shape.epoch = self._epoch
        placement.find_candidates(shape, self._nodes, self._groups)

    def _topology_changed(self, out: list[Instruction]) -> None:
        self._epoch += 1
        for shape in self._waiting:
            self._look(shape)
            for want in shape:
                if shape.infeasible and want.told_infeasible != shape.infeasible:
                    out.append(Infeasible(want.owner, want.key, shape.spec, shape.infeasible))
                want.told_infeasible = shape.infeasible

    # ------------------------------------------------------------------ assigning

    def _schedule_all(self, now: float, out: list[Instruction]) -> None:
        """Resources may have become free: give them to the wants, the longest waiting first."""
        if self._groups.incomplete:
            self._place_groups(now, out)
        if self._waiting:
            self._schedule(tuple(self._waiting), now, out)
        for node in self._nodes.values():
            if node.pending:
                self._start_workers(node, now, out)

    def _schedule(self, shapes: Iterable[SpecQueue], now: float, out: list[Instruction]) -> None:
        lifted = True
        while lifted:  # repeat if room that was reserved for one shape has been released for all
            lifted = False
            shared = self.tenants.several()
            heads = [
                (self.tenants.rank(want) if shared else 0.0, want.turn, n, shape)
                for n, shape in enumerate(shapes)
                if (want := shape.head()) is not None
            ]
            heapq.heapify(heads)
            while heads:
                rank, turn, n, shape = heads[0]
                want = shape.head()
                if want is not None and shared and self.tenants.rank(want) > rank:
                    # Another shape of this job has been served in the meantime.
                    heapq.heapreplace(heads, (self.tenants.rank(want), turn, n, shape))
                    continue
                if want is None or not self._assign(shape, want, now, out):
                    heapq.heappop(heads)
                    continue
                if self._lift(shape):
                    lifted = True
                following = shape.head()
                if following is not None:
                    rank = self.tenants.rank(following) if shared else 0.0
                    heapq.heapreplace(heads, (rank, following.turn, n, shape))
                else:
                    self._waiting.pop(shape, None)
                    heapq.heappop(heads)
            if lifted:
                shapes = tuple(self._waiting)

    def _assign(self, shape: SpecQueue, want: Want, now: float, out: list[Instruction]) -> bool:
        if shape.epoch != self._epoch:
            self._look(shape)
        place = placement.choose(shape, now, self.pack_until)
        if place is None:
            return False
        pool, node = place
        allowed = self._allowed(shape, pool, now)
        if allowed is None:
            return False
        want = allowed
        worker = node.take_idle(shape, want.owner)
        self._lease_count += 1
        lease = Lease(
            self._lease_count, want.owner, want.key, shape, want, node, pool, pool.take(shape.hold), now
        )
        node.leases[lease.lease] = lease
        self.tenants.took(lease)
        want.pending[lease.lease] = lease
        self._turns += 1
        want.since, want.turn = now, self._turns
        if shape.spec.strategy[0] == "spread":
            node.spread_turn = self._turns
        shape.rotate(want)
        if worker is not None:
            self._grant(lease, worker, now, out)
        else:
            node.add_pending(lease)
            self._start_workers(node, now, out)
        return True

    def _allowed(self, shape: SpecQueue, pool: ResourcePool, now: float) -> Want | None:
        """The first want in turn that may have a lease from this pool: one that is held back holds up no other."""
        tenants, gate = self.tenants, self.gate
        for want in shape:
            want.held_back = tenants.held_back(want) or tenants.keeps_from(
                want, pool, self._nodes.values(), self._waiting, now
            )
            if not want.held_back and gate is not None:
                want.held_back = gate(want)
            if not want.held_back:
                return want
        return None

    def _grant(self, lease: Lease, worker: Worker, now: float, out: list[Instruction]) -> None:
        self._grant_count += 1
        lease.worker, lease.since, lease.grant = worker, now, self._grant_count
        worker.lease, worker.last_owner = lease, lease.owner
        worker.with_gpu = lease.shape.with_gpu
        self._leases[lease.lease] = lease
        self._owned.setdefault(lease.owner, {})[lease.lease] = lease
        self._held[lease.owner, lease.key] += 1
        want = lease.want
        del want.pending[lease.lease]
        want.count -= 1
        if want.count == 0:
            self._drop_want(want)
        out.append(
            Grant(
                lease.lease,
                lease.owner,
                lease.key,
                worker.worker,
                lease.node.node_id,
                lease.shape.spec.resources,
                lease.holding.ids,
                lease.grant,
            )
        )

    def _unassign(self, lease: Lease) -> None:
        """Take an assigned lease that has no worker yet back into the queue of its want."""
        want = lease.want
        lease.node.drop_pending(lease)
        del lease.node.leases[lease.lease]
        self.tenants.gave(lease)
        lease.give_back()
        del want.pending[lease.lease]
        if want.unmet > 0:
            want.since = min(want.since, lease.since)
            self._enqueue(want, None)

    def _forget(self, lease: Lease) -> None:
        """Drop a granted lease from the tables; its resources are the caller's business."""
        del lease.node.leases[lease.lease]
        self.tenants.gave(lease)
        del self._leases[lease.lease]
        owned = self._owned[lease.owner]
        del owned[lease.lease]
        if not owned:
            del self._owned[lease.owner]
        self._held[lease.owner, lease.key] -= 1
        if not self._held[lease.owner, lease.key]:
            del self._held[lease.owner, lease.key]

    def _end_lease(self, lease: Lease, reason: str, out: list[Instruction]) -> None:
        """The lease is over, but its worker must die before the resources are free."""
        assert lease.worker is not None
        lease.ended = True
        self._stop(lease.worker, reason, out)

    # ------------------------------------------------------------------ workers

    def _offer(self, worker: Worker, now: float, out: list[Instruction]) -> None:
        """The worker has nothing to do: let it serve a request that waits for one like it, or idle."""
        lease = worker.node.next_pending(worker.env_key, worker)
        if lease is None:
            worker.node.put_idle(worker, now)
        else:
            worker.node.drop_pending(lease)
            self._grant(lease, worker, now, out)

    def _start_workers(self, node: KnownNode, now: float, out: list[Instruction]) -> None:
        """Start what the assigned leases of ``node`` lack, within bounds, in turn for each env_key."""
        started = True
        while started and node.starting_count < self._starting_max:
            started = False
            for env_key in list(node.pending):
                if len(node.pending[env_key]) <= node.starting.get(env_key, 0):
                    continue
                backoff = node.backoffs.get(env_key)
                if node.starting_count >= self._starting_max or (backoff is not None and now < backoff.until):
                    continue
                if self._full(node) and not self._evict(node, out):
                    return
                node.starting[env_key] = node.starting.get(env_key, 0) + 1
                node.starting_count += 1
                node.pending.move_to_end(env_key)
                out.append(StartWorker(node.node_id, env_key))
                started = True

    def _full(self, node: KnownNode) -> bool:
        return self._worker_max > 0 and node.process_count() >= self._worker_max

    def _evict(self, node: KnownNode, out: list[Instruction]) -> bool:
        """Stop the longest idle worker, which suits no want; whether there was one."""
        if not node.idle:
            return False
        self._stop(node.idle[next(iter(node.idle))], "room for another environment", out)
        return True

    def _start_ended(self, node: KnownNode, env_key: str) -> bool:
        count = node.starting.get(env_key, 0)
        if count == 0:
            return False
        node.starting_count -= 1
        if count == 1:
            del node.starting[env_key]
        else:
            node.starting[env_key] = count - 1
        return True

    def _stop(self, worker: Worker, reason: str, out: list[Instruction]) -> None:
        worker.node.drop_idle(worker)
        self._set_blocked(worker, False)
        worker.stopping = True
        worker.node.stopping_count += 1
        out.append(StopWorker(worker.worker, reason))

    @staticmethod
    def _set_blocked(worker: Worker, blocked: bool) -> None:
        worker.node.blocked_count += blocked - worker.blocked
        worker.blocked = blocked

    def _remember_gone(self, worker: bytes) -> None:
        self._gone[worker] = None
        if len(self._gone) > GONE_KEPT:
            self._gone.popitem(last=False)

    def _reclaim_process(self, node: KnownNode, now: float, out: list[Instruction]) -> None:
        """All processes that may exist are taken, and a request waits: ask for one back, once a second."""
        if not node.pending or not self._full(node) or node.starting_count or node.idle:
            return
        oldest = min(
            (node.next_pending(env) for env in node.pending), key=lambda lease: lease.since if lease else now
        )
        assert oldest is not None
        if now - oldest.since < starvation.PATIENCE_S or now - node.reclaimed_at < starvation.ROUND_S:
            return
        spared = (oldest.owner, oldest.key)
        takers = [
            lease
            for lease in node.leases.values()
            if starvation.may_ask_back(lease) and (lease.owner, lease.key) != spared
        ]
        if takers:
            node.reclaimed_at = now
            out.append(
                starvation.ask(max(takers, key=lambda lease: (len(self._owned[lease.owner]), -lease.lease)))
            )

    # ------------------------------------------------------------------ placement groups

    def _place_groups(self, now: float, out: list[Instruction]) -> None:
        placed = False
        nodes = list(self._nodes.values())
        kept_for = {id(pool.reserved_for) for pool in self._reserved}
        hopeless: set[object] = set()  # many groups are alike: if one finds no place, none of its kind does
        for group in self._groups.incomplete:
            own_room = id(group) in kept_for
            if not own_room and group.alike() in hopeless:
                continue
            if not self._groups.place(group, nodes, now):
                if not own_room:
                    hopeless.add(group.alike())
            else:
                placed = True
                for pool in self._reserved:
                    if pool.reserved_for is group:
                        pool.unreserve()
                        hopeless.clear()
                out.append(GroupReady(group.pg_id))
        if placed:
            self._topology_changed(out)

    def _remove_group(self, pg_id: bytes, out: list[Instruction]) -> bool:
        group = self._groups.get(pg_id)
        bundles = self._groups.remove(pg_id)
        if bundles is None:
            return False
        for pool in self._reserved:
            if pool.reserved_for is group:
                pool.unreserve()
        for bundle in bundles:
            node = bundle.node
            for lease in [lease for lease in node.leases.values() if lease.pool is bundle.pool]:
                if lease.worker is None:
                    self._unassign(lease)
                    continue
                if not lease.ended:
                    self._end_lease(lease, GROUP_REMOVED, out)
                # the resources of the lease return directly to the node when its worker has died
                lease.pool = node.pool
            node.pool.absorb(bundle.pool)
        self._topology_changed(out)
        out.append(GroupRemoved(pg_id))
        return True

    # ------------------------------------------------------------------ sums

    def _sum(self, node_id: bytes | None, *, free: bool) -> dict[str, float]:
        nodes = self._nodes.values() if node_id is None else [self._nodes[node_id]]
        sums: dict[str, int] = {}
        for node in nodes:
            for name, units in (node.pool.free if free else node.pool.totals).items():
                sums[name] = sums.get(name, 0) + units
        return {name: from_units(units) for name, units in sums.items()}
