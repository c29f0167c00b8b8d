"""Refs inside objects that are read again and again.

Reading an object of ten thousand refs makes ten thousand refs, whose births and deaths are counted: most of its time.
So the refs that its second reading makes are kept as long as the object's value is, and every later reading hands out
the same ones: a ref has no state of its own, and Python counts its holders. Once read is not kept, for then they would
only take memory.

Owns the kept refs. They are holds like any other ref: while the value is here it holds what is inside it anyway, and
when it goes they go with it, unless the user has one.

Runs in the driver and in every worker, on whichever thread reads; what is kept changes under the owner's lock.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import TYPE_CHECKING

from sundog.refs import ObjectRef
from sundog.serialize.pack import Buffers, unpack_with

if TYPE_CHECKING:
    from sundog.owner.rows import Stored, Value

_Kept = tuple[object, dict[bytes, ObjectRef[object]] | None]


class Nested:
    """The refs that one owner keeps for objects that contain many refs."""

    def __init__(
        self,
        ops: deque[bytes | tuple[bytes, ...]],
        lock: threading.RLock,
        ready: dict[bytes, Stored],
    ) -> None:
        self._ops = ops
        self._lock = lock
        self._ready = ready
        self.shed = False  # a value with kept refs was freed: the deaths of these refs are to be counted
        # Object id -> the ids in its value, and from the second read on their refs.
        self._kept: dict[bytes, _Kept] = {}

    def load(self, oid: bytes, found: Value, views: Buffers | None) -> object:
        """Unpickle a value with many refs inside. Not locked."""
        inner: list[bytes] = found[3]
        kept = self._kept.get(oid)
        if kept is None or kept[0] is not inner:  # the object has another value now: its copy was lost
            value = self._load_counted(found[1], views, inner, [])
            self._keep(oid, found, None)
            return value
        if kept[1] is None:
            made: list[ObjectRef[object]] = []
            value = self._load_counted(found[1], views, inner, made)
            self._keep(oid, found, {ref._id: ref for ref in made})
            return value
        # The pickle does not change, so every id that unpickling asks for was there at the last read.
        return unpack_with(found[1], views, kept[1].get)

    def _load_counted(
        self, meta: bytes, views: Buffers | None, inner: list[bytes], made: list[ObjectRef[object]]
    ) -> object:
        """Count the refs inside at once, before any of them can die; take back what was not rebuilt."""
        note = made.append

        def rebuild(oid: bytes, site: str | None = None) -> ObjectRef[object]:
            ref: ObjectRef[object] = ObjectRef(oid, site)
            note(ref)
            return ref

        self._ops.append(tuple(inner))
        try:
            value = unpack_with(meta, views, rebuild)
        except BaseException:
            self._take_back(inner, made)
            made.clear()  # a traceback would keep them alive
            raise
        if len(made) != len(inner):
            self._take_back(inner, made)
        return value

    def _take_back(self, inner: list[bytes], made: list[ObjectRef[object]]) -> None:
        self._ops.extend((Counter(inner) - Counter(ref._id for ref in made)).elements())

    def _keep(self, oid: bytes, found: Value, refs: dict[bytes, ObjectRef[object]] | None) -> None:
        with self._lock:
            # Otherwise the object was freed in the meantime, and this entry would never be removed.
            if self._ready.get(oid) is found:
                self._kept[oid] = found[3], refs

    def forget(self, oid: bytes) -> None:
        """Locked: the value of an object is gone from here."""
        kept = self._kept.pop(oid, None)
        if kept is not None and kept[1]:
            self.shed = True
