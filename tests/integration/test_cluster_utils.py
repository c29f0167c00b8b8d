"""Several nodes on one machine: what each brings, where work runs, and where copies are."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import pytest

import sundog as ray
from sundog import engines
from sundog.cluster_utils import Cluster
from sundog.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from sundog.util.state import list_nodes
from tests.integration.clusters import (
    LARGE,
    joined,
    large,
    segments_of,
    total,
    where,
)
from tests.integration.gates import await_true


def test_each_node_brings_its_resources_and_labels(cluster: Cluster) -> None:
    joined(cluster, num_cpus=1)
    other = cluster.add_node(num_cpus=2, num_gpus=1, resources={"disk": 3}, labels={"zone": "b"})

    assert ray.cluster_resources()["CPU"] == 3 and ray.cluster_resources()["disk"] == 3
    rows = {row.node_id: row for row in list_nodes()}
    assert rows[other.node_id].labels["zone"] == "b" and not rows[other.node_id].is_head_node
    assert [row["Alive"] for row in ray.nodes()] == [True, True]
    assert ray.get(where.options(label_selector={"zone": "b"}).remote()) == other.node_id
    hard = NodeAffinitySchedulingStrategy(other.node_id, soft=False)
    assert ray.get(where.options(scheduling_strategy=hard).remote()) == other.node_id


def test_work_that_fits_no_node_waits_until_one_joins(cluster: Cluster) -> None:
    joined(cluster)
    ref = where.remote()
    assert ray.wait([ref], timeout=0.3) == ([], [ref])

    other = cluster.add_node(num_cpus=1)

    assert ray.get(ref) == other.node_id


def test_spread_goes_round_and_other_tasks_follow_their_arguments(cluster: Cluster) -> None:
    joined(cluster, num_cpus=2)
    others = [cluster.add_node(num_cpus=2, resources={f"n{i}": 1}) for i in range(2)]

    spread = where.options(scheduling_strategy="SPREAD")
    assert len({ray.get(spread.remote()) for _ in range(3)}) == 3
    argument = large.options(resources={"n1": 0.1}).remote(1)
    ray.wait([argument], fetch_local=False)
    assert ray.get(where.remote(argument)) == others[1].node_id


def test_reading_elsewhere_makes_a_copy_and_freeing_removes_all_of_them(cluster: Cluster) -> None:
    joined(cluster)
    first, second = cluster.add_node(resources={"a": 1}), cluster.add_node(resources={"b": 1})
    ref = large.options(resources={"a": 0.1}).remote(1)

    assert ray.get(total.options(resources={"b": 0.1}).remote(ref)) == LARGE
    assert len(segments_of(first) & segments_of(second)) == 1
    del ref
    await_true(lambda: not segments_of(first) and not segments_of(second), "all copies to go")


def test_a_program_that_joins_has_the_settings_of_the_session_but_for_its_own(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUNDOG_spin_us", "7")
    joined(cluster, _system_config={"max_lineage_bytes": 12345})
    engine = engines.current()
    assert engine is not None

    assert engine.owner.config.max_lineage_bytes == 12345
    assert engine.owner.config.spin_us == 7
