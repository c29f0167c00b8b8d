"""Waits, objects and bytes in a ring: what is written is read back exactly, also after a kill."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog import event_facts, events

TASK, OBJECT = bytes(range(1, 17)), b"\xef" * 16
LOCATION = ("00ff-11ee-42", 1 << 20, [(0, 30_000_001), (30_000_064, 7)])


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / f"{'ab' * 8}.ring")


def read(path: str) -> list[events.RawEvent]:
    slots = events.read_slots(path)
    assert slots is not None
    return list(slots.raw())


def test_a_wait_is_seen_while_it_lasts_and_is_an_event_when_it_has_ended(path: str) -> None:
    ring = events.Ring(path, 64, "worker")
    assert event_facts.blocked(path) is None
    event_facts.block(ring, events.GET, OBJECT, 7, TASK, 5.0)
    assert event_facts.blocked(path) == event_facts.UnendedWait(5.0, OBJECT, TASK, events.GET, 7)
    assert read(path) == []
    event_facts.unblock(ring, events.GET, OBJECT, 7, TASK, 5.0, 6.5)
    assert event_facts.blocked(path) is None
    slots = events.read_slots(path)
    assert slots is not None
    get, waited = slots.raw()
    assert (get[0], get[2], get[3], get[4], get[5], get[8]) == (OBJECT, 5.0, 6.5, 7, events.GET, 1)
    assert (waited[0], waited[2], waited[3], waited[5], waited[7]) == (
        OBJECT,
        5.0,
        6.5,
        events.WAITED,
        events.GET,
    )
    assert event_facts.waiting_task(slots.data[events.EVENT_BYTES :]) == TASK
    ring.close()


@pytest.mark.parametrize("task", [TASK, b""])
def test_the_short_way_to_end_a_get_of_one_object_writes_what_the_long_way_does(
    tmp_path: Path, task: bytes
) -> None:
    written = []
    for number, end in enumerate((event_facts.unblock_one, None)):
        path = str(tmp_path / f"{number:02}{'ab' * 7}.ring")
        ring = events.Ring(path, 64, "worker")
        for at, until in ((5.0, 6.5), (7.0, 6.0)):  # also when the clock was set back meanwhile
            event_facts.block(ring, events.GET, OBJECT, 7, task, at)
            if end is not None:
                end(ring, OBJECT, 7, task, at, until)
            else:
                event_facts.unblock(ring, events.GET, OBJECT, 7, task, at, until)
            assert event_facts.blocked(path) is None
        written.append(read(path))
        ring.close()
    assert written[0] == written[1]
    assert len(written[0]) == (4 if task else 2)


def test_a_ring_that_is_full_of_short_gets_grows(path: str) -> None:
    ring = events.Ring(path, 1 << 16, "driver")
    for _ in range(5_000):
        event_facts.unblock_one(ring, OBJECT, 7, b"", 5.0, 6.0)
    assert len(read(path)) == 5_000
    ring.close()
    event_facts.unblock_one(
        ring, OBJECT, 7, b"", 5.0, 6.0
    )  # a handler of a signal ended the session meanwhile


def test_a_driver_waits_for_no_task_and_a_clock_that_is_set_back_makes_no_broken_event(path: str) -> None:
    ring = events.Ring(path, 64, "driver")
    event_facts.block(ring, events.WAIT, OBJECT, 1, b"", 5.0)
    waits = event_facts.blocked(path)
    assert waits is not None
    assert waits.task_id == b""
    event_facts.unblock(ring, events.WAIT, OBJECT, 1, b"", 5.0, 4.0, bytes(8) + b"\7" + bytes(11), 3, 2)
    [fields] = read(path)
    assert (fields[1], fields[5], fields[7], fields[8]) == (7.0, events.WAIT, 2, 3.0)
    ring.close()


def test_waits_find_room_when_the_ring_has_to_grow(path: str) -> None:
    ring = events.Ring(path, 1000, "worker")
    for number in range(200):
        event_facts.unblock(ring, events.GET, OBJECT, 1, TASK, float(number), float(number))
    assert [fields[2] for fields in read(path) if fields[5] == events.WAITED] == list(range(200))
    ring.close()


def test_a_wait_in_which_the_session_ended_is_noted_nowhere_and_raises_nothing(path: str) -> None:
    ring = events.Ring(path, 64, "worker")
    event_facts.block(ring, events.GET, bytes(16), 0, b"t" * 16, 1.0)
    ring.close()
    event_facts.unblock(ring, events.GET, bytes(16), 0, b"t" * 16, 1.0, 2.0)
    event_facts.block(ring, events.GET, bytes(16), 0, b"t" * 16, 3.0)
    assert ring.is_closed


def test_sizes_are_exact_however_large(path: str) -> None:
    ring = events.Ring(path, 64, "worker")
    event_facts.made(ring, events.RESULT, TASK, 3, LOCATION, 1.0, 2.0, 1)
    args = ("obj", OBJECT, b"m" * 5, LOCATION)
    values = [
        (OBJECT, (0, b"m" * 2, ("x-y-1", 1, [(0, (5 << 30) + 3)]), None)),
        (OBJECT, (0, b"small", None, None)),
    ]
    event_facts.moved(ring, TASK, 1, args, values, 2_000_000_001, 3.0)
    result, bytes_ = read(path)
    assert (result[1], result[4], result[7], result[9]) == (30_000_008, 3, 1, 42)
    assert event_facts.bytes_of(bytes_) == (30_000_013, (5 << 30) + 10, 2_000_000_001)
    ring.close()


def test_little_is_not_worth_an_event(path: str) -> None:
    ring = events.Ring(path, 64, "worker")
    event_facts.moved(ring, TASK, 0, b"a" * 500, None, 500, 1.0)
    event_facts.moved(ring, TASK, 0, None, None, 0, 1.0)
    assert read(path) == []
    event_facts.moved(ring, TASK, 0, b"a" * 524, None, 500, 1.0)
    assert len(read(path)) == 1
    ring.close()


def test_without_recording_nothing_is_kept() -> None:
    ring = events.NoRing()
    event_facts.block(ring, events.GET, OBJECT, 0, TASK, 1.0)
    event_facts.unblock(ring, events.GET, OBJECT, 0, TASK, 1.0, 2.0)
    event_facts.made(ring, events.PUT, OBJECT, 0, LOCATION, 1.0, 2.0)
    event_facts.moved(ring, TASK, 0, b"a" * 5000, None, 0, 1.0)


def test_what_is_no_ring_has_no_wait(tmp_path: Path) -> None:
    assert event_facts.blocked(str(tmp_path / "none")) is None
    (tmp_path / "short").write_bytes(b"SUNDOG")
    assert event_facts.blocked(str(tmp_path / "short")) is None


@pytest.mark.parametrize("name", ["00ff-11ee-42", "disk-00ff-11ee-42", "00ff-11ee-42@0a0b0c0d"])
def test_a_segments_number_is_read_from_its_name(name: str) -> None:
    assert event_facts.segment_number(name) == 42
