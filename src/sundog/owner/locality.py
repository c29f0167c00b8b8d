"""Tasks go where their arguments are: which node has the most bytes of a task's arguments.

Owns that choice; the node heeds it where there is room (`state/placement.py`). Refuses tasks with a strategy of their
own. Runs under the owner's lock, and only in sessions of several nodes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sundog.owner import context
from sundog.plain import replaced
from sundog.state.lease_spec import LeaseSpec
from sundog.store import places

if TYPE_CHECKING:
    from sundog.owner.interfaces import Dispatching
    from sundog.owner.rows import Shape, Task
    from sundog.store.segments import Segments
    from sundog.wire.lanes import WireValue


def near(
    segments: Segments, dispatch: Dispatching, task: Task, values: list[tuple[bytes, WireValue]]
) -> Shape:
    """The shape of a task that prefers the node with the most bytes of these arguments."""
    shape = task.fn.shape
    assert shape is not None
    if shape.spec.strategy != ("default",):
        return shape
    held: dict[str, int] = {}
    for _, value in values:
        location = value[2]
        if location is not None:
            size_bytes = sum([length for _, length in location[2]])
            for tag in _nodes_with(segments, location[0]):
                held[tag] = held.get(tag, 0) + size_bytes
    if not held:
        return shape
    wanted = prefix(max(held, key=lambda tag: held[tag]))
    if wanted == shape.spec.prefer:
        return shape
    return dispatch.shape_for(preferring(shape.spec, wanted), shape.setup)


def _nodes_with(segments: Segments, name: str) -> set[str]:
    """Tags of the nodes that have a copy of a segment."""
    found = {places.tag_of(name)}
    for root in places.other_roots(segments.base_root, ""):
        if os.path.exists(f"{root}/{name}"):
            found.add(places.base_of(root)[1])
    return found


def preferring(spec: LeaseSpec, node: bytes) -> LeaseSpec:
    """The same lease, on this node if there is room (the first bytes of its id)."""
    return replaced(spec, prefer=node)


def prefix(tag: str) -> bytes:
    """The beginning of a node's id, from the tag of its objects."""
    if tag:
        return bytes.fromhex(tag)
    head: bytes = context.facts.session.get("head_id") or context.facts.node_id
    return head[: places.TAG_DIGITS // 2]
