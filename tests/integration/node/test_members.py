"""What is lost with a node, and what follows."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sundog as ray
from sundog.cluster_utils import Cluster
from sundog.exceptions import ActorUnavailableError, NodeDiedError, ObjectLostError
from sundog.util.placement_group import placement_group, placement_group_table
from tests.integration.clusters import (
    LARGE,
    Counter,
    joined,
    large,
    moved_to,
    total,
)
from tests.integration.gates import await_true


def test_a_result_that_is_lost_with_its_node_is_computed_on_another(cluster: Cluster) -> None:
    joined(cluster)
    worker = cluster.add_node(num_cpus=1)
    inner = large.remote(2)
    refs = [inner, total.remote(inner)]
    ray.wait(refs, num_returns=2, fetch_local=False)

    cluster.remove_node(worker, allow_graceful=False)
    cluster.add_node(num_cpus=1)

    assert ray.get(total.remote(inner)) == 2 * LARGE and ray.get(refs[1]) == 2 * LARGE
    assert [row["Alive"] for row in ray.nodes()].count(False) == 1


def test_a_copy_elsewhere_saves_what_no_task_can_compute(cluster: Cluster) -> None:
    joined(cluster)
    worker = cluster.add_node(resources={"a": 1})
    keeper = cluster.add_node(resources={"b": 1})

    @ray.remote(max_retries=0)
    def once() -> Any:
        return np.ones(LARGE, dtype=np.int8)

    copied, single = (once.options(resources={"a": 0.1}).remote() for _ in range(2))
    assert ray.get(total.options(resources={"b": 0.1}).remote(copied)) == LARGE
    ray.wait([single], fetch_local=False)

    cluster.remove_node(worker, allow_graceful=False)

    assert int(ray.get(copied).sum()) == LARGE and keeper.is_alive()
    with pytest.raises(ObjectLostError, match="max_retries=0"):
        ray.get(single)


def test_a_task_is_retried_elsewhere_or_told_that_its_node_died(cluster: Cluster, tmp_path: Path) -> None:
    joined(cluster)
    worker = cluster.add_node(num_cpus=2)
    begun = [tmp_path / "retried", tmp_path / "once"]

    @ray.remote
    def stay(path: Path) -> str:
        if path.exists():
            return "again"
        path.touch()
        signal.pause()
        return ""

    retried, once = stay.remote(begun[0]), stay.options(max_retries=0).remote(begun[1])
    await_true(lambda: all(path.exists() for path in begun), "both tasks to begin")

    cluster.remove_node(worker, allow_graceful=False)
    cluster.add_node(num_cpus=1)

    assert ray.get(retried) == "again"
    with pytest.raises(NodeDiedError, match=worker.node_id) as caught:
        ray.get(once)
    assert caught.value.node_id == worker.node_id


def test_an_actor_moves_to_another_node(cluster: Cluster, tmp_path: Path) -> None:
    joined(cluster)
    worker = cluster.add_node(num_cpus=1)
    counter = Counter.remote()
    assert ray.get([counter.add.remote(), counter.node.remote()]) == [1, worker.node_id]
    running = counter.sleep.remote(tmp_path / "begun")
    await_true((tmp_path / "begun").exists, "the call to begin")

    cluster.remove_node(worker, allow_graceful=False)
    other = cluster.add_node(num_cpus=1)

    with pytest.raises(ActorUnavailableError, match="its node"):
        ray.get(running)
    await_true(lambda: moved_to(counter) == other.node_id, "the actor to be up again")


def test_bundles_are_spread_over_nodes_and_move_when_one_goes(cluster: Cluster) -> None:
    joined(cluster)
    workers = [cluster.add_node(num_cpus=1) for _ in range(2)]
    group = placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
    ray.get(group.ready())
    assert set(placement_group_table(group)["bundles_to_node_id"].values()) == {w.node_id for w in workers}

    cluster.remove_node(workers[0], allow_graceful=False)
    await_true(
        lambda: placement_group_table(group)["state"] == "RESCHEDULING", "the group to look for a node"
    )
    third = cluster.add_node(num_cpus=1)

    assert group.wait(120)
    nodes = set(placement_group_table(group)["bundles_to_node_id"].values())
    assert nodes == {workers[1].node_id, third.node_id}
