"""Objects that the program frees itself, though processes may have refs to them: `sundog.internal.free`, carried out.

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
from sundog.owner.basics import Basics
from sundog.owner.lanes import Lane
from sundog.owner.lineage import Recovery
from sundog.owner.peers import Peers
from sundog.owner.rows import Value
from sundog.wire.peers import FreedBy, FreeObjects, ObjectsFreed

if TYPE_CHECKING:
    from sundog.owner.interfaces import Calling, Dispatching


class Frees:
    """The objects that the program freed: of this owner, and borrowed ones."""

    dispatch: Dispatching  # set by the owner, which builds it later
    actors: Calling

    def __init__(self, basics: Basics, peers: Peers, lineage: Recovery) -> None:
        self.basics = basics
        self.peers = peers
        self.lineage = lineage

    def free(self, oids: Iterable[bytes], by: FreedBy) -> None:
        """Free objects, ours or borrowed. Not locked."""
        basics = self.basics
        owners: dict[bytes, list[bytes]] = {}
        for oid in dict.fromkeys(oids):
            owners.setdefault(oid[:PROCESS_BYTES], []).append(oid)
        with basics.lock:
            basics.check_open()
            basics.objects.drain()
            for process, its in owners.items():
                if process == basics.me:
                    self._free_owned(its, by)
                    continue
                # An object that is not in this process is requested from its owner, and the request arrives
                # after this message.
                self._freed_elsewhere(its, by)
                self.peers.send(process, FreeObjects(its, by))
            self.dispatch.dispatch_all()
            self.actors.dispatch_all()
        # another thread may wait in `poll` for one of these objects, which will not come
        basics.reactor.wake()

    # ------------------------------------------------------------------ both sides (locked)
    def asked_to_free(self, _process: bytes, message: FreeObjects) -> None:
        """A borrower frees objects that this process owns."""
        self._free_owned(message.oids, message.by)

    def heard_freed(self, _process: bytes, message: ObjectsFreed) -> None:
        """Another process freed objects that it owns."""
        self._freed_elsewhere(message.oids, message.by)

    def _free_owned(self, oids: list[bytes], by: FreedBy) -> None:
        basics = self.basics
        freed, segments = [], []
        for oid in oids:
            value = basics.objects.value(oid)
            if value is None:
                if self.lineage.can_recover(oid):
                    pass  # the object was lost and may be computed again: its new value is dropped
                elif task_of(oid) in basics.table:
                    basics.freed_early.add(oid)
                else:
                    continue  # the object has no counted ref
            elif losses.is_freed(value):
                continue
            freed.append(oid)
            self.lineage.give_up(oid)
            segments += self._replace(oid, value, by)
        if freed:
            self.peers.send_all(ObjectsFreed(freed, by))
        self._unmap(segments)
        basics.objects.carry_out()

    def _freed_elsewhere(self, oids: list[bytes], by: FreedBy) -> None:
        """Borrowed objects were freed: so are their values here."""
        basics = self.basics
        segments = []
        for oid in oids:
            value = basics.objects.value(oid)
            if value is not None and not losses.is_freed(value):
                segments += self._replace(oid, value, by)
        self._unmap(segments)
        basics.objects.carry_out()

    def _replace(self, oid: bytes, value: Value | None, by: FreedBy) -> list[str]:
        """Put the error in the place of the present or future value; returns the segment that held the value."""
        basics = self.basics
        # Not through `store`, which would drop the value as an unneeded result.
        basics.ready[oid] = basics.objects.error_value(losses.freed(oid, by))
        basics.objects.announce(oid)
        if value is None:
            return []
        if value[3]:
            basics.nested.forget(oid)
            for inner in value[3]:
                basics.refs.drop(inner)
        if value[2] is None:
            return []
        name: str = value[2][0]
        basics.segments.abandon(name, remove=oid[:PROCESS_BYTES] == basics.me)
        return [name]

    def _unmap(self, names: list[str]) -> None:
        """Have the workers, one of which may have made the segment, end their mappings of it."""
        if not names:
            return
        lanes: list[Lane] = [*self.dispatch.lanes.values(), *self.actors.links.values()]
        for lane in lanes:
            if lane.retired or lane.sock is None:
                continue
            lane.freed.extend((name, 0) for name in names)
            if not lane.inflight:
                lane.send_freed()  # no packet for this worker is due that could carry the message
