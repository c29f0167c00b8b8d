"""Where objects are and how large: `get_object_locations` and `get_local_object_locations`.

Owns the questions alone. A session has one node, so an object that is ready is on it. Runs in any process of a session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sundog import engines
from sundog.api import wait
from sundog.ids import owner_of
from sundog.owner import context
from sundog.refs import ObjectRef

if TYPE_CHECKING:
    from typing import TypedDict

    from sundog.owner.core import Owner
    from sundog.owner.rows import Value

    class ObjectLocation(TypedDict):
        """Where an object is."""

        node_ids: list[str]
        object_size: int | None
        did_spill: bool


_ASK_OWNER_S = 1.0


def get_object_locations(
    obj_refs: Sequence[ObjectRef[object]], timeout_ms: int = -1
) -> dict[ObjectRef[object], ObjectLocation]:
    """Nodes that have each object, its size in bytes, and whether it was spilled.

    Args:
        obj_refs: Refs to ask about.
        timeout_ms: How long the owners of borrowed objects have for an answer; -1: a second.

    Returns:
        For each ref `node_ids` (empty while it is not ready), `object_size` (None then) and `did_spill`.

    Raises:
        RuntimeError: there is no session.
    """
    owner = _owner()
    borrowed = [
        ref
        for ref in obj_refs
        if owner.objects.value(ref.binary()) is None and owner_of(ref.binary()) != owner.me
    ]
    if borrowed:
        wait(
            borrowed, num_returns=len(borrowed), timeout=_ASK_OWNER_S if timeout_ms < 0 else timeout_ms / 1000
        )
    return get_local_object_locations(obj_refs)


def get_local_object_locations(
    obj_refs: Sequence[ObjectRef[object]],
) -> dict[ObjectRef[object], ObjectLocation]:
    """The same, as far as this process knows without a question to another process.

    Raises:
        RuntimeError: there is no session.
    """
    owner = _owner()
    return {ref: _located(owner.objects.value(ref.binary())) for ref in obj_refs}


def _owner() -> Owner:
    engine = engines.current()
    if engine is None:
        raise RuntimeError("There is no session, so objects have no locations: call sundog.init() first.")
    return engine.owner


def _located(value: Value | None) -> ObjectLocation:
    if value is None:
        return {"node_ids": [], "object_size": None, "did_spill": False}
    _, meta, location, _, _ = value
    size = len(meta) + (location[1] if location is not None else 0)
    return {"node_ids": [context.facts.node_id.hex()], "object_size": size, "did_spill": False}
