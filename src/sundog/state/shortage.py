"""What a request for a lease, or a placement group, lacks, and which leases have it: the resources in a deadlock.

Owns: the reading of pools and leases for one waiting request. Refuses: changing anything, and guessing: where
the reason is another than a resource that another lease holds (a worker that starts, a request that fits nowhere, room
kept for another request), the answer is None, "it may continue by itself".
Runs in the node program, on its only thread, when a deadlock is looked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sundog.state.bundles import PENDING, Group
from sundog.state.nodes import KnownNode
from sundog.state.resources import CPU, Demand, ResourcePool, from_units
from sundog.state.shapes import Want
from sundog.state.wait_facts import Holder, Lack, Shortage


def of_want(want: Want, groups: Iterable[Group]) -> Shortage | None:
    """What one request lacks."""
    shape = want.shape
    if want.unmet <= 0 or want.pending or shape.infeasible:
        return None
    if shape.waiting_for:
        return None
    all_groups = list(groups)
    places = []
    for pool, node in shape.candidates:
        missing = pool.missing(shape.need)
        if not missing:
            return None
        places.append(_lacks(pool, node, shape.need, missing, all_groups))
    if not places or not all(places):
        return None
    return Shortage(tuple(places))


def of_group(group: Group, nodes: list[KnownNode], groups: Iterable[Group]) -> Shortage | None:
    """What a placement group that waits for a place lacks: only where even the sum of all its bundles is too much.

    With one node that is exact for every strategy but STRICT_SPREAD; with several, a group that does not fit in
    pieces counts as one that may continue.
    """
    if group.state != PENDING or len(nodes) != 1:
        return None
    node = nodes[0]
    total: dict[str, int] = {}
    for demand in group.demands:
        for name, units in demand:
            total[name] = total.get(name, 0) + units
    need = tuple(sorted(total.items()))
    missing = node.pool.missing(need)
    if not missing or not node.pool.could_fit(need):
        return None
    lacks = _lacks(node.pool, node, need, missing, list(groups))
    return Shortage((lacks,)) if lacks else None


def _lacks(
    pool: ResourcePool, node: KnownNode, need: Demand, missing: dict[str, int], groups: list[Group]
) -> tuple[Lack, ...]:
    asked = dict(need)
    lacks = []
    for name, short in sorted(missing.items()):
        holders = tuple(_holders(pool, node, name, groups))
        if sum(holder.units for holder in holders) < short:
            continue  # no known task holds it, or it is fragmented: no reason to name any task
        lacks.append(Lack(name, from_units(asked[name]), short, holders))
    return tuple(lacks)


def _holders(pool: ResourcePool, node: KnownNode, name: str, groups: list[Group]) -> Iterator[Holder]:
    for lease in node.leases.values():
        if lease.pool is not pool or (name == CPU and lease.cpu_lent):
            continue
        units = dict(lease.holding.units).get(name, 0)
        if units:
            # A lease without a worker belongs to no process that could wait: its key is unknown everywhere.
            kind = "task" if lease.key.__class__ is not bytes else "actor"
            yield Holder(kind, lease.worker.worker if lease.worker is not None else b"", units)
    if pool is node.pool:
        for group in groups:
            units = sum(
                dict(bundle.holding.units).get(name, 0)
                for bundle in group.bundles.values()
                if bundle.node is node
            )
            if units:
                yield Holder("group", group.pg_id, units)
