"""The fixtures that users' tests ask for."""

from __future__ import annotations

from types import ModuleType

from sundog.cluster_utils import Cluster
from sundog.testing import sundog_cluster, sundog_session
from tests.integration.clusters import where

__all__ = ["sundog_cluster", "sundog_session"]


def test_a_session_runs_for_a_test(sundog_session: ModuleType) -> None:
    assert len(sundog_session.get(where.remote())) == 32


def test_a_cluster_takes_nodes_and_is_joined(sundog_cluster: Cluster) -> None:
    sundog_cluster.add_node(num_cpus=0)
    worker = sundog_cluster.add_node(num_cpus=1)
    sundog_cluster.connect()
    sundog_cluster.wait_for_nodes()

    import sundog

    assert sundog.get(where.remote()) == worker.node_id
