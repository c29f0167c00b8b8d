"""Nodes that come when work waits for them, and go when they are idle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import sundog
from sundog.cluster_utils import AutoscalingCluster
from tests.integration.gates import await_true


@pytest.fixture
def clusters() -> Iterator[list[Any]]:
    made: list[Any] = []
    yield made
    sundog.shutdown()
    for cluster in made:
        cluster.shutdown()


def test_nodes_come_for_work_that_waits_and_go_when_they_are_idle(clusters: list[Any]) -> None:
    types = {
        "cpu": {"resources": {"CPU": 1}, "labels": {"region": "us"}, "min_workers": 1, "max_workers": 2},
        "disk": {"resources": {"CPU": 1, "disk": 1}, "min_workers": 0, "max_workers": 1},
    }
    cluster = AutoscalingCluster({"CPU": 0}, types, autoscaler_v2=True, idle_timeout_minutes=0.01)
    clusters.append(cluster)
    cluster.start()
    sundog.init()

    def living() -> list[dict[str, Any]]:
        return [row for row in sundog.nodes() if row["Alive"]]

    await_true(lambda: len(living()) == 2, "the least number of workers")
    assert {row["Labels"].get("region") for row in living()} == {None, "us"}

    @sundog.remote(resources={"disk": 1})
    def where() -> str:
        return sundog.get_runtime_context().get_node_id()

    assert sundog.get(where.remote(), timeout=120) in {row["NodeID"] for row in sundog.nodes()}
    await_true(lambda: len(living()) == 2, "the end of the node that is idle")


def test_a_cluster_is_started_once(clusters: list[Any]) -> None:
    cluster = AutoscalingCluster({"CPU": 1}, {})
    clusters.append(cluster)
    cluster.start()
    with pytest.raises(RuntimeError, match="already"):
        cluster.start()
