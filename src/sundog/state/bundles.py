"""Placement groups: bundles of resources set aside together, on nodes chosen by a strategy.

Owns: the table of groups, the choice of a node for every bundle (all bundles or none), and the pool that
each placed bundle becomes. Refuses: leases and workers: leases of strategy ``("pg", …)`` draw from a
bundle's pool, and ``leases.py`` ends them when the group goes.
Runs in the node program, on its only thread.

    PENDING ──all bundles placed──► CREATED ──a node with a bundle is lost──► RESCHEDULING ──► CREATED
        └──────────────remove──────────┴────────────────────────────────────────────┴──────► REMOVED

PACK puts the bundles on as few nodes as it can, SPREAD on as many; STRICT_PACK on exactly one node or none,
STRICT_SPREAD each on a node of its own or none.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sundog.accelerator_kinds import GPU
from sundog.exceptions import RaySystemError
from sundog.plain import field, plain
from sundog.state import labels
from sundog.state.nodes import KnownNode
from sundog.state.resources import CPU, Demand, Holding, ResourcePool, demand_of, slots_of
from sundog.state.shapes import Reservation

STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")

PENDING = "PENDING"
CREATED = "CREATED"
RESCHEDULING = "RESCHEDULING"
REMOVED = "REMOVED"


@plain(eq=False)
class Bundle:
    """One placed bundle: what it drew from its node, and the pool that leases draw from in turn."""

    index: int
    node: KnownNode
    holding: Holding
    pool: ResourcePool


class GroupNameTaken(RaySystemError, ValueError):
    """Another placement group of the namespace has the name. Ray raises a RaySystemError."""


@plain(eq=False)
class Group:
    pg_id: bytes
    demands: list[Demand]
    strategy: str
    owner: bytes
    name: str
    lifetime: str
    selectors: list[tuple[tuple[object, ...], ...]]
    since: float
    state: str = PENDING
    bundles: dict[int, Bundle] = field(default_factory=dict)
    created_at: float | None = None
    reservation: Reservation | None = None
    namespace: str = ""
    soft_target: bytes = b""
    """The node that a STRICT_PACK group takes if it fits there."""
    topology: str = ""
    """A label: all bundles are on nodes that have one value of it."""
    made_at: float = 0.0
    attempts: int = 1

    def domain(self) -> str:
        """The value of `topology` where the group is placed."""
        return next((bundle.node.labels.get(self.topology, "") for bundle in self.bundles.values()), "")

    def alike(self) -> tuple[object, ...]:
        """What decides where the group can be: where one found no place, no other of the same finds one."""
        placed = tuple((index, bundle.node.node_id) for index, bundle in self.bundles.items())
        where = self.strategy, self.soft_target, self.topology
        return where, tuple(self.demands), tuple(self.selectors), placed

    def unplaced(self) -> list[int]:
        """Return the bundles without a node, the largest first."""
        todo = [index for index in range(len(self.demands)) if index not in self.bundles]
        return sorted(todo, key=lambda index: (_size(self.demands[index]), -index), reverse=True)

    def accepts(self, index: int, node: KnownNode) -> bool:
        return index >= len(self.selectors) or labels.matches(node.labels, self.selectors[index])


def _size(demand: Demand) -> tuple[int, int, int]:
    amounts = dict(demand)
    return amounts.get(GPU, 0), amounts.get(CPU, 0), sum(amounts.values())


class Groups:
    """The table of placement groups."""

    def __init__(self, *, removed_max: int = 10_000) -> None:
        self._groups: dict[bytes, Group] = {}
        self._live: dict[bytes, Group] = {}
        self._names: dict[tuple[str, str], Group] = {}  # by namespace and name
        self._incomplete: OrderedDict[bytes, Group] = OrderedDict()
        self._removed: OrderedDict[bytes, None] = OrderedDict()
        # how many removed groups are remembered, to answer late requests for them
        self._removed_max = removed_max

    def get(self, pg_id: bytes) -> Group | None:
        return self._groups.get(pg_id)

    def named(self, name: str, namespace: str = "") -> Group | None:
        """Return the group that has this name in this namespace and is not removed."""
        return self._names.get((namespace, name))

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    @property
    def incomplete(self) -> list[Group]:
        """Return the groups that wait for a place, the oldest first."""
        return list(self._incomplete.values())

    def of_owner(self, owner: bytes) -> list[Group]:
        return [group for group in self._live.values() if group.owner == owner]

    def create(
        self,
        pg_id: bytes,
        bundles: Sequence[Mapping[str, float]],
        strategy: str,
        owner: bytes,
        now: float,
        name: str = "",
        lifetime: str = "",
        label_selectors: Iterable[Mapping[str, str] | Sequence[tuple[str, str]]] = (),
        namespace: str = "",
        soft_target: bytes = b"",
        topology: str = "",
    ) -> bool:
        """Add a group that waits for a place; False when it is known already.

        Raises:
            ValueError: unknown strategy, a name that is taken, no bundle, or one that asks for nothing.
        """
        if pg_id in self._groups:
            return False
        if (namespace, name) in self._names:
            taken = self._names[namespace, name].pg_id.hex()
            raise GroupNameTaken(
                f"the placement group name {name!r} is taken by {taken}; remove that group first"
            )
        if strategy not in STRATEGIES:
            raise ValueError(f"unknown placement strategy {strategy!r}; valid: {', '.join(STRATEGIES)}")
        demands = [demand_of(bundle) for bundle in bundles]
        if not demands or not all(demands):
            raise ValueError(
                f"a placement group needs at least one bundle, and each must ask for something: {bundles}"
            )
        selectors = [
            tuple(selector.items()) if isinstance(selector, Mapping) else tuple(selector)
            for selector in label_selectors
        ]
        group = Group(pg_id, demands, strategy, owner, name, lifetime, list(selectors), now)
        group.namespace, group.soft_target = namespace, soft_target
        group.topology, group.made_at = topology, now
        self._groups[pg_id] = self._live[pg_id] = self._incomplete[pg_id] = group
        if name:
            self._names[namespace, name] = group
        return True

    def place(self, group: Group, nodes: Sequence[KnownNode], now: float) -> bool:
        """Set aside every bundle of ``group`` that has none yet, if all of them find a node now."""
        chosen = choose_nodes(group, nodes)
        if chosen is None:
            return False
        for index, node in chosen.items():
            demand = group.demands[index]
            holding = node.pool.take(demand)
            node.set_aside.update(dict(demand))
            group.bundles[index] = Bundle(
                index, node, holding, ResourcePool(demand, slots_of(holding.pieces))
            )
        group.state, group.created_at, group.reservation = CREATED, now, None
        del self._incomplete[group.pg_id]
        return True

    def remove(self, pg_id: bytes) -> list[Bundle] | None:
        """Mark the group removed and return its bundles, still undissolved; None if there is none."""
        group = self._groups.get(pg_id)
        if group is None or group.state == REMOVED:
            return None
        bundles = list(group.bundles.values())
        for bundle in bundles:
            bundle.node.set_aside.subtract(dict(bundle.holding.units))
        group.bundles = {}
        group.state, group.reservation = REMOVED, None
        del self._live[pg_id]
        if group.name:
            del self._names[group.namespace, group.name]
        self._incomplete.pop(pg_id, None)
        self._removed[pg_id] = None
        while len(self._removed) > self._removed_max:
            del self._groups[self._removed.popitem(last=False)[0]]
        return bundles

    def node_lost(self, node: KnownNode, now: float) -> None:
        """Forget the bundles on ``node``; their groups look for another place."""
        for group in self._live.values():
            lost = [index for index, bundle in group.bundles.items() if bundle.node is node]
            for index in lost:
                del group.bundles[index]
            if lost and group.state == CREATED:
                group.state, group.since = RESCHEDULING, now
                group.attempts += 1
                self._incomplete[group.pg_id] = group


def choose_nodes(
    group: Group, nodes: Sequence[KnownNode], *, empty: bool = False
) -> dict[int, KnownNode] | None:
    """Return bundle → node for every unplaced bundle, or None when they cannot all be placed now.

    ``empty`` plans as if nothing else used the nodes: whether, and where, the group could ever be.
    """
    if group.topology:
        return _in_one_domain(group, nodes, empty=empty)
    return _choose(group, nodes, empty=empty)


def _in_one_domain(group: Group, nodes: Sequence[KnownNode], *, empty: bool) -> dict[int, KnownNode] | None:
    """Try the nodes of one value of the group's label after the other; where a part of it is already, only there."""
    domains: dict[str, list[KnownNode]] = {}
    for node in nodes:
        if group.topology in node.labels:
            domains.setdefault(node.labels[group.topology], []).append(node)
    if group.bundles:
        domains = {name: found for name, found in domains.items() if name == group.domain()}
    plans = (_choose(group, found, empty=empty) for found in domains.values())
    return next((plan for plan in plans if plan is not None), None)


