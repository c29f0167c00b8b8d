"""Totals per function of a running session, brought up to date look by look, without an index.

::

    records/*.seg ──new blocks──┐
    rings/*.ring ──new events───┴─► each event once, by its process and number ──► Ledger

Owns how far each process's events have been counted. For programs that look every second: a look reads what is new
since the one before, 0.6 to 1.5 µs an event. The complete, lasting answer is `observe/index.py`. Reads files only; runs
in the process of the command that watches, on one thread.
"""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING

from sundog import event_names, events
from sundog.observe import segments
from sundog.observe.ledger import Ledger
from sundog.plain import field, plain

if TYPE_CHECKING:
    from sundog.observe.usage import FunctionFigures


@plain()
class _Counted:
    """How far one process's events are counted, and its names."""

    after: int = 0
    hole: int = 0  # an event that was begun and not written when the last look came by
    names: dict[int, tuple[str, str]] = field(default_factory=dict)
    names_at: int = 0


class LiveTotals:
    """The totals of one session.

    Args:
        session_path: Its folder.
        whole: From the session's beginning on; otherwise about from now on, which is cheaper.
    """

    def __init__(self, session_path: str, *, whole: bool) -> None:
        self.path = session_path
        self._ledger = Ledger()
        self._counted: dict[bytes, _Counted] = {}
        self._follower = segments.SegmentFollower(session_path, whole=whole)

    def read(self) -> dict[str, FunctionFigures]:
        """Figures of every function by name, up to now."""
        rings = glob.glob(f"{glob.escape(self.path)}/rings/*.ring")
        for ring in rings:
            self._read_ring(ring)
        # After the rings: one that was removed meanwhile is in the segments by now.
        self._read_segments()
        return self._ledger.totals.functions()

    def _of(self, process_id: bytes) -> _Counted:
        return self._counted.setdefault(process_id, _Counted())

    def _read_ring(self, ring: str) -> None:
        process_id = bytes.fromhex(os.path.basename(ring).partition(".")[0])
        counted = self._of(process_id)
        slots = events.read_slots(ring, counted.after)
        if slots is None or not slots.data:
            return
        whole = _before_hole(slots, counted)
        more, counted.names_at = event_names.read_more_names(ring, counted.names_at)
        counted.names.update(more)
        self._count(process_id, counted, events.Slots(slots.info, slots.first, whole))

    def _read_segments(self) -> None:
        fresh = list(self._follower.new_blocks())
        for segment, block in fresh:
            if block.kind == segments.NAMES:
                names = event_names.parse_names(segments.payload(segment, block))
                self._of(block.process_id).names.update(names)
        for segment, block in fresh:
            counted = self._of(block.process_id)
            skip = max(0, counted.after + 1 - block.first)
            if block.kind != segments.EVENTS or skip * events.EVENT_BYTES >= block.size:
                continue
            data = segments.payload(segment, block)[skip * events.EVENT_BYTES :]
            info = events.RingInfo(block.pid, block.role, 0, 0)
            self._count(block.process_id, counted, events.Slots(info, block.first + skip, data))

    def _count(self, process_id: bytes, counted: _Counted, slots: events.Slots) -> None:
        if slots.data:
            names = counted.names
            self._ledger.count(process_id.hex(), lambda number: names.get(number, ("?", "")), slots)
            counted.after = slots.first + len(slots.data) // events.EVENT_BYTES - 1


def _before_hole(slots: events.Slots, counted: _Counted) -> bytes:
    """The events up to one that is being written: the next look finds it, or passes over it."""
    numbers = memoryview(slots.data).cast("Q")[7::8].tolist()
    expected = slots.first
    for index, number in enumerate(numbers):
        if number != expected + index:
            if counted.hole == expected + index or number > expected + index:
                return slots.data
            counted.hole = expected + index
            return slots.data[: index * events.EVENT_BYTES]
    return slots.data
