"""Objects that the program frees itself, whoever still has a ref to them: `sundog.internal.free`, carried out.

Owns the way from that call to an `ObjectFreedError` in every process that has a ref. Refuses what counting references
does: nothing here looks whether some process needs the object. Runs under the owner's lock, in drivers and workers.

::

    free() by the owner ─────────────────────┐
    free() by a borrower ── "free" ──► owner ─┼─► the value becomes the error; its segment or spilled copy goes;
                                              │   lineage gives it up; waiting threads wake
                                              ├─► "freed" to every process with a channel to us: the same there
                                              └─► lanes: our workers end their mappings of the segment

A process that looks at mapped bytes keeps them: the file loses its name, its pages stay until the last view of
them is gone. So the file must not be written again, and never reaches a free list (`Segments.abandon`).

An object that is not ready becomes the error at once. Its task goes on, and what it returns is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sundog.ids import PROCESS_BYTES, task_of
from sundog.owner import losses
from sundog.owner.lanes import Lane
from sundog.owner.rows import Value
from sundog.wire.lanes import ERROR
from sundog.wire.peers import FreedBy, FreeObjects, ObjectsFreed

if TYPE_CHECKING:
    from sundog.owner.core import Owner

_MARK = b"ObjectFreedError"


class Frees:
    """What the program freed of one owner's objects, and of those that it borrows."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner

    def free(self, oids: Iterable[bytes], by: FreedBy) -> None:
        """Free objects, ours or borrowed. Not locked."""
        owner = self.owner
        owners: dict[bytes, list[bytes]] = {}
        for oid in dict.fromkeys(oids):
            owners.setdefault(oid[:PROCESS_BYTES], []).append(oid)
        with owner.lock:
            owner.check_open()
            owner.objects.drain()
            for process, its in owners.items():
                if process == owner.me:
                    self._free_owned(its, by)
                    continue
                # What is not here is asked for, and that question comes to its owner after this message.
                self._freed_elsewhere(its, by)
                owner.peers.send(process, FreeObjects(its, by))
            owner.dispatch.dispatch_all()
            owner.actors.dispatch_all()
        owner.reactor.wake()  # another thread may wait for one of them in `poll`, where nothing will come

    def has(self, oid: bytes) -> bool:
        """Whether a value that is here was freed."""
        value = self.owner.objects.value(oid)
        return value is not None and _is_freed(value)

    # ------------------------------------------------------------------ both sides (locked)
    def asked_to_free(self, _process: bytes, message: FreeObjects) -> None:
        """A borrower frees objects of ours."""
        self._free_owned(message.oids, message.by)

    def heard_freed(self, _process: bytes, message: ObjectsFreed) -> None:
        """Another process freed objects of its own."""
        self._freed_elsewhere(message.oids, message.by)

    def _free_owned(self, oids: list[bytes], by: FreedBy) -> None:
        owner = self.owner
        freed, segments = [], []
        for oid in oids:
            value = owner.objects.value(oid)
            if value is None:
                if owner.lineage.can_recover(oid):
                    pass  # lost, and perhaps on its way again: what comes is not wanted any more
                elif task_of(oid) in owner.table:
                    owner.freed_early.add(oid)
                else:
                    continue  # no counted ref is left to it
            elif _is_freed(value):
                continue
            freed.append(oid)
            owner.lineage.give_up(oid)
            segments += self._replace(oid, value, by)
        if freed:
            owner.peers.send_all(ObjectsFreed(freed, by))
        self._unmap(segments)
        owner.objects.carry_out()

    def _freed_elsewhere(self, oids: list[bytes], by: FreedBy) -> None:
        """Borrowed objects were freed: so are their values here."""
        owner = self.owner
        segments = []
        for oid in oids:
            value = owner.objects.value(oid)
            if value is not None and not _is_freed(value):
                segments += self._replace(oid, value, by)
        self._unmap(segments)
        owner.objects.carry_out()

    def _replace(self, oid: bytes, value: Value | None, by: FreedBy) -> list[str]:
        """Put the error where the value was, or will not be; returns the segment that held it."""
        owner = self.owner
        # Not by way of `store`, which would drop it as the result that nobody wants.
        owner.ready[oid] = owner.objects.error_value(losses.freed(oid, by))
        owner.objects.announce(oid)
        if value is None:
            return []
        if value[3]:
            owner.nested.forget(oid)
            for inner in value[3]:
                owner.refs.drop(inner)
        if value[2] is None:
            return []
        name: str = value[2][0]
        owner.segments.abandon(name, remove=oid[:PROCESS_BYTES] == owner.me)
        return [name]

    def _unmap(self, names: list[str]) -> None:
        """Have our workers, one of which may have made a segment, end their mappings of it."""
        if not names:
            return
        owner = self.owner
        lanes: list[Lane] = [*owner.dispatch.lanes.values(), *owner.actors.links.values()]
        for lane in lanes:
            if lane.retired or lane.sock is None:
                continue
            lane.freed.extend((name, 0) for name in names)
            if not lane.inflight:
                lane.send_freed()  # no packet is due there that could take it along


def _is_freed(value: Value) -> bool:
    return value[0] == ERROR and _MARK in value[1]
