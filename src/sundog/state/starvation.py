"""Keeping room for requests that have waited too long, and asking for leases back on their behalf.

Owns: the choice of the pool that is kept for a starving request, the windows for which it is kept, and the
choice of the leases to ask back. Refuses: granting; ``leases.py`` does that, and honours
``ResourcePool.reserved_for``. Runs in the node program, on its only thread, from ``Leases.tick``.

A request starves when it has waited ``PATIENCE_S`` for resources that its nodes do have in total. Requests
are looked at by age, the oldest first, so the oldest always gets its reservation, is met, and makes room
for the next.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from sundog.state.bundles import Group, choose_nodes
from sundog.state.instructions import Reclaim
from sundog.state.nodes import KnownNode, Lease
from sundog.state.resources import CPU, Demand, ResourcePool
from sundog.state.shapes import Reservation, SpecQueue, Want

PATIENCE_S = 0.2
ROUND_S = 1.0
WINDOW_S = 5.0
WINDOW_MAX_S = 80.0

Claims = list[tuple[ResourcePool, KnownNode, Demand]]
Held = Mapping[tuple[bytes, Hashable], int]
"""(owner, key) → leases that it has."""


def reserve(
    shapes: Iterable[SpecQueue],
    groups: Iterable[Group],
    nodes: Sequence[KnownNode],
    reserved: list[ResourcePool],
    held: Held,
    now: float,
    entitled: Callable[[Want], bool] = lambda _want: True,
) -> list[tuple[SpecQueue | Group, Claims]]:
    """Work out anew which pools are kept for whom, and return it, the neediest request first.

    Args:
        reserved: the pools reserved by the last call; replaced in place by those reserved now.
        entitled: whether others may be asked to make room for a want; its job may have its share already.
    """
    before = {id(pool): pool.reserved_for for pool in reserved}
    for pool in reserved:
        pool.unreserve()
    reserved.clear()
    # Owners without any lease come before owners that want more; then the older requests.
    starving: list[tuple[bool, float, int, SpecQueue | Group]] = []
    for shape in shapes:
        want = neediest(shape, held)
        if shape.candidates and now - want.since >= PATIENCE_S and entitled(want):
            starving.append(((want.owner, want.key) in held, want.since, len(starving), shape))
    for group in groups:
        if now - group.since >= PATIENCE_S:
            starving.append((False, group.since, len(starving), group))
    kept: list[tuple[SpecQueue | Group, Claims]] = []
    hopeless: set[object] = (
        set()
    )  # equal groups: room that is reserved for one group leaves less for the next
    for _, _, _, holder in sorted(starving, key=lambda entry: entry[:3]):
        if _paused(holder, now):
            continue
        if isinstance(holder, Group):
            key = holder.alike()
            claims = [] if key in hopeless else _claims_of_group(holder, nodes)
            if not claims:
                hopeless.add(key)
        else:
            claims = _claim_of_shape(holder, before)
        if not claims:
            if holder.reservation is not None:  # its time window begins when it has reserved something
                holder.reservation.until = now + holder.reservation.window_s
            continue
        if holder.reservation is None:
            holder.reservation = Reservation(WINDOW_S, now + WINDOW_S)
        for pool, _, need in claims:
            pool.reserve(holder, need)
            reserved.append(pool)
        kept.append((holder, claims))
    return kept


def neediest(shape: SpecQueue, held: Held) -> Want:
    """Return the first want in turn that has no lease yet, else the first; ``shape`` must have some."""
    first: Want | None = None
    for want in shape:
        if (want.owner, want.key) not in held:
            return want
        first = first or want
    assert first is not None
    return first


def _paused(holder: SpecQueue | Group, now: float) -> bool:
    kept = holder.reservation
    if kept is None:
        return False
    if now >= kept.until:
        kept.paused_until = now + kept.window_s
        kept.window_s = min(2 * kept.window_s, WINDOW_MAX_S)
        kept.until = kept.paused_until + kept.window_s
    return now < kept.paused_until


def _claim_of_shape(shape: SpecQueue, before: Mapping[int, object]) -> Claims:
    best: tuple[tuple[bool, int], ResourcePool, KnownNode] | None = None
    for pool, node in shape.candidates:
        if pool.reserved_for is not None or not _without_permanent(pool, node, shape.need):
            continue
        # Stay where room is being collected already; otherwise choose the node where the least is missing.
        rank = (before.get(id(pool)) is not shape, sum(pool.missing(shape.need).values()))
        if best is None or rank < best[0]:
            best = (rank, pool, node)
    if best is None or not best[1].missing(shape.need):
        return []  # there is room for it: it waits for something else, for example for its environment
    return [(best[1], best[2], shape.need)]


def _claims_of_group(group: Group, nodes: Sequence[KnownNode]) -> Claims:
    free_nodes = [node for node in nodes if node.pool.reserved_for is None]
    chosen = choose_nodes(group, free_nodes, empty=True)
    if chosen is None:
        return []
    sums: dict[bytes, Counter[str]] = {}
    by_id: dict[bytes, KnownNode] = {}
    for index, node in chosen.items():
        by_id[node.node_id] = node
        sums.setdefault(node.node_id, Counter()).update(dict(group.demands[index]))
    claims = [
        (by_id[node_id].pool, by_id[node_id], tuple(sorted(total.items()))) for node_id, total in sums.items()
    ]
    return claims if all(_without_permanent(pool, node, need) for pool, node, need in claims) else []


def _without_permanent(pool: ResourcePool, node: KnownNode, need: Demand) -> bool:
    """Whether ``need`` fits once all that ever ends has ended: else keeping room would idle the node."""
    left = Counter(pool.totals)
    if pool is node.pool:
        left.subtract(node.set_aside)
    for lease in node.leases.values():
        if lease.pool is pool and lease.shape.spec.permanent and not lease.ended:
            for name, units in lease.holding.units:
                left[name] -= units
    return all(units <= left[name] for name, units in need)


def reclaim(
    kept: Iterable[tuple[SpecQueue | Group, Claims]],
    owned: Mapping[bytes, Mapping[int, Lease]],
    held: Held,
    now: float,
) -> list[Reclaim]:
    """Ask back, once a second, the leases that stand in the way: first from the owner with the most."""
    out: list[Reclaim] = []
    for holder, claims in kept:
        kept_for = holder.reservation
        if kept_for is None or now - kept_for.reclaimed_at < ROUND_S:
            continue
        floor = 0
        if isinstance(holder, SpecQueue):
            want = neediest(holder, held)
            if (want.owner, want.key) in held:
                # This owner only wants more: take leases only from owners that keep as many as this one has.
                floor = len(owned[want.owner]) + 1
            holder.promote(want)
        for pool, node, need in claims:
            missing = pool.missing(need)
            if missing:
                kept_for.reclaimed_at = now
                out += _ask_back(pool, node, missing, floor, owned)
    return out


def _ask_back(
    pool: ResourcePool,
    node: KnownNode,
    missing: dict[str, int],
    floor: int,
    owned: Mapping[bytes, Mapping[int, Lease]],
) -> list[Reclaim]:
    by_owner: dict[bytes, list[Lease]] = {}
    for lease in reversed(node.leases.values()):  # reversed, so that the oldest lease is taken first
        if lease.pool is pool and may_ask_back(lease):
            by_owner.setdefault(lease.owner, []).append(lease)
    heap = [(-len(owned[owner]), leases[-1].lease, owner) for owner, leases in by_owner.items()]
    heapq.heapify(heap)
    out: list[Reclaim] = []
    while heap and missing and -heap[0][0] > floor:
        count, _, owner = heapq.heappop(heap)
        lease = by_owner[owner].pop()
        helps = [n for n, _ in lease.holding.units if n in missing and not (n == CPU and lease.cpu_lent)]
        if by_owner[owner]:
            heapq.heappush(heap, (count + bool(helps), by_owner[owner][-1].lease, owner))
        if not helps:
            continue
        for name, units in lease.holding.units:
            if name in helps:
                missing[name] -= units
                if missing[name] <= 0:
                    del missing[name]
        out.append(ask(lease))
    return out


def may_ask_back(lease: Lease) -> bool:
    return lease.worker is not None and not (lease.ended or lease.reclaimed or lease.shape.spec.permanent)


def ask(lease: Lease) -> Reclaim:
    """Mark ``lease`` as asked back and return the instruction."""
    assert lease.worker is not None
    lease.reclaimed = True
    return Reclaim(lease.lease, lease.owner, lease.worker.worker)
