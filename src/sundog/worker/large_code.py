"""Functions and classes that captured a large value: how long they take to load is noted, for `sundog doctor`, and
how many modules were imported for it: the process would have imported these with another function too.

Owns the note. Runs in workers, on the thread that loads.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeVar

from sundog.events import NoRing, Ring

_LARGE_BYTES = 1 << 18  # as for the note of its pickling (sundog.owner.tasks)
_time = time.time
T = TypeVar("T")


def load(blob: bytes, name: str, ring: Ring | NoRing, unpickled: Callable[[bytes], T]) -> T:
    """Unpickle a function or class; if it is large, note how long that took."""
    if len(blob) < _LARGE_BYTES:
        return unpickled(blob)
    known, begun = len(sys.modules), _time()
    loaded = unpickled(blob)
    seconds, imported = _time() - begun, len(sys.modules) - known
    ring.note("loaded", name=name, bytes=len(blob), seconds=seconds, at_s=begun, imported=imported)
    return loaded
