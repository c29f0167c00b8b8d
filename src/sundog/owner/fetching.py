"""`wait(fetch_local=True)` in sessions of several nodes: an object is ready when this node has a copy of it.

Owns the fetching of copies that nobody reads yet. Runs in the thread that waits, without the owner's lock; sessions of
one node never come here.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sundog.store import copies

if TYPE_CHECKING:
    from sundog.owner.core import Owner

# this node has no room for the object: try again after this time, when another object may be free
_AGAIN_S = 0.02


def wait_local(owner: Owner, oids: list[bytes], count: int, timeout_s: float | None) -> list[bytes]:
    """The ids that are ready on this node (at most `count`, in the order given), after at most `timeout_s`."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    here: set[bytes] = set()
    while True:
        rest = [oid for oid in oids if oid not in here]
        away = [oid for oid in rest if oid in owner.ready and not _fetch(owner, oid)]
        here.update(oid for oid in rest if oid in owner.ready and oid not in away)
        left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        if len(here) >= count or left_s == 0.0:
            return [oid for oid in oids if oid in here][:count]
        unready = [oid for oid in rest if oid not in owner.ready]
        need = min(count - len(here), len(unready))
        if away or not unready:
            # reads the sockets: the message about free room is handled in this call
            owner.getting.wait(oids, 1, 0)
            time.sleep(_AGAIN_S if left_s is None else min(_AGAIN_S, left_s))
        else:
            owner.getting.wait(unready, need, left_s)


def _fetch(owner: Owner, oid: bytes) -> bool:
    """Have a copy of a ready object on this node; whether there is one, or nothing to fetch."""
    value = owner.objects.value(oid)
    if value is None or value[2] is None:
        return True
    return copies.bring_here(owner.segments, value[2][0])
