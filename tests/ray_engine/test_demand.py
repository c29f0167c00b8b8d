"""What waits on a Ray cluster, and why."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sundog.ray_engine import demand

NODE: dict[str, Any] = {
    "node_id": "aa" * 28,
    "status": "RUNNING",
    "type": "worker",
    "total": {"CPU": 1.0},
    "available": {"CPU": 0.0},
}
NOTHING: demand.Look = {"pending": [], "nodes": [], "starting": [], "launches": []}


def test_rays_answer_becomes_plain_values() -> None:
    bundle = SimpleNamespace(bundle={"CPU": 1.0}, count=3)
    node = SimpleNamespace(
        node_id="aa" * 28,
        node_status="RUNNING",
        ray_node_type_name="worker",
        total_resources=lambda: {"CPU": 1.0},
        available_resources=lambda: {"CPU": 0.0},
    )
    launch = SimpleNamespace(ray_node_type_name="worker", count=2, details=None)
    status = SimpleNamespace(
        resource_demands=SimpleNamespace(
            ray_task_actor_demand=[SimpleNamespace(bundles_by_count=[bundle])], placement_group_demand=[]
        ),
        active_nodes=[node],
        idle_nodes=[],
        pending_nodes=[node],
        pending_launches=[launch],
        failed_launches=[],
    )
    assert demand.read(status) == {
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
