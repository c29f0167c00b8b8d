"""Which nodes to start for work that waits. Pure: what there is and what is wanted in, names of types of nodes out.

Owns the choice alone. Demands that no type of node could ever meet are left waiting, as they are without this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sundog.plain import NamedTuple

Amounts = Mapping[str, float]


class NodeType(NamedTuple):
    """A kind of node that can be started."""

    name: str
    resources: dict[str, float]
    labels: dict[str, str]
    min_count: int
    max_count: int


def to_start(
    types: Sequence[NodeType],
    counts: Mapping[str, int],
    free: Iterable[Amounts],
    demands: Iterable[Amounts],
    max_count: int,
) -> list[str]:
    """Choose the nodes to start.

    Args:
        types: what can be started; of several that would do, the smallest is.
        counts: how many of each type there are already, starting ones included.
        free: what is free on each node that there is.
        demands: what each piece of waiting work wants.
        max_count: nodes of all types together.
    """
    have = {each.name: counts.get(each.name, 0) for each in types}
    chosen: list[str] = []
    room = [dict(each) for each in free]

    def add(kind: NodeType) -> dict[str, float] | None:
        if have[kind.name] >= kind.max_count or sum(have.values()) >= max_count:
            return None
        have[kind.name] += 1
        chosen.append(kind.name)
        room.append(dict(kind.resources))
        return room[-1]

    for kind in types:
        while have[kind.name] < kind.min_count and add(kind) is not None:
            pass
    smallest_first = sorted(types, key=lambda kind: sum(kind.resources.values()))
    for demand in demands:
        place = next((each for each in room if _fits(demand, each)), None)
        if place is None:
            fitting = (kind for kind in smallest_first if _fits(demand, kind.resources))
            place = next(filter(None, map(add, fitting)), None)
        if place is not None:
            for name, amount in demand.items():
                place[name] = place.get(name, 0.0) - amount
    return chosen


def _fits(demand: Amounts, place: Amounts) -> bool:
    return all(place.get(name, 0.0) >= amount for name, amount in demand.items())
