"""A cluster on this machine whose nodes come when work waits for them and go when they are idle, for tests.

Owns the nodes that it starts, and one thread that looks once a second at what waits (`state/scaling.py` chooses). The
shape of its arguments is that of Ray's class of the same name; what describes machines of a cloud has no effect.
Runs in the program that tests.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from sundog import notices
from sundog.cluster_utils import Cluster, ClusterNode
from sundog.engines import sessions
from sundog.exceptions import RayError
from sundog.state.scaling import NodeType, to_start
from sundog.wire import requests as ask

if TYPE_CHECKING:
    from sundog.plain import JsonObject
    from sundog.wire.status import NodeRow

_LOOK_S = 1.0
_MOST_WORKERS = 8
_IDLE_MINUTES = 5.0


class AutoscalingCluster:
    """A head, and worker nodes that are started on demand.

    Args:
        head_resources: What the head has, such as `{"CPU": 0}`.
        worker_node_types: By name: `resources`, `labels`, `min_workers`, `max_workers`.
        autoscaler_v2: Taken for Ray's sake; there is one way of scaling here.
        **config_kwargs: `max_workers` (8) of all types together, `idle_timeout_minutes` (5); others have no effect.

    >>> from sundog.cluster_utils import AutoscalingCluster
    >>> cluster = AutoscalingCluster({"CPU": 0}, {"cpu": {"resources": {"CPU": 2}, "max_workers": 1}})
    """

    def __init__(
        self,
        head_resources: JsonObject,
        worker_node_types: dict[str, JsonObject],
        autoscaler_v2: bool = False,
        max_workers: int = _MOST_WORKERS,
        idle_timeout_minutes: float = _IDLE_MINUTES,
        **config_kwargs: object,
    ) -> None:
        self._head = dict(head_resources)
        self._types = [
            NodeType(
                name,
                {key: float(amount) for key, amount in row.get("resources", {}).items()},
                dict(row.get("labels") or {}),
                int(row.get("min_workers", 0)),
                int(row.get("max_workers", _MOST_WORKERS)),
            )
            for name, row in worker_node_types.items()
        ]
        self._max = int(max_workers)
        self._idle_s = 60 * float(idle_timeout_minutes)
        self._cluster: Cluster | None = None
        self._nodes: dict[ClusterNode, tuple[str, float]] = {}  # type, and since when the node is idle
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(
        self,
        _system_config: JsonObject | None = None,
        override_env: dict[str, str] | None = None,
    ) -> None:
        """Start the head; then `init()` joins it. The least number of workers comes at once."""
        if self._cluster is not None:
            raise RuntimeError("This cluster has been started already.")
        self._cluster = Cluster()
        self._cluster.add_node(**_node_args(self._head), _system_config=_system_config, env_vars=override_env)
        self._ended.clear()
        self._thread = threading.Thread(
            target=self._run, args=(self._cluster,), name="sundog-scaling", daemon=True
        )
        self._thread.start()

    def shutdown(self) -> None:
        """End all nodes."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        cluster, self._cluster, self._thread = self._cluster, None, None
        self._nodes.clear()
        if cluster is not None:
            cluster.shutdown()

    def _run(self, cluster: Cluster) -> None:
        while True:
            try:
                self._look(cluster)
            except (RayError, OSError) as error:
                if not self._ended.is_set():
                    notices.warn(f"AutoscalingCluster could not start or end nodes: {error}")
            if self._ended.wait(_LOOK_S):
                return

    def _look(self, cluster: Cluster) -> None:
        assert cluster.head_node is not None
        status = sessions.request(cluster.head_node.session, ask.Status())
        rows = {row["node_id"]: row for row in status["nodes"] if row["state"] == "ALIVE"}
        self._retire(cluster, rows)
        counts: dict[str, int] = {}
        for name, _ in self._nodes.values():
            counts[name] = counts.get(name, 0) + 1
        free = [row["available"] for row in rows.values()]
        demands = [row["shape"] for row in status["pending"] for _ in range(row["count"])]
        groups = sessions.request(cluster.head_node.session, ask.PgTable(None))
        for group in groups.values():
            if group["state"] == "PENDING":
                demands += group["bundles"].values()
        for name in to_start(self._types, counts, free, demands, self._max):
            if self._ended.is_set():
                return
            kind = next(each for each in self._types if each.name == name)
            node = cluster.add_node(**_node_args(kind.resources), labels=kind.labels)
            self._nodes[node] = (name, time.monotonic())

    def _retire(self, cluster: Cluster, rows: dict[str, NodeRow]) -> None:
        """End nodes that have been idle for long, and forget those that are gone."""
        now = time.monotonic()
        least = {kind.name: kind.min_count for kind in self._types}
        for node, (name, since_s) in list(self._nodes.items()):
            row = rows.get(node.node_id)
            if row is None:
                del self._nodes[node]
            elif row["available"] != row["total"]:
                self._nodes[node] = (name, now)
            elif now - since_s > self._idle_s:
                if sum(each == name for each, _ in self._nodes.values()) > least[name]:
                    del self._nodes[node]
                    cluster.remove_node(node)


def _node_args(resources: JsonObject) -> JsonObject:
    """Resources by Ray's names, as `add_node` takes them."""
    rest = dict(resources)
    args: JsonObject = {"num_cpus": rest.pop("CPU", 0), "num_gpus": rest.pop("GPU", 0)}
    for name in ("memory", "object_store_memory"):
        if name in rest:
            args[name] = int(rest.pop(name))
    return {**args, "resources": rest}
