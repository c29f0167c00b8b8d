"""Where a lease may run, and where it runs best.

Owns: the meaning of scheduling strategies and label selectors: the pools that a spec could ever draw from,
the reason when there is none, and the choice among those that have room now.
Refuses: drawing from a pool, and knowing which requests wait.
Runs in the node program, on its only thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sundog.state import labels
from sundog.state.bundles import CREATED, REMOVED, Groups
from sundog.state.instructions import GROUP_REMOVED
from sundog.state.nodes import KnownNode
from sundog.state.resources import ResourcePool, describe
from sundog.state.shapes import SpecQueue

PACK_UNTIL = 0.5
"""A node is filled up to this share before the next one is used; beyond it, the emptiest comes first. The setting
scheduler_spread_threshold says another."""

Conditions = Iterable[tuple[object, ...]]


def find_candidates(shape: SpecQueue, nodes: Mapping[bytes, KnownNode], groups: Groups) -> None:
    """Set where ``shape`` may run among these nodes and groups, or why it may not."""
    shape.candidates, shape.tiers, shape.infeasible, shape.waiting_for = [], [], "", ""
    if any(node.draining for node in nodes.values()):
        nodes = {node_id: node for node_id, node in nodes.items() if not node.draining}
    kind = shape.spec.strategy[0]
    if kind == "pg":
        _in_group(shape, groups)
    elif not nodes:
        shape.waiting_for = "a node to join"
    elif kind == "node":
        _on_node(shape, nodes)
    else:
        hard: Conditions = shape.spec.strategy[1] if kind == "labels" else ()  # type: ignore[assignment]
        soft: Conditions = shape.spec.strategy[2] if kind == "labels" else ()  # type: ignore[assignment]
        _anywhere(shape, nodes, tuple(hard), tuple(soft))


def _anywhere(
    shape: SpecQueue,
    nodes: Mapping[bytes, KnownNode],
    hard: tuple[tuple[object, ...], ...] = (),
    soft: tuple[tuple[object, ...], ...] = (),
) -> None:
    spec = shape.spec
    allowed: list[KnownNode] = []
    for selector in (spec.label_selector, *spec.fallbacks):
        conditions = hard + selector
        found = [node for node in nodes.values() if not conditions or labels.matches(node.labels, conditions)]
        allowed += [node for node in found if node not in allowed]
        places = [(node.pool, node) for node in found if node.pool.could_fit(shape.need)]
        if soft:
            shape.tiers.append([place for place in places if labels.matches(place[1].labels, soft)])
        if spec.fallbacks:
            shape.tiers.append(places)
    if not allowed:
        shape.infeasible = f"no node has labels that match {hard + spec.label_selector!r}"
        if spec.fallbacks:
            shape.infeasible += f", nor one of its fallbacks: {', '.join(map(repr, spec.fallbacks))}"
        return
    shape.candidates = [(node.pool, node) for node in allowed if node.pool.could_fit(shape.need)]
    if not shape.candidates:
        shape.infeasible = f"no node has {describe(shape.need)} in total"


def _on_node(shape: SpecQueue, nodes: Mapping[bytes, KnownNode]) -> None:
    _, node_id, soft, *full = (
        shape.spec.strategy
    )  # what to do while the node is full: "wait", "spill" or "fail"
    node = nodes.get(node_id) if isinstance(node_id, bytes) else None
    reason = ""
    if node is None:
        reason = f"the node {node_id.hex() if isinstance(node_id, bytes) else node_id} is not in the cluster"
    elif not any(
        labels.matches(node.labels, each) for each in (shape.spec.label_selector, *shape.spec.fallbacks)
    ):
        reason = f"the labels of node {node.node_id.hex()} do not match {shape.spec.label_selector!r}"
    elif not node.pool.could_fit(shape.need):
        reason = f"node {node.node_id.hex()} does not have {describe(shape.need)} in total"
    elif full == ["fail"] and not node.pool.fits(shape.need):
        reason = f"node {node.node_id.hex()} does not have {describe(shape.need)} free now"
    if full == ["fail"]:
        shape.epoch = -1  # the next request searches again
    if node is not None and not reason:
        if full == ["spill"]:
            _anywhere(shape, nodes)
            shape.tiers.insert(0, [(node.pool, node)])
        else:
            shape.candidates = [(node.pool, node)]
    elif soft:
        _anywhere(shape, nodes)
    else:
        shape.infeasible = reason


def _in_group(shape: SpecQueue, groups: Groups) -> None:
    _, pg_id, index = shape.spec.strategy
    group = groups.get(pg_id) if isinstance(pg_id, bytes) else None
    if group is None:
        shape.waiting_for = "its placement group, which is not known yet"
        return
    if group.state == REMOVED:
        shape.infeasible = GROUP_REMOVED
        return
    count = len(group.demands)
    if not isinstance(index, int) or not -1 <= index < count:
        shape.infeasible = f"placement group {group.pg_id.hex()} has {count} bundles, none with index {index}"
        return
    wanted = range(count) if index == -1 else (index,)
    if not any(ResourcePool(group.demands[i]).could_fit(shape.need) for i in wanted):
        which = "bundle" if index == -1 else f"bundle {index}"
        shape.infeasible = f"no {which} of placement group {group.pg_id.hex()} has {describe(shape.need)}"
        return
    placed = [group.bundles[i] for i in wanted if i in group.bundles]
    shape.candidates = [(b.pool, b.node) for b in placed if b.pool.could_fit(shape.need)]
    if group.state != CREATED and not shape.candidates:
        shape.waiting_for = "its placement group to be placed"


def choose(
    shape: SpecQueue, now: float, pack_until: float = PACK_UNTIL
) -> tuple[ResourcePool, KnownNode] | None:
    """Return the pool, among those with room for ``shape`` now, that it should draw from."""
    candidates, need = shape.candidates, shape.need
    if len(candidates) == 1:
        pool, node = candidates[0]
        return candidates[0] if pool.fits(need, shape) and node.can_serve(shape, now) else None
    for places in (*shape.tiers, candidates):
        open_now = [
            place for place in places if place[0].fits(need, shape) and place[1].can_serve(shape, now)
        ]
        if open_now:
            return _rank(shape, open_now, pack_until)
    return None


def _rank(
    shape: SpecQueue, open_now: list[tuple[ResourcePool, KnownNode]], pack_until: float
) -> tuple[ResourcePool, KnownNode]:
    kind, spec = shape.spec.strategy[0], shape.spec
    if not shape.with_gpu:
        # A request without GPUs leaves nodes with GPUs to requests that need them, if possible.
        open_now = [place for place in open_now if not place[0].slots] or open_now
    if kind == "spread":
        return min(
            open_now, key=lambda place: (place[0].used_share(), len(place[1].leases), place[1].spread_turn)
        )
    if kind == "pg":
        return open_now[0]
    if spec.prefer:
        for place in open_now:
            if place[1].node_id.startswith(spec.prefer):
                return place
    if spec.placement and not spec.resources:
        # Actors without resources would all be packed on the first node: they are spread, as in Ray.
        return min(open_now, key=lambda place: (place[0].used_share(), len(place[1].leases)))
    if spec.origin:
        open_now.sort(key=lambda place: not place[1].node_id.startswith(spec.origin))  # stable
    for pool, node in open_now:
        if pool.used_share() < pack_until:
            return pool, node
    return min(open_now, key=lambda place: place[0].used_share())
