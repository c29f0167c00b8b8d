"""A ring that keeps nothing takes all that a ring takes."""

from __future__ import annotations

from sundog import events
from sundog.no_ring import NoRing


def test_it_has_every_verb_of_a_ring_that_others_use() -> None:
    verbs = {name for name in vars(events.Ring) if not name.startswith("_")}
    assert verbs <= {name for name in dir(NoRing) if not name.startswith("_")}


def test_an_event_that_is_written_without_a_call_finds_room() -> None:
    ring = NoRing()
    for _ in range(3):
        slot = events.HEADER_BYTES + (ring.next() % ring.capacity) * events.EVENT_BYTES
        events.EVENT.pack_into(ring.map, slot, bytes(16), 0.0, 0.0, 0.0, 0, 0, 0, 0, 0.0, 0.0, 1)
