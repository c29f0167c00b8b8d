"""How this machine is called by the others. Reads what the runtime says; opens no socket."""

from __future__ import annotations

import sundog

_known: dict[str, dict[str, object]] = {}


def _node_row(node_id: str) -> dict[str, object]:
    # A node never changes its address or name, so one row per node is enough; a node may not be listed yet.
    if node_id not in _known:
        _known.update((str(row.get("NodeID")), dict(row)) for row in sundog.nodes())
    return _known.get(node_id, {})


def get_node_ip_address(address: str | None = None) -> str:
    """Give the IP address under which this process's node is known to the session.

    Args:
        address: Accepted for compatibility; the session knows the answer, so no address is probed.
    """
    if not sundog.is_initialized():
        return "127.0.0.1"
    node_id = sundog.get_runtime_context().get_node_id()
    return str(_node_row(node_id).get("NodeManagerAddress", "127.0.0.1"))


def get_node_instance_id() -> str:
    """Give the provider's name of this machine, or an empty string when it was not started with one."""
    if not sundog.is_initialized():
        return ""
    node_id = sundog.get_runtime_context().get_node_id()
    return str(_node_row(node_id).get("InstanceID", ""))
