"""A node that is added and drained from the command line."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import subprocess
import sys

import sundog as ray
from sundog.cluster_utils import Cluster
from sundog.util.state import list_nodes
from tests.integration.clusters import (
    joined,
    where,
)
from tests.integration.gates import await_true


def test_a_node_is_added_and_drained_from_the_command_line(cluster: Cluster) -> None:
    joined(cluster)

    def sundog(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "sundog.cli", *words], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    said = sundog("start", "--address", "auto", "--num-cpus", "1", "--labels", "zone=z")
    node_id = next(row.node_id for row in list_nodes() if row.labels.get("zone") == "z")
    assert f"Node {node_id[:8]}" in said
    assert ray.get(where.remote()) == node_id
    assert f"node {node_id[:8]}" in sundog("stop", "--node", node_id[:8])
    await_true(
        lambda: node_id in {row["NodeID"] for row in ray.nodes() if not row["Alive"]}, "the node to leave"
    )
    assert next(row["DeathReasonMessage"] for row in ray.nodes() if not row["Alive"]) == "it was drained"
