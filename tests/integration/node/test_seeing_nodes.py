"""The records know on which node each task ran, and which nodes came and went."""

from __future__ import annotations

import json
from pathlib import Path

import sundog as ray
from sundog.cluster_utils import Cluster
from sundog.util import state
from tests.integration.clusters import joined, where
from tests.integration.gates import await_true


def test_the_timeline_has_a_track_for_each_node_and_tells_of_its_loss(
    cluster: Cluster, tmp_path: Path
) -> None:
    joined(cluster, num_cpus=1)
    other = cluster.add_node(num_cpus=1, resources={"there": 1})
    session = ray.get_runtime_context().gcs_address
    here = ray.get(where.remote())
    assert ray.get(where.options(name="elsewhere", resources={"there": 1}).remote()) == other.node_id
    cluster.remove_node(other, allow_graceful=False)

    def events() -> list[dict[str, object]]:
        ray.timeline(str(tmp_path / "trace.json"))
        found: list[dict[str, object]] = json.loads((tmp_path / "trace.json").read_text())
        return found

    gone = f"node {other.node_id[:8]} is gone"
    await_true(lambda: any(each["name"] == gone for each in events()), "the loss in the timeline")

    def ran() -> dict[object, object]:
        found = events()
        tracks = {each["pid"]: each["args"] for each in found if each["name"] == "process_name"}
        return {each["name"]: tracks[each["pid"]] for each in found if each.get("cat") == "task"}

    wanted = {"elsewhere": {"name": f"node {other.node_id[:8]}"}, "where": {"name": f"node {here[:8]}"}}
    # Which node a process is of is written a moment after the process has begun.
    await_true(lambda: ran() == wanted, "the track of each node")
    found = events()
    assert any(each["name"] == f"node {other.node_id[:8]} joined" for each in found)
    [row] = state.list_tasks(filters=[("name", "=", "elsewhere")])
    assert row.node_id == other.node_id

    ray.shutdown()
    cluster.shutdown()
    rows = {row.node_id: row.state_message for row in state.list_nodes(address=session)}
    assert rows[other.node_id] == "its process ended"
    assert rows[here] == "The session ended."
