"""Several nodes on one machine, for tests of a user's own: what happens when a node is lost.

Owns the processes that it starts: a head (a session as of `sundog start`) and members (`engines/members.py`). Each node
has its own resources, labels, workers and object store, and ends as one: `remove_node` is the loss of all of them.
Runs in the program that tests, any thread.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

from sundog import config as config_module
from sundog.engines import capacity, members, sessions
from sundog.wire import requests as ask

if TYPE_CHECKING:
    from sundog.autoscale import AutoscalingCluster as AutoscalingCluster
    from sundog.plain import JsonObject

cluster_not_supported = False  # a name of Ray: nodes can be started on this platform
_STORE_BYTES = 150 << 20
_GRACE_S = 10.0
# Names of Ray without a meaning here: there are no such ports, services or passwords.
_WITHOUT_EFFECT = frozenset(
    (
        "cleanup",
        "dashboard_agent_listen_port",
        "dashboard_host",
        "dashboard_port",
        "driver_mode",
        "enable_object_reconstruction",
        "gcs_address",
        "gcs_server_port",
        "include_dashboard",
        "include_log_monitor",
        "log_dir",
        "max_worker_port",
        "metrics_agent_port",
        "metrics_export_port",
        "min_worker_port",
        "node_ip_address",
        "node_manager_port",
        "object_manager_port",
        "plasma_directory",
        "plasma_store_socket_name",
        "raylet_socket_name",
        "redirect_output",
        "redis_address",
        "redis_max_memory",
        "redis_password",
        "redis_port",
        "redis_username",
        "ulimit",
        "worker_path",
    )
)


class ClusterNode:
    """A node of a `Cluster`: what `add_node` returns."""

    def __init__(self, node_id: str, pid: int, session: sessions.SessionInfo, *, head: bool) -> None:
        self.node_id = self.unique_id = node_id
        self.pid = pid
        self.head = head
        self.session = session

    def __repr__(self) -> str:
        return f"ClusterNode({self.node_id[:8]}, pid {self.pid}{', head' if self.head else ''})"

    @property
    def address(self) -> str:
        """What `init(address=…)` takes to join the node's session."""
        return self.session.address

    gcs_address = address

    @property
    def node_ip_address(self) -> str:
        """Every node is on this machine."""
        return "127.0.0.1"

    def get_session_dir_path(self) -> str:
        """The folder of the session: logs and records."""
        return self.session.path

    def get_logs_dir_path(self) -> str:
        """The folder of the session's logs."""
        return f"{self.session.path}/logs"

    def is_alive(self) -> bool:
        """Whether the node's process runs."""
        return not members.has_ended(self.pid)

    any_processes_alive = is_alive
    remaining_processes_alive = is_alive

    def kill_raylet(self) -> None:
        """SIGKILL for the node's process: the node is lost."""
        self._end(signal.SIGKILL)

    def kill_all_processes(
        self, check_alive: bool = True, allow_graceful: bool = False, wait: bool = False
    ) -> None:
        """End the node with everything that belongs to it."""
        self._end(signal.SIGTERM if allow_graceful else signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, how)
        deadline = time.monotonic() + _GRACE_S
        while not members.has_ended(self.pid):
            if how == signal.SIGTERM and time.monotonic() > deadline:
                self._end(signal.SIGKILL)
                return
            time.sleep(0.002)


