"""Where a spec may run, why it may not, and which place is chosen."""

from __future__ import annotations

from sundog.state.bundles import Groups
from sundog.state.lease_spec import LeaseSpec
from sundog.state.nodes import KnownNode
from sundog.state.placement import choose, find_candidates
from sundog.state.resources import ResourcePool, demand_of
from sundog.state.shapes import SpecQueue


def nodes(*cpus: float) -> dict[bytes, KnownNode]:
    made = {}
    for number, count in enumerate(cpus):
        name = b"node-%d" % number
        made[name] = KnownNode(name, ResourcePool(demand_of((("CPU", count),))), {"zone": f"z{number}"})
    return made


def shape(cpus: float = 1.0, strategy: tuple[object, ...] = ("default",), **fields: object) -> SpecQueue:
    return SpecQueue(LeaseSpec((("CPU", cpus),), "env", strategy, **fields))  # type: ignore[arg-type]


def placed(one: SpecQueue, where: dict[bytes, KnownNode]) -> list[bytes]:
    find_candidates(one, where, Groups())
    return [node.node_id for _, node in one.candidates]


def taken(one: SpecQueue) -> bytes | None:
    found = choose(one, 0.0)
    return None if found is None else found[1].node_id


def draw(node: KnownNode, cpus: float) -> None:
    assert node.pool.take(demand_of((("CPU", cpus),))) is not None


def test_only_nodes_that_are_large_enough_are_candidates() -> None:
    assert placed(shape(2.0), nodes(1, 4, 2)) == [b"node-1", b"node-2"]


def test_what_no_node_has_is_infeasible_and_says_what_it_asked_for() -> None:
    one = shape(8.0)

    assert placed(one, nodes(1, 4)) == []
    assert one.infeasible == "no node has {CPU: 8} in total"


def test_without_a_node_a_request_waits_for_one() -> None:
    one = shape()
    find_candidates(one, {}, Groups())

    assert one.waiting_for == "a node to join" and not one.infeasible


def test_a_hard_affinity_to_a_node_that_is_gone_is_infeasible_and_a_soft_one_goes_elsewhere() -> None:
    hard, soft = shape(strategy=("node", b"gone", False)), shape(strategy=("node", b"gone", True))

    assert placed(hard, nodes(1)) == [] and "is not in the cluster" in hard.infeasible
    assert placed(soft, nodes(1)) == [b"node-0"]


def test_labels_choose_nodes_and_fallbacks_are_tried_in_their_order() -> None:
    assert placed(shape(label_selector=(("zone", "z1"),)), nodes(1, 1)) == [b"node-1"]
    either = shape(label_selector=(("zone", "none"),), fallbacks=((("zone", "z1"),), (("zone", "z0"),)))
    assert placed(either, nodes(1, 1)) == [b"node-1", b"node-0"]
    assert taken(either) == b"node-1"
    nowhere = shape(label_selector=(("zone", "none"),))
    assert placed(nowhere, nodes(1)) == [] and "labels" in nowhere.infeasible


def test_nodes_are_filled_to_a_half_before_the_next_and_the_emptiest_comes_then() -> None:
    where = nodes(4, 4)
    one = shape()
    placed(one, where)

    assert taken(one) == b"node-0"
    draw(where[b"node-0"], 2)
    assert taken(one) == b"node-1"
    draw(where[b"node-1"], 3)
    assert taken(one) == b"node-0"


def test_spread_takes_the_emptiest() -> None:
    where = nodes(4, 4)
    one = shape(strategy=("spread",))
    placed(one, where)
    draw(where[b"node-0"], 1)

    assert taken(one) == b"node-1"


def test_a_place_without_room_now_is_not_chosen() -> None:
    where = nodes(1)
    one = shape()
    placed(one, where)
    draw(where[b"node-0"], 1)

    assert taken(one) is None
