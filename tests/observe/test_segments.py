"""Segments: what is appended is read again, whole blocks alone, and the quota removes the oldest first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sundog.events import EVENT_BYTES
from sundog.observe import segments
from sundog.observe.segments import EVENTS, FACTS, NAMES, Writer, list_segments, payload, scan

NODE = b"n" * 16
PROCESS = b"p" * 8


def writer(tmp_path: Path, most: int = 100_000, age_s: float = 0.0) -> Writer:
    return Writer(str(tmp_path), NODE, most, age_s)


def events(count: int) -> bytes:
    return bytes(range(256))[:EVENT_BYTES] * count


def test_blocks_are_read_as_they_were_written(tmp_path: Path) -> None:
    out = writer(tmp_path)
    out.append(
        EVENTS, events(3), PROCESS, pid=7, role=segments.WORKER, job_id=b"j" * 4, first=42, unwritten=5
    )
    out.append(NAMES, b"names", PROCESS, pid=7, role=segments.DRIVER, actor_id=b"a" * 16)
    out.close()
    (segment,) = list_segments(str(tmp_path))
    one, two = scan(segment)
    assert (one.kind, one.process_id, one.pid, one.role) == (EVENTS, PROCESS, 7, segments.WORKER)
    assert (one.job_id, one.actor_id, one.first, one.unwritten, one.slots) == (b"j" * 4, b"", 42, 5, 3)
    assert (two.kind, two.role, two.actor_id, two.size) == (NAMES, segments.DRIVER, b"a" * 16, 5)
    assert payload(segment, one) == events(3) and payload(segment, two) == b"names"


def test_a_follower_gives_each_block_once_across_segments(tmp_path: Path) -> None:
    out = writer(tmp_path, most=8)  # 64 events fill a segment
    out.append(EVENTS, events(60), PROCESS)
    whole, late = (
        segments.SegmentFollower(str(tmp_path)),
        segments.SegmentFollower(str(tmp_path), whole=False),
    )
    assert [block.size for _, block in whole.new_blocks()] == [60 * EVENT_BYTES]
    out.append(FACTS, b"second" * EVENT_BYTES, PROCESS)
    out.append(FACTS, b"third", PROCESS)
    out.close()

    assert len(list_segments(str(tmp_path))) == 2
    for follower in (whole, late):
        told = [payload(*each) for each in follower.new_blocks()]
        assert told == [b"second" * EVENT_BYTES, b"third"]
        assert list(follower.new_blocks()) == []


def test_a_scan_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    out = writer(tmp_path)
    out.append(FACTS, b"first", PROCESS)
    (segment,) = list_segments(str(tmp_path))
    (first,) = scan(segment)
    out.append(FACTS, b"second", PROCESS)
    out.close()
    (second,) = scan(segment, segments.after(first))
    assert payload(segment, second) == b"second"


def test_a_block_that_is_cut_off_is_not_read(tmp_path: Path) -> None:
    out = writer(tmp_path)
    out.append(FACTS, b"whole", PROCESS)
    out.append(FACTS, b"x" * 200, PROCESS)
    out.close()
    (segment,) = list_segments(str(tmp_path))
    os.truncate(segment.path, os.path.getsize(segment.path) - 128)
    assert [payload(segment, each) for each in scan(segment)] == [b"whole"]


def test_files_that_are_no_segments_are_left_out(tmp_path: Path) -> None:
    out = writer(tmp_path)
    out.append(FACTS, b"whole", PROCESS)
    out.close()
    folder = tmp_path / segments.FOLDER
    (folder / "00000002.seg").write_bytes(b"short")
    (folder / "00000003.seg").write_bytes(b"X" * 64)
    (folder / "notes.seg").write_bytes(b"X" * 64)
    assert [each.number for each in list_segments(str(tmp_path))] == [1]


def test_a_session_without_records_has_no_segments_and_a_removed_one_no_blocks(tmp_path: Path) -> None:
    assert list_segments(str(tmp_path)) == []
    out = writer(tmp_path)
    out.append(FACTS, b"whole", PROCESS)
    out.close()
    (segment,) = list_segments(str(tmp_path))
    (block,) = scan(segment)
    os.unlink(segment.path)
    assert list(scan(segment)) == [] and payload(segment, block) == b""


def test_a_full_segment_is_followed_by_one_that_knows_what_came_before(tmp_path: Path) -> None:
    out = writer(tmp_path, most=800)
    for _ in range(3):
        out.append(EVENTS, events(100), PROCESS)
    out.close()
    assert [each.before for each in list_segments(str(tmp_path))] == [0, 100, 200]


def test_the_oldest_segments_beyond_the_quota_are_surplus_and_never_the_last(tmp_path: Path) -> None:
    out = writer(tmp_path, most=800)
    for _ in range(12):
        out.append(EVENTS, events(100), PROCESS)
    surplus = out.surplus()
    assert surplus == [segments.path_of(str(tmp_path), number) for number in range(1, len(surplus) + 1)]
    kept = 12 - len(surplus)
    assert 100 * (kept - 1) < 800 <= 100 * (kept + 1)
    for path in surplus:
        os.unlink(path)
        out.removed(path)
    assert out.surplus() == []
    out.close()


def test_segments_get_too_old(tmp_path: Path) -> None:
    out = writer(tmp_path, most=800, age_s=1e-9)
    out.append(EVENTS, events(100), PROCESS)
    assert out.surplus() == []
    out.append(EVENTS, events(100), PROCESS)
    assert out.surplus() == [segments.path_of(str(tmp_path), 1)]
    out.close()


def test_a_removed_folder_is_an_error_first_and_made_anew_then(tmp_path: Path) -> None:
    out = writer(tmp_path / "gone")
    with pytest.raises(FileNotFoundError):
        out.append(FACTS, b"lost", PROCESS)
    (tmp_path / "gone").mkdir()
    out.anew()
    out.append(FACTS, b"kept", PROCESS)
    out.close()
    (segment,) = list_segments(str(tmp_path / "gone"))
    assert [payload(segment, each) for each in scan(segment)] == [b"kept"]


def test_a_segment_of_somebody_else_is_not_followed_through_a_link(tmp_path: Path) -> None:
    (tmp_path / segments.FOLDER).mkdir()
    target = tmp_path / "theirs"
    target.write_bytes(b"theirs")
    os.symlink(target, segments.path_of(str(tmp_path), 1))
    with pytest.raises(FileExistsError):
        writer(tmp_path).append(FACTS, b"ours", PROCESS)
    assert target.read_bytes() == b"theirs"