class Cluster:
    """A session with several nodes on this machine.

    Args:
        initialize_head: Start the head at once.
        connect: Join it as well, as `connect()` does.
        head_node_args: What `add_node` is given for the head.
        shutdown_at_exit: End all nodes when the program ends.

    Raises:
        RuntimeError: `connect` without `initialize_head`.

    >>> from sundog.cluster_utils import Cluster
    >>> cluster = Cluster()
    >>> head = cluster.add_node(num_cpus=0)
    >>> worker = cluster.add_node(num_cpus=2, resources={"disk": 1})
    >>> len(cluster.list_all_nodes())
    2
    >>> cluster.remove_node(worker)
    >>> cluster.shutdown()
    """

    def __init__(
        self,
        initialize_head: bool = False,
        connect: bool = False,
        head_node_args: JsonObject | None = None,
        shutdown_at_exit: bool = True,
    ) -> None:
        self.head_node: ClusterNode | None = None
        self.worker_nodes: set[ClusterNode] = set()
        self.connected = False
        if shutdown_at_exit:
            atexit.register(self.shutdown)
        if connect and not initialize_head:
            raise RuntimeError("There is no cluster to connect to: give initialize_head=True, too.")
        if initialize_head:
            self.add_node(**(head_node_args or {}))
            if connect:
                self.connect()

    @property
    def address(self) -> str | None:
        """What `init(address=…)` takes to join; None while there is no head."""
        return self.head_node.address if self.head_node is not None else None

    gcs_address = address

    def connect(self, namespace: str | None = None) -> None:
        """Join the cluster as a driver, on its head."""
        import sundog

        if self.address is None:
            raise RuntimeError("There is no cluster to connect to: add a node first.")
        sundog.init(address=self.address, namespace=namespace, ignore_reinit_error=True)
        self.connected = True

    def add_node(self, wait: bool = True, **node_args: object) -> ClusterNode:
        """Start a node; the first one is the head.

        Args:
            wait: Whether to wait until the session counts the node.
            **node_args: `num_cpus` (1), `num_gpus` (0), `resources`, `labels`, `memory`, `object_store_memory`
                (150 MiB), `node_name`, `env_vars`, `_system_config`, `temp_dir`, `object_spilling_directory`.

        Raises:
            TypeError: an argument that neither sundog nor Ray knows.
            RaySystemError: the node does not come up.
        """
        asked = _Asked(node_args)
        if self.head_node is None:
            self.head_node = _start_head(asked)
            return self.head_node
        config = config_module.load(asked.settings)
        info = members.start_member(
            self.head_node.session,
            asked.totals(config, head=False),
            asked.labels,
            config,
            node_name=asked.node_name,
            environ=asked.env_vars,
            wait=wait,
        )
        node = ClusterNode(info.node_id, info.pid, info.session, head=False)
        self.worker_nodes.add(node)
        return node

    def remove_node(self, node: ClusterNode, allow_graceful: bool = True) -> None:
        """End a node with its workers, its actors and its copies of objects.

        Args:
            allow_graceful: Whether the node may clean up by itself (SIGTERM) or is killed (SIGKILL).

        Raises:
            ValueError: it is the node that this program is connected to; the program is shut down.
        """
        import sundog

        if node.head and sundog.is_initialized():
            sundog.shutdown()
            raise ValueError(
                "This program is connected to the head of the cluster, which cannot be removed meanwhile. Remove "
                "another node, or call shutdown() first."
            )
        if node is not self.head_node and node not in self.worker_nodes:
            raise ValueError(f"{node!r} is not a node of this cluster.")
        node.kill_all_processes(check_alive=False, allow_graceful=allow_graceful, wait=True)
        if node is self.head_node:
            self.head_node = None
            return
        self.worker_nodes.discard(node)
        if self.head_node is not None:
            self._await_loss(node)

    def _await_loss(self, node: ClusterNode) -> None:
        """Wait until the head has heard of a node's end: what the program does next meets a session without it."""
        deadline = time.monotonic() + _GRACE_S
        while time.monotonic() < deadline and self._knows(node):
            time.sleep(0.002)

    def _knows(self, node: ClusterNode) -> bool:
        with contextlib.suppress(ConnectionError):
            return any(row["NodeID"] == node.node_id and row["Alive"] for row in self._rows())
        return False

    def _rows(self) -> list[JsonObject]:
        assert self.head_node is not None
        rows: list[dict[str, object]] = sessions.request(self.head_node.session, ask.Nodes())
        return rows

    def wait_for_nodes(self, timeout: float = 30) -> None:
        """Wait until the session counts exactly the nodes of this cluster.

        Raises:
            TimeoutError: it does not, within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while True:
            alive = {row["NodeID"] for row in self._rows() if row["Alive"]}
            wanted = {node.node_id for node in self.list_all_nodes()}
            if alive == wanted:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"After {timeout:g} s the session has {len(alive)} nodes, but this cluster has {len(wanted)}."
                )
            time.sleep(0.01)

    def list_all_nodes(self) -> list[ClusterNode]:
        """The nodes of this cluster, the head first."""
        head = [self.head_node] if self.head_node is not None else []
        return head + sorted(self.worker_nodes, key=lambda node: node.pid)

    def remaining_processes_alive(self) -> bool:
        """Whether every node runs."""
        return all(node.is_alive() for node in self.list_all_nodes())

    def shutdown(self) -> None:
        """End all nodes. Call `sundog.shutdown()` first."""
        atexit.unregister(self.shutdown)
        for node in sorted(self.worker_nodes, key=lambda each: each.pid):
            node.kill_all_processes(check_alive=False, wait=True)
        self.worker_nodes.clear()
        head, self.head_node = self.head_node, None
        if head is not None:
            sessions.stop_session(head.session)
            head.is_alive()  # the head is a child of this process: reap it


class _Asked:
    """The arguments of `add_node`, checked."""

    def __init__(self, given: JsonObject) -> None:
        given = {name: value for name, value in given.items() if name not in _WITHOUT_EFFECT}
        self.num_cpus: float = given.pop("num_cpus", 1)
        self.num_gpus: float = given.pop("num_gpus", 0)
        self.resources: dict[str, float] = dict(given.pop("resources", None) or {})
        self.store_bytes: int = given.pop("object_store_memory", None) or _STORE_BYTES
        self.labels: dict[str, str] = dict(given.pop("labels", None) or {})
        self.node_name: str = given.pop("node_name", None) or ""
        self.env_vars: dict[str, str] = dict(given.pop("env_vars", None) or {})
        self.settings: dict[str, object] = dict(given.pop("_system_config", None) or {})
        memory = given.pop("memory", None)
        if memory is not None:
            self.resources["memory"] = float(memory)
        for name in ("temp_dir", "object_spilling_directory"):
            value = given.pop(name, None)
            if value is not None:
                self.settings[name] = value
        if given:
            raise TypeError(f"add_node() has no arguments {', '.join(sorted(given))}.")

    def totals(self, config: config_module.Config, *, head: bool) -> dict[str, float]:
        """The resources of a node."""
        totals = capacity.node_resources(
            self.num_cpus, self.num_gpus, self.resources, self.store_bytes, config
        )
        if not head:
            totals.pop("node:__internal_head__", None)
        return totals


def _start_head(asked: _Asked) -> ClusterNode:
    info = sessions.start_head(
        num_cpus=asked.num_cpus,
        num_gpus=asked.num_gpus,
        resources=asked.resources,
        object_store_memory=asked.store_bytes,
        labels=asked.labels,
        system_config=asked.settings,
        environ=asked.env_vars,
    )
    rows = sessions.request(info, ask.Nodes())
    return ClusterNode(rows[0]["NodeID"], info.node_pid, info, head=True)


def __getattr__(name: str) -> object:
    if name == "AutoscalingCluster":
        from sundog.autoscale import AutoscalingCluster

        return AutoscalingCluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
