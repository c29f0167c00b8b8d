"""Fixtures for tests of your own programs: put `pytest_plugins = ["sundog.testing"]` into your conftest.py.

Owns two fixtures: a running session, and a cluster of several nodes on this machine. Both end with the test. Needs
pytest, which sundog does not install. Runs in the process of the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

import sundog
from sundog.cluster_utils import Cluster


@pytest.fixture
def sundog_session() -> Iterator[ModuleType]:
    """sundog with a session of two CPUs.

    ```python
    def test_square(sundog_session):
        assert sundog_session.get(square.remote(3)) == 9
    ```
    """
    sundog.init(num_cpus=2)
    yield sundog
    sundog.shutdown()


@pytest.fixture
def sundog_cluster() -> Iterator[Cluster]:
    """A cluster without nodes: add some, then connect.

    ```python
    def test_a_lost_node_costs_time_and_no_result(sundog_cluster):
        sundog_cluster.add_node(num_cpus=0)
        worker = sundog_cluster.add_node(num_cpus=2)
        sundog_cluster.connect()
        ...
        sundog_cluster.remove_node(worker, allow_graceful=False)
    ```
    """
    cluster = Cluster()
    yield cluster
    sundog.shutdown()
    cluster.shutdown()