def _choose(group: Group, nodes: Sequence[KnownNode], *, empty: bool) -> dict[int, KnownNode] | None:
    todo = group.unplaced()
    twins = [(node, node.pool.copy(empty=empty)) for node in nodes if not node.draining]
    used = [bundle.node for bundle in group.bundles.values()]
    if group.strategy == "STRICT_SPREAD":
        return _match(group, todo, [(node, pool) for node, pool in twins if node not in used])
    if group.strategy == "STRICT_PACK":
        twins.sort(key=lambda twin: twin[0].node_id != group.soft_target)
        return _on_one(group, todo, [(node, pool) for node, pool in twins if not used or node in used])
    if group.strategy == "PACK":
        # Nodes that hold a part of the group already come first, then the emptier ones.
        twins.sort(key=lambda twin: (twin[0] not in used, twin[1].used_share()))
        return _on_one(group, todo, twins) or _on_few(group, todo, twins)
    return _spread(group, todo, twins, used)


Twins = list[tuple[KnownNode, ResourcePool]]


def _on_one(group: Group, todo: list[int], twins: Twins) -> dict[int, KnownNode] | None:
    for node, pool in twins:
        trial = pool.copy()
        if all(_draw(group, index, node, trial) for index in todo):
            return dict.fromkeys(todo, node)
    return None


