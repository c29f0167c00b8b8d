"""What a Ray cluster has, what waits there and why: as `sundog status` shows it.

Owns the reading of Ray's own view of its cluster (nodes, demands, the autoscaler's launches) and the words for a demand
that waits. Runs in Home, once in an interval, and in its calls.
"""

from __future__ import annotations

import time
from importlib import import_module
from typing import TYPE_CHECKING

from sundog.plain import JsonObject

if TYPE_CHECKING:
    from sundog.ray_engine import theirs

Look = JsonObject


def look(gcs_address: str) -> Look:
    """The cluster as Ray sees it now."""
    status = import_module("ray.autoscaler.v2.sdk").get_cluster_status(gcs_address)
    return read(status)


def read(status: theirs.RaysClusterStatus) -> Look:
    """Ray's answer in plain values."""
    demands = [
        *status.resource_demands.ray_task_actor_demand,
        *status.resource_demands.placement_group_demand,
    ]
    launches = [("launching", each) for each in status.pending_launches]
    launches += [("failed", each) for each in status.failed_launches]
    return {
        "pending": [
            {"shape": dict(bundle.bundle), "count": int(bundle.count)}
            for demand in demands
            for bundle in demand.bundles_by_count
        ],
        "nodes": [_node(each) for each in (*status.active_nodes, *status.idle_nodes)],
        "starting": [each.ray_node_type_name for each in status.pending_nodes],
        "launches": [
            {
                "kind": kind,
                "type": each.ray_node_type_name,
                "count": int(each.count),
                "details": str(each.details or ""),
            }
            for kind, each in launches
        ],
    }


def _node(each: theirs.RaysNode) -> JsonObject:
    return {
        "node_id": str(each.node_id),
        "status": str(each.node_status or ""),
        "type": each.ray_node_type_name,
        "total": each.total_resources(),
        "available": each.available_resources(),
    }


class Watch:
    """Since when each demand has waited, as far as it was looked at."""

    def __init__(self) -> None:
        self.last: Look = {"pending": [], "nodes": [], "starting": [], "launches": []}
        self._since: dict[str, float] = {}

    def note(self, found: Look, now_s: float) -> bool:
        """The newest look; whether anything but amounts in use has changed."""
        shapes = {_key(each["shape"]) for each in found["pending"]}
        self._since = {key: self._since.get(key, now_s) for key in shapes}
        changed = bool(_gist(found) != _gist(self.last))
        self.last = found
        return changed

    def pending(self, now_s: float) -> list[JsonObject]:
        """The demands that wait, each with how long and why."""
        return [
            {
                **each,
                "waited_s": max(0.0, now_s - self._since[_key(each["shape"])]),
                "why": why(each["shape"], self.last),
                "infeasible": False,  # more nodes may come
            }
            for each in self.last["pending"]
        ]


def _key(shape: dict[str, float]) -> str:
    return repr(sorted(shape.items()))


def _gist(found: Look) -> object:
    nodes = sorted(each["node_id"] for each in found["nodes"])
    return [found["pending"], nodes, sorted(found["starting"]), found["launches"]]


def why(shape: dict[str, float], found: Look) -> str:
    """Why a demand waits, in words.

    >>> why({"CPU": 1.0}, {"nodes": [], "starting": ["worker"], "launches": []})
    'no node has {CPU: 1}; the autoscaler starts nodes: 1 worker'
    """
    wanted = "{" + ", ".join(f"{name}: {amount:g}" for name, amount in shape.items()) + "}"
    fit = [each for each in found["nodes"] if all(each["total"].get(n, 0.0) >= a for n, a in shape.items())]
    said = (
        f"all of it is in use on {len(fit)} node{'s' * (len(fit) != 1)}" if fit else f"no node has {wanted}"
    )
    coming: dict[str, int] = {}
    for kind in found["starting"]:
        coming[kind] = coming.get(kind, 0) + 1
    for each in found["launches"]:
        if each["kind"] == "launching":
            coming[each["type"]] = coming.get(each["type"], 0) + each["count"]
    if coming:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(coming.items()))
        said += f"; the autoscaler starts nodes: {counts}"
    failed = [each for each in found["launches"] if each["kind"] == "failed"]
    if failed:
        reason = failed[-1]["details"] or "it does not say why"
        said += f"; the autoscaler could not start {failed[-1]['type']}: {reason}"
    return said


def spilled_bytes(known: dict[str, int]) -> dict[str, int]:
    """How much each living node has spilled, of those where it is more than was known."""
    stats = import_module("ray._private.internal_api").node_stats
    found = {}
    for each in import_module("ray").nodes():
        if each["Alive"]:
            told = stats(each["NodeManagerAddress"], each["NodeManagerPort"], include_memory_info=False)
            spilled = int(told.store_stats.spilled_bytes_total)
            if spilled > known.get(each["NodeID"], 0):
                found[each["NodeID"]] = spilled
    return found


def standing(watch: Watch, dead: list[JsonObject], facts: JsonObject) -> JsonObject:
    """The answer to `sundog status`: of living nodes by Ray's look, of dead ones by what Home noted."""
    wall_s = time.time()
    nodes = [
        {
            "node_id": each["node_id"],
            "is_head_node": "node:__internal_head__" in each["total"],
            "state": "ALIVE",
            "why": each["status"].lower() + (f", {each['type']}" if each["type"] else ""),
            "pid": 0,
            "total": each["total"],
            "available": each["available"],
            "labels": {},
        }
        for each in watch.last["nodes"]
    ]
    gone = [
        {
            "node_id": row["node_id"],
            "is_head_node": False,
            "state": "DEAD",
            "why": row["state_message"] or "",
            "pid": 0,
            "total": {},
            "available": {},
            "labels": {},
        }
        for row in dead
    ]
    total: dict[str, float] = {}
    free: dict[str, float] = {}
    for each in nodes:
        for name, amount in each["total"].items():
            total[name] = total.get(name, 0.0) + amount
            free[name] = free.get(name, 0.0) + each["available"].get(name, 0.0)
    return {
        **facts,
        "resources": {"total": total, "available": free},
        "nodes": [*nodes, *gone],
        "pending": watch.pending(wall_s),
    }
