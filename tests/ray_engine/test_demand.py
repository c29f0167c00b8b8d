"""What waits on a Ray cluster, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from sundog.ray_engine import demand

NODE: dict[str, Any] = {
    "node_id": "aa" * 28,
    "status": "RUNNING",
    "type": "worker",
    "total": {"CPU": 1.0},
    "available": {"CPU": 0.0},
}
NOTHING: demand.Look = {"pending": [], "nodes": [], "starting": [], "launches": []}


@dataclass
class RaysBundle:
    bundle: dict[str, float]
    count: int


@dataclass
class RaysDemand:
    bundles_by_count: list[RaysBundle]


@dataclass
class RaysDemands:
    """What waits, by who asks for it."""

    ray_task_actor_demand: list[RaysDemand]
    placement_group_demand: list[RaysDemand] = field(default_factory=list)


class RaysNode:
    node_id, node_status, ray_node_type_name = "aa" * 28, "RUNNING", "worker"

    def total_resources(self) -> dict[str, float]:
        return {"CPU": 1.0}

    def available_resources(self) -> dict[str, float]:
        return {"CPU": 0.0}


@dataclass
class RaysLaunch:
    ray_node_type_name: str
    count: int
    details: str | None = None


@dataclass
class RaysStatus:
    """Ray's answer about its cluster."""

    resource_demands: RaysDemands
    active_nodes: list[RaysNode]
    pending_nodes: list[RaysNode]
    pending_launches: list[RaysLaunch]
    idle_nodes: list[RaysNode] = field(default_factory=list)
    failed_launches: list[RaysLaunch] = field(default_factory=list)


def test_rays_answer_becomes_plain_values() -> None:
    demands = RaysDemands([RaysDemand([RaysBundle({"CPU": 1.0}, 3)])])
    status = RaysStatus(demands, [RaysNode()], [RaysNode()], [RaysLaunch("worker", 2)])
    assert demand.read(cast(Any, status)) == {
        "pending": [{"shape": {"CPU": 1.0}, "count": 3}],
        "nodes": [NODE],
        "starting": ["worker"],
        "launches": [{"kind": "launching", "type": "worker", "count": 2, "details": ""}],
    }


def test_a_demand_has_waited_since_it_was_first_seen() -> None:
    watch = demand.Watch()
    found = {**NOTHING, "pending": [{"shape": {"CPU": 1.0}, "count": 3}], "nodes": [NODE]}
    assert watch.note(found, 10.0)
    assert not watch.note({**found, "nodes": [{**NODE, "available": {"CPU": 1.0}}]}, 12.0)
    [row] = watch.pending(15.0)
    assert row["waited_s"] == 5.0 and row["count"] == 3 and "in use on 1 node" in row["why"]
    assert watch.note(NOTHING, 16.0) and watch.pending(16.0) == []


def test_the_autoscaler_is_part_of_the_reason() -> None:
    failed = {"kind": "failed", "type": "gpu", "count": 1, "details": "no capacity"}
    text = demand.why({"GPU": 1.0}, {**NOTHING, "launches": [failed]})
    assert text == "no node has {GPU: 1}; the autoscaler could not start gpu: no capacity"


def test_status_has_the_living_and_the_dead() -> None:
    watch = demand.Watch()
    watch.note({**NOTHING, "nodes": [NODE]}, 1.0)
    found = demand.standing(watch, [{"node_id": "bb" * 28, "state_message": "lost"}], {"node": "aa"})
    assert [(each["state"], each["why"]) for each in found["nodes"]] == [
        ("ALIVE", "running, worker"),
        ("DEAD", "lost"),
    ]
    assert found["resources"] == {"total": {"CPU": 1.0}, "available": {"CPU": 0.0}} and found["node"] == "aa"