def _on_few(group: Group, todo: list[int], twins: Twins) -> dict[int, KnownNode] | None:
    chosen: dict[int, KnownNode] = {}
    left, twins = list(todo), list(twins)
    while left and twins:
        takes: list[tuple[int, int, list[int]]] = []
        for order, (node, pool) in enumerate(twins):
            trial = pool.copy()
            takes.append((-len(taken := [i for i in left if _draw(group, i, node, trial)]), order, taken))
        _, order, taken = min(takes)
        if not taken:
            return None
        node, _ = twins.pop(order)
        chosen.update(dict.fromkeys(taken, node))
        left = [index for index in left if index not in chosen]
    return None if left else chosen


def _spread(
    group: Group, todo: list[int], twins: Twins, used: list[KnownNode]
) -> dict[int, KnownNode] | None:
    chosen: dict[int, KnownNode] = {}
    loads = {node.node_id: used.count(node) for node, _ in twins}
    for index in todo:
        for node, pool in sorted(twins, key=lambda twin: (loads[twin[0].node_id], twin[1].used_share())):
            if _draw(group, index, node, pool):
                chosen[index] = node
                loads[node.node_id] += 1
                break
        else:
            return None
    return chosen


def _match(group: Group, todo: list[int], twins: Twins) -> dict[int, KnownNode] | None:
    """Give each bundle a node of its own: a bipartite matching by augmenting paths."""
    fits = {
        index: [
            slot
            for slot, (node, pool) in enumerate(twins)
            if group.accepts(index, node) and pool.fits(group.demands[index], group)
        ]
        for index in todo
    }
    taken: dict[int, int] = {}

    def seat(index: int, seen: set[int]) -> bool:
        for slot in fits[index]:
            if slot not in seen:
                seen.add(slot)
                if slot not in taken or seat(taken[slot], seen):
                    taken[slot] = index
                    return True
        return False

    if not all(seat(index, set()) for index in todo):
        return None
    return {index: twins[slot][0] for slot, index in taken.items()}


def _draw(group: Group, index: int, node: KnownNode, pool: ResourcePool) -> bool:
    demand = group.demands[index]
    if not group.accepts(index, node) or not pool.fits(demand, group):
        return False
    pool.take(demand)
    return True
