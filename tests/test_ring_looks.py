"""A cheap look at a ring (src/sundog/ring_looks.py): it agrees with the reader of rings, wherever that stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog import events
from sundog.ring_looks import has_news


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / f"{'ab' * 8}.ring")


def write(ring: events.Ring, count: int = 1) -> None:
    for _ in range(count):
        ring.write(events.TASK, bytes(16), ring.name("f"), 0.0, 1.0, 2.0)


@pytest.mark.parametrize("capacity", [8, 64])
@pytest.mark.parametrize("hole", [None, 1, 2, 5])
def test_a_look_finds_news_exactly_when_the_reader_does(path: str, capacity: int, hole: int | None) -> None:
    """However often the ring went round since, and though a killed thread left a slot as it was."""
    ring = events.Ring(path, capacity, "worker")
    slot_end = events.HEADER_BYTES + events.EVENT_BYTES * (hole or 1) - 8
    for written in range(1, 5 * capacity):
        write(ring)
        if hole is not None and written > 2 * capacity and (written - hole) % capacity == 0:
            ring.map[slot_end : slot_end + 8] = (written - capacity).to_bytes(8, "little")
        for after in {0, 1, written // 2, max(0, written - capacity), max(0, written - 3), written}:
            slots = events.read_slots(path, after)
            assert slots is not None
            assert has_news(path, after) == bool(slots.data), (written, after)
    ring.close()


def test_a_ring_without_events_has_no_news_and_a_first_event_is_news(path: str) -> None:
    assert not has_news(path, 0)
    ring = events.Ring(path, 65_536, "worker")
    assert not has_news(path, 0)
    write(ring)
    assert has_news(path, 0)
    assert not has_news(path, 1)
    ring.close()


def test_news_behind_a_slot_that_stays_empty_is_found(path: str) -> None:
    ring = events.Ring(path, 64, "worker")
    write(ring, 3)
    ring.map[
        events.HEADER_BYTES + 2 * events.EVENT_BYTES - 8 : events.HEADER_BYTES + 2 * events.EVENT_BYTES
    ] = bytes(8)
    assert has_news(path, 1)
    ring.close()


def test_a_file_that_is_no_ring_has_no_news(tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.write_bytes(b"x" * 10)
    assert not has_news(str(short), 0)
