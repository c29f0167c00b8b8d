"""What tests of several nodes share: a cluster that ends with its test, and a few tasks and actors to run there."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np

import sundog as ray
from sundog.cluster_utils import Cluster, ClusterNode
from sundog.exceptions import ActorUnavailableError

LARGE = 400_000


def joined(cluster: Cluster, **head: Any) -> Cluster:
    """The cluster with a head, which this program has joined."""
    cluster.add_node(**{"num_cpus": 0, **head})
    ray.init(address=cluster.address, logging_level="ERROR")
    return cluster


@ray.remote
def where(*_: Any) -> str:
    return ray.get_runtime_context().get_node_id()


@ray.remote
def large(value: int) -> Any:
    return np.full(LARGE, value, dtype=np.int8)


@ray.remote
def total(array: Any) -> int:
    return int(array.sum(dtype=np.int64))


@ray.remote(max_restarts=1, max_task_retries=0)
class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self) -> int:
        self.count += 1
        return self.count

    def node(self) -> str:
        return ray.get_runtime_context().get_node_id()

    def sleep(self, begun: Path) -> None:
        begun.touch()
        signal.pause()


def moved_to(counter: Any) -> str:
    try:
        return str(ray.get(counter.node.remote()))
    except ActorUnavailableError:
        return ""


def segments_of(node: ClusterNode) -> set[str]:
    root = f"{node.session.shm_root}.{node.node_id[:8]}"
    return {name for name in os.listdir(root) if not name.startswith((".", "free-"))}


@ray.remote
def pid_of() -> int:
    return os.getpid()
