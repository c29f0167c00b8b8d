"""The process that is a node: what is left when it is killed."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import os

import sundog as ray
from sundog.cluster_utils import Cluster
from tests.integration.clusters import (
    joined,
    large,
    pid_of,
)
from tests.integration.gates import await_true


def test_nothing_is_left_of_a_killed_node(cluster: Cluster) -> None:
    joined(cluster)
    worker = cluster.add_node(num_cpus=2)
    root = f"{worker.session.shm_root}.{worker.node_id[:8]}"
    ref = large.remote(1)
    pids = ray.get([pid_of.remote() for _ in range(2)])
    ray.wait([ref], fetch_local=False)

    cluster.remove_node(worker, allow_graceful=False)

    await_true(lambda: not os.path.exists(root), "its objects to go")
    await_true(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), "its workers to end")
