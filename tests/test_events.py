"""The flight recorder: what is written is read back, in order, once round the ring and after a kill."""

from __future__ import annotations

import errno
import itertools
import os
import signal
from pathlib import Path

import pytest

from sundog import event_facts, event_names, events

TASK_ID = bytes(range(16))


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / f"{'ab' * 8}.ring")


def write(ring: events.Ring, count: int, first: int = 0) -> None:
    number = ring.name("f", "code")
    for index in range(first, first + count):
        ring.write(events.TASK, TASK_ID, number, 0.0, float(index), float(index) + 1, 0, 3, 0.5, 2.0**20)


def starts(slots: events.Slots | None) -> list[int]:
    assert slots is not None
    return [int(fields[2]) for fields in slots.raw()]


def test_an_event_is_read_as_it_was_written(path: str) -> None:
    ring = events.Ring(path, 64, "worker")
    ring.write(events.CALL, TASK_ID, ring.name("A.m", "c0de"), 1.0, 2.0, 5.0, events.FAILED, 7, 1.5, 4096.0)
    read = events.read_ring(path)
    assert read is not None
    info, found = read
    assert (info.pid, info.role, info.written, info.dropped) == (os.getpid(), "worker", 1, 0)
    [event] = found
    assert (event.process_id, event.task_id, event.name, event.code) == (b"\xab" * 8, TASK_ID, "A.m", "c0de")
    assert (event.kind, event.failed, event.attempt, event.measured) == (events.CALL, True, 7, False)
    assert (event.submit_s, event.start_s, event.end_s) == (1.0, 2.0, 5.0)
    assert (event.cpu_s, event.own_bytes) == (1.5, 4096)
    ring.close()


@pytest.mark.parametrize("written", [0, 1, 63, 64, 65, 128, 200])
def test_the_newest_events_are_read_in_order_and_the_rest_is_counted(path: str, written: int) -> None:
    ring = events.Ring(path, 64, "worker")
    write(ring, written)
    slots = events.read_slots(path)
    assert slots is not None
    assert starts(slots) == list(range(max(0, written - 64), written))
    assert (slots.info.written, slots.info.dropped) == (written, max(0, written - 64))
    ring.close()


def test_reading_on_gives_each_event_once_whatever_the_steps(path: str) -> None:
    ring = events.Ring(path, 64, "worker")
    seen: list[int] = []
    after = written = 0
    for step in (1, 0, 7, 63, 64, 2, 30, 5):
        write(ring, step, written)
        written += step
        for _ in range(3):
            slots = events.read_slots(path, after, most=40)
            seen += starts(slots)
            assert slots is not None
            after = slots.first - 1 + len(slots.data) // events.EVENT_BYTES
    assert seen == list(range(written))
    ring.close()


@pytest.mark.parametrize("capacity", [8, 64])
@pytest.mark.parametrize("hole", [None, 1, 2, 5])
def test_how_far_a_ring_is_written_is_found_from_anywhere(path: str, capacity: int, hole: int | None) -> None:
    """However often it went round since the last look, and though a killed thread left a slot as it was."""
    ring = events.Ring(path, capacity, "worker")
    slot_end = events.HEADER_BYTES + events.EVENT_BYTES * (hole or 1) - 8
    for written in range(1, 5 * capacity):
        write(ring, 1, first=written - 1)
        if hole is not None and written > 2 * capacity and (written - hole) % capacity == 0:
            ring.map[slot_end : slot_end + 8] = (written - capacity).to_bytes(8, "little")
            continue  # the newest is missing
        for after in {0, 1, written // 2, max(0, written - capacity), max(0, written - 3), written}:
            slots = events.read_slots(path, after)
            assert slots is not None
            assert slots.info.written == written, (written, after)
    ring.close()


def test_an_event_that_was_not_finished_is_left_out(path: str) -> None:
    ring = events.Ring(path, 64, "worker")
    write(ring, 3)
    with open(path, "r+b") as file:  # the number of the second is still missing, as in the midst of a write
        file.seek(events.HEADER_BYTES + 2 * events.EVENT_BYTES - 8)
        file.write(bytes(8))
    assert starts(events.read_slots(path)) == [0, 2]
    ring.close()


def test_a_file_that_is_no_ring_is_none(tmp_path: Path) -> None:
    other = tmp_path / "00.ring"
    other.write_bytes(b"x" * 10_000)
    missing = str(tmp_path / "missing.ring")
    for path in (str(other), missing):
        assert events.read_slots(path) is None
        assert events.read_ring(path) is None
        assert events.started_last(path) is None
        assert events.last_sample(path) is None


def test_the_last_sample_is_the_newest(path: str) -> None:
    ring = events.Ring(path, 64, "worker")
    assert events.last_sample(path) is None
    for number in range(1, 6):
        ring.sample(TASK_ID, float(number), number << 20, f"train.py:{number} step")
        assert events.last_sample(path) == events.SampledLine(
            TASK_ID, float(number), number << 20, f"train.py:{number} step"
        )
    ring.close()


def test_a_sample_that_was_not_finished_leaves_the_one_before(path: str) -> None:
    ring = events.Ring(path, 64, "worker")
    ring.sample(TASK_ID, 1.0, 1, "a.py:1 f")
    ring.sample(TASK_ID, 2.0, 2, "a.py:2 f")
    with open(path, "r+b") as file:
        file.seek(256 + 8 + 16 + 8 + 8 + events.LINE_MAX_BYTES)  # the closing number of the newer slot
        file.write(bytes(8))
    sample = events.last_sample(path)
    assert sample is not None and sample.line == "a.py:1 f"
    ring.close()


def test_a_long_line_is_cut_and_stays_readable(path: str) -> None:
    ring = events.Ring(path, 64, "worker")
    ring.sample(TASK_ID, 1.0, 1, "ä" * 1000)
    sample = events.last_sample(path)
    assert sample is not None and sample.line == "ä" * (events.LINE_MAX_BYTES // 2)
    ring.close()


def test_what_a_killed_process_wrote_is_there(path: str) -> None:
    pid = os.fork()
    if pid == 0:
        ring = events.Ring(path, 64, "worker")
        write(ring, 5)
        ring.started(TASK_ID, 9.0, 0)
        ring.sample(TASK_ID, 10.0, 77, "a.py:3 f")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert starts(events.read_slots(path)) == [0, 1, 2, 3, 4]
    assert (events.started_last(path), events.started_last_at(path)) == (TASK_ID, 9.0)
    sample = events.last_sample(path)
    assert sample is not None and (sample.own_bytes, sample.line) == (77, "a.py:3 f")


def test_nothing_in_the_header_lies_over_something_else() -> None:
    parts = [(0, events._HEADER.size), (events._OUTER_AT, events._OUTER.size)]
    parts += [(at, events._SAMPLE.size) for at in events._SAMPLES_AT]
    parts += [(event_facts._BLOCKED_AT, event_facts._BLOCKED.size), (events.HEADER_BYTES, events.EVENT_BYTES)]
    parts.sort()
    assert all(at + size <= after for (at, size), (after, _) in itertools.pairwise(parts)), parts


def test_a_task_whose_child_runs_in_its_place_is_the_one_that_was_sent(path: str) -> None:
    assert events.sent_last(path) == (b"", 0.0)
    ring = events.Ring(path, 64, "worker")
    child = bytes(reversed(TASK_ID))
    assert events.sent_last(path) == (b"", 0.0)
    ring.started(TASK_ID, 9.0, 0)
    assert events.sent_last(path) == (TASK_ID, 9.0)
    ring.stands_still(TASK_ID, ring.started_at())
    ring.started(child, 10.0, 0)
    assert events.sent_last(path) == (TASK_ID, 9.0) and events.started_last(path) == child
    ring.started(TASK_ID, 9.0, 0)
    ring.stands_still(b"", 0.0)
    ring.started(child, 11.0, 0)
    assert events.sent_last(path) == (child, 11.0)
    ring.close()


def test_without_recording_nothing_is_kept() -> None:
    ring = events.NoRing()
    ring.write(events.TASK, TASK_ID, ring.name("f"), 0.0, 0.0, 0.0)
    ring.sample(TASK_ID, 0.0, 0, "")
    ring.started(TASK_ID, 1.0, 0)
    ring.stands_still(TASK_ID, 1.0)
    assert ring.started_at() == 0.0


def test_names_beyond_a_bound_are_told_together(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_NAMES_MAX", 3)
    ring = events.Ring(path, 64, "worker")
    numbers = [ring.name(f"task-{each}") for each in range(10)]
    assert numbers == [1, 2, 3, 4, 4, 4, 4, 4, 4, 4]
    assert [ring.name(f"task-{each}") for each in range(10)] == numbers
    assert [event_names.read_names(path)[number][0] for number in range(1, 5)] == [
        "task-0",
        "task-1",
        "task-2",
        "(others)",
    ]
    ring.close()


def test_names_can_be_read_on_from_where_the_last_look_ended(path: str) -> None:
    ring = events.Ring(path, 64, "worker")
    ring.name("one", "c0de")
    names, position = event_names.read_more_names(path, 0)
    assert names == {1: ("one", "c0de")}
    with open(path + ".names", "ab") as file:
        file.write(b"2\t'tw")
    assert event_names.read_more_names(path, position) == ({}, position)  # a line that is being written
    with open(path + ".names", "ab") as file:
        file.write("ö'\t\n".encode())
    assert event_names.read_more_names(path, position)[0] == {2: ("twö", "")}
    ring.close()


def _columns(path: str, after: int = 0) -> events.Columns | None:
    slots = events.read_slots(path, after)
    assert slots is not None
    return slots.columns()


def test_events_of_one_kind_are_the_same_read_by_columns(path: str) -> None:
    ring = events.Ring(path, 100, "worker")
    ring.write(events.PUT, TASK_ID, ring.name("put"), 0.0, 1.0, 2.0)
    name = ring.name("f")
    for number in range(150):
        flags = events.FAILED if number % 3 == 0 else events.MEASURED if number % 5 == 0 else 0
        ring.write(
            events.TASK, TASK_ID, name, 0.0, 1.0, 1.5 + number, flags, number % 4, number / 2, number * 1000.0
        )
    slots = events.read_slots(path)
    columns = _columns(path)
    assert slots is not None and columns is not None
    rows = list(slots.raw())
    assert len(rows) == 100
    one_by_one = events.Columns.of(rows)
    assert (columns.name, columns.kind) == (one_by_one.name, one_by_one.kind) == (name, events.TASK)
    assert columns.seconds == one_by_one.seconds
    assert tuple(columns.flags) == tuple(one_by_one.flags)
    assert tuple(columns.cpu_s) == tuple(one_by_one.cpu_s)
    assert tuple(columns.own_bytes) == tuple(one_by_one.own_bytes)


def test_columns_are_only_of_whole_events_of_one_kind_and_name(path: str) -> None:
    ring = events.Ring(path, 100, "worker")
    for _ in range(10):
        ring.write(events.TASK, TASK_ID, ring.name("f"), 0.0, 1.0, 2.0)
    assert _columns(path) is not None
    ring.write(events.TASK, TASK_ID, ring.name("g"), 0.0, 1.0, 2.0)
    assert _columns(path) is None
    assert _columns(path, after=10) is not None
    ring.write(events.CALL, TASK_ID, ring.name("g"), 0.0, 1.0, 2.0)
    assert _columns(path, after=10) is None
    ring.write(events.TASK, TASK_ID, ring.name("f"), 0.0, 2.0, 1.0)  # a clock that was set back
    assert _columns(path, after=12) is None
    ring.next()  # a slot that its writer, killed meanwhile, left empty
    ring.write(events.TASK, TASK_ID, ring.name("f"), 0.0, 1.0, 2.0)
    assert _columns(path, after=13) is None


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the disk has any."""
    has = [True]
    reserve = os.posix_fallocate
    write = os.write

    def reserve_if(fd: int, offset: int, length: int) -> None:
        if not has[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        reserve(fd, offset, length)

    def write_if(fd: int, data: bytes) -> int:
        if not has[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data)

    monkeypatch.setattr(os, "posix_fallocate", reserve_if)
    monkeypatch.setattr(os, "write", write_if)
    monkeypatch.setattr(events, "_ROOM_AGAIN_S", 0.005)
    return has


def mended(ring: events.Ring) -> None:
    """Wait until the ring has found room."""
    mender = ring._mender
    if mender is not None:
        mender.join(120)
        assert not mender.is_alive()


def test_a_ring_takes_room_on_the_disk_before_it_uses_it_and_little_at_first(path: str) -> None:
    ring = events.Ring(path, 65_536, "worker")
    assert os.stat(path).st_size == 4096
    write(ring, 1000)
    info = os.stat(path)
    assert 1000 * events.EVENT_BYTES <= info.st_size <= 4 * 1100 * events.EVENT_BYTES
    assert info.st_blocks * 512 >= info.st_size  # no holes: a write to one may end in SIGBUS
    write(ring, 70_000, 1000)
    assert os.stat(path).st_size == events.HEADER_BYTES + 65_536 * events.EVENT_BYTES
    slots = events.read_slots(path)
    assert starts(slots) == list(range(71_000 - 65_536, 71_000))
    ring.close()


def test_events_without_room_are_dropped_and_counted_and_later_ones_are_kept(
    path: str, room: list[bool]
) -> None:
    ring = events.Ring(path, 1000, "worker")
    first = (4096 - events.HEADER_BYTES) // events.EVENT_BYTES
    write(ring, first)
    room[0] = False
    write(ring, 100, first)
    slots = events.read_slots(path)
    assert slots is not None
    assert (slots.info.written, slots.info.dropped, slots.info.unwritten) == (first, 100, 100)
    room[0] = True
    mended(ring)
    write(ring, 50, 200)
    slots = events.read_slots(path)
    assert slots is not None
    assert starts(slots) == [*range(first), *range(200, 250)]
    assert (slots.info.written, slots.info.dropped) == (first + 50, 100)
    ring.close()


def test_a_ring_that_finds_no_room_at_all_is_made_when_there_is_some(path: str, room: list[bool]) -> None:
    room[0] = False
    ring = events.Ring(path, 64, "worker")
    ring.started(TASK_ID, 1.0, 0)
    write(ring, 3)
    assert events.read_slots(path) is None
    room[0] = True
    mended(ring)
    write(ring, 2, 10)
    read = events.read_ring(path)
    assert read is not None
    info, found = read
    assert (info.role, info.pid, info.dropped) == ("worker", os.getpid(), 3)
    assert [(event.name, event.start_s) for event in found] == [("f", 10.0), ("f", 11.0)]
    assert events.started_last(path) == TASK_ID
    ring.close()


def test_names_without_room_are_written_when_there_is_some(path: str, room: list[bool]) -> None:
    ring = events.Ring(path, 64, "worker")
    room[0] = False
    numbers = [ring.name("one", "a"), ring.name("two", "b")]
    assert event_names.read_names(path) == {}
    room[0] = True
    mended(ring)
    assert event_names.read_names(path) == dict(zip(numbers, [("one", "a"), ("two", "b")], strict=True))
    ring.close()


def test_notes_without_room_are_written_when_there_is_some_and_do_not_fill_the_memory(
    path: str, room: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_WAITING_MAX_BYTES", 2000)
    ring = events.Ring(path, 64, "worker")
    room[0] = False
    ring.name("one", "a")
    for number in range(1000):
        ring.note("error", task=number)
    assert list(event_names.read_notes(path)) == []
    room[0] = True
    mended(ring)
    ring.note("error", task="last")
    kept = [facts["task"] for _, facts in event_names.read_notes(path)]
    assert kept == [*range(len(kept) - 1), "last"] and 10 < len(kept) < 1000
    ring.close()


def test_what_is_noted_before_the_file_is_made_is_in_it(path: str) -> None:
    ring = events.Ring("", 64, "worker")
    for number in range(3):
        ring.note("error", task=number)
    ring.open(path, b"")
    assert [facts["task"] for _, facts in event_names.read_notes(path)] == [0, 1, 2]
    ring.close()
