"""Segments and the store's limit, seen from one process, with the node played by the test."""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from pathlib import Path

import pytest

from sundog.exceptions import LocalRayletDiedError, ObjectLostError
from sundog.store import mapping
from sundog.store.segments import RESTORED, Segments

ME, OTHER = b"M" * 8, b"O" * 8
KB = 1024
LIMIT = 8 << 20


class FakeNode:
    """Grants what it is told to, and keeps what it hears."""

    def __init__(self, segments: Segments, spare: int = 0) -> None:
        self.segments = segments
        self.spare = spare
        self.asked: list[int] = []
        self.restores: list[str] = []
        self.freed_names: list[str] = []
        self.refuses = False
        self.place: tuple[str, int] | None = None

    def obtain(self, missing: int, aside: int) -> bool:
        self.asked.append(missing)
        if self.refuses:
            return False
        self.segments.credit.granted(self.spare, aside)
        return True

    def restore(self, name: str, *, directly: bool) -> tuple[str, int] | None:
        self.restores.append(name)
        return self.place

    def freed(self, name: str) -> None:
        self.freed_names.append(name)


@pytest.fixture
def segments(tmp_path: Path) -> Segments:
    (tmp_path / "shm").mkdir()
    return Segments(str(tmp_path / "shm"), str(tmp_path / "disk"), ME, deque())


def data(number: int, size: int = 100 * KB) -> memoryview:
    return memoryview(bytes([number]) * size)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM, errno.EACCES])
def test_a_segment_that_this_process_cannot_open_is_not_lost(
    segments: Segments, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    location = segments.write([data(1)])
    whole = mapping.map_file

    def fail(path: str, size_bytes: int, *, writable: bool, offset: int = 0) -> int:
        raise OSError(code, os.strerror(code), path)

    monkeypatch.setattr(mapping, "map_file", fail)
    with pytest.raises(OSError) as caught:
        segments.view(location, b"object-id")
    assert caught.value.errno == code
    monkeypatch.setattr(mapping, "map_file", whole)
    assert segments.view(location, None)[0][5] == 1
    segments.close()


def test_a_put_within_credit_asks_nobody_and_a_recycled_segment_needs_none(segments: Segments) -> None:
    node = FakeNode(segments, spare=150 * KB)
    segments.live_within(LIMIT, node)
    first = segments.write([data(1)])
    assert node.asked == [100 * KB]
    second = segments.write([data(2)])
    assert len(node.asked) == 1
    segments.recycle(second[0], second[1])
    segments.credit.left = 1 << 30
    segments.write([data(3)])
    assert segments.credit.left == (1 << 30) - (second[1] - 100 * KB)  # it grew to its size class
    assert len(node.asked) == 1
    assert segments.view(first, None)[0][5] == 1
    segments.close()


def test_what_is_left_is_set_aside_while_the_node_is_asked(segments: Segments) -> None:
    node = FakeNode(segments)
    segments.live_within(LIMIT, node)
    segments.credit.left = 40 * KB
    segments.write([data(1)])
    assert node.asked == [60 * KB]
    assert (segments.credit.left, segments.credit.reserved) == (0, 0)
    segments.credit.left = 40 * KB
    node.refuses = True
    assert segments.write([data(1)])[0].startswith("disk-")
    assert (segments.credit.left, segments.credit.reserved) == (40 * KB, 0)
    segments.close()


def test_a_missing_file_is_asked_for_and_read_where_it_is_said_to_be(
    segments: Segments, tmp_path: Path
) -> None:
    node = FakeNode(segments)
    segments.live_within(LIMIT, node)
    location = segments.write([data(7)])
    (tmp_path / "fused").write_bytes(bytes(4096) + bytes(data(7)))
    os.unlink(segments.path(location[0]))
    node.place = str(tmp_path / "fused"), 4096
    (view,) = segments.view(location, None)
    assert bytes(view) == bytes(data(7))
    assert node.restores == [location[0]]
    segments.close()


def test_a_restored_copy_is_found_without_asking(segments: Segments) -> None:
    node = FakeNode(segments)
    segments.live_within(LIMIT, node)
    location = segments.write([data(7)])
    os.mkdir(f"{segments.shm_root}/{RESTORED}")
    os.rename(segments.path(location[0]), f"{segments.shm_root}/{RESTORED}/{location[0]}")
    assert segments.view(location, None)[0][0] == 7
    assert not node.restores
    segments.recycle(location[0], location[1])
    assert node.freed_names == [location[0]]  # the node's copy goes by the node's hand, never to a free list
    assert segments.write([data(8)])[0] != location[0]
    segments.close()


def test_what_nobody_has_is_lost(segments: Segments) -> None:
    node = FakeNode(segments)
    segments.live_within(LIMIT, node)
    location = segments.write([data(7)])
    os.unlink(segments.path(location[0]))
    with pytest.raises(ObjectLostError, match="was not spilled"):
        segments.view(location, b"object-id")
    assert node.restores == [location[0]]
    segments.close()


def test_a_failed_look_at_a_lost_object_keeps_no_frame_alive(segments: Segments) -> None:
    """An error that is kept in a local variable holds its frame, and so the callers' arrays, until a collection."""
    import gc
    import weakref

    class Canary:
        pass

    node = FakeNode(segments)
    segments.live_within(LIMIT, node)
    location = segments.write([data(7)])
    os.rename(segments.path(location[0]), f"{segments.shm_root}/elsewhere")
    node.place = f"{segments.shm_root}/elsewhere", 0

    def read() -> weakref.ref[Canary]:
        canary = Canary()
        segments.view(location, None)
        return weakref.ref(canary)

    gc.disable()
    try:
        assert read()() is None
    finally:
        gc.enable()
    segments.close()


def test_trimming_returns_free_segments_and_unused_mappings_and_names_what_is_in_use(
    segments: Segments,
) -> None:
    node = FakeNode(segments)
    segments.live_within(LIMIT, node)
    kept, unused, freed = (segments.write([data(number)]) for number in range(3))
    view = segments.view(kept, None)
    segments.view(unused, None)
    segments.recycle(freed[0], freed[1])
    live, writing, free, used = segments.trim()
    assert live == [kept[0]] and writing == []
    assert len(free) == 1 and free[0].startswith("free-")
    assert set(used) == {kept[0], unused[0]}
    assert bytes(view[0]) == bytes(data(0))
    assert segments.view(unused, None)[0][0] == 1  # mapped anew
    asked = len(node.asked)
    segments.write([data(9)])
    assert len(node.asked) == asked + 1  # the free list is empty
    segments.close()


def test_a_finaliser_that_reads_an_object_does_not_keep_the_lock_while_it_waits_for_the_node(
    segments: Segments, tmp_path: Path
) -> None:
    node = FakeNode(segments)
    segments.live_within(LIMIT, node)
    location = segments.write([data(7)])
    (tmp_path / "spilled").write_bytes(bytes(data(7)))
    os.unlink(segments.path(location[0]))
    node.place = str(tmp_path / "spilled"), 0
    trimmed = threading.Event()

    def trim() -> None:
        segments.trim()
        trimmed.set()

    def restore(name: str, *, directly: bool) -> tuple[str, int] | None:
        # Whoever reads the node's answers may have to trim first.
        reader = threading.Thread(target=trim, daemon=True)
        reader.start()
        reader.join(120)
        return node.place

    node.restore = restore  # type: ignore[method-assign]
    with segments._lock:  # as when a collection runs a finaliser in the middle of `view`
        (view,) = segments.view(location, None)
        assert trimmed.is_set()
        assert segments._lock._is_owned()  # type: ignore[attr-defined]
    assert bytes(view) == bytes(data(7))
    segments.close()


def test_trimming_spares_a_mapping_of_which_a_view_is_being_made(
    segments: Segments, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments.live_within(LIMIT, FakeNode(segments))
    location = segments.write([data(7)])
    segments.view(location, None)
    made = mapping.exporter

    def exporter(address: int, size: int) -> object:
        segments.trim()  # by another thread, while a finaliser in the midst of this waits for the node
        return made(address, size)

    monkeypatch.setattr(mapping, "exporter", exporter)
    (view,) = segments.view(location, None)
    assert bytes(view) == bytes(data(7))
    segments.close()


def test_a_free_segment_that_the_node_removed_is_not_used(segments: Segments) -> None:
    node = FakeNode(segments)
    segments.live_within(LIMIT, node)
    first = segments.write([data(1)])
    segments.recycle(first[0], first[1])
    for name in os.listdir(segments.shm_root):
        os.unlink(f"{segments.shm_root}/{name}")
    second = segments.write([data(2)])
    assert segments.view(second, None)[0][0] == 2
    segments.close()


@pytest.mark.parametrize("all_gone", [False, True], ids=["one segment", "the whole session"])
def test_a_free_segment_that_vanishes_while_it_is_taken_is_not_used(
    segments: Segments, monkeypatch: pytest.MonkeyPatch, all_gone: bool
) -> None:
    first = segments.write([data(1)])
    segments.recycle(first[0], first[1])
    rename = os.rename

    def rename_too_late(source: str, target: str) -> None:
        rename(source, target)
        os.unlink(target)
        if all_gone:
            os.rmdir(segments.shm_root)

    monkeypatch.setattr(os, "rename", rename_too_late)
    if all_gone:
        with pytest.raises(LocalRayletDiedError, match="is gone"):
            segments.write([data(2)])
    else:
        assert segments.view(segments.write([data(2)]), None)[0][0] == 2
    segments.close()


def test_what_a_process_made_for_another_is_found_in_memory_and_on_disk(segments: Segments) -> None:
    other = Segments(segments.shm_root, segments.disk_root, OTHER, deque())
    in_memory = other.write([data(1)], ME)[0]
    node = FakeNode(other)
    node.refuses = True
    other.live_within(LIMIT, node)
    on_disk = other.write([data(2)], ME)[0]
    other.write([data(3)])
    segments.write([data(4)])
    assert on_disk != in_memory and segments.path(on_disk).startswith(segments.disk_root)
    assert segments.made_by(OTHER) == {in_memory, on_disk}
    for name in (in_memory, on_disk):
        segments.unlink(name)
    assert segments.made_by(OTHER) == set()
    other.close()
    segments.close()


def test_a_copy_that_is_given_up_is_not_kept_mapped(segments: Segments) -> None:
    segments.recycle(*segments.write([data(1)])[:2])
    name = segments.write([data(2)])[0]  # into a used segment, through a mapping that stays
    assert name in segments._write_maps
    os.unlink(segments.path(name))
    segments.abandon(name, remove=True)
    assert name not in segments._write_maps
    segments.close()


def test_a_lost_copy_that_somebody_looks_at_is_not_taken_from_under_them(segments: Segments) -> None:
    location = segments.write([data(3)])
    (view,) = segments.view(location, None)
    os.unlink(segments.path(location[0]))
    segments.recycle(location[0], location[1])
    assert bytes(view) == bytes(data(3))
    assert segments.write([data(4)])[0] != location[0]
    assert bytes(view) == bytes(data(3))
    del view
    assert location[0] not in segments._read_maps
    segments.close()


def test_a_file_is_removed_but_not_taken_from_under_a_reader(segments: Segments) -> None:
    location = segments.write([data(3)])
    name = location[0]
    (view,) = segments.view(location, None)
    segments.unlink(name)
    assert name in segments._read_maps, "somebody looks at it"
    assert bytes(view) == bytes(data(3)) and not os.path.exists(segments.path(name))
    del view
    assert name not in segments._read_maps
    segments.close()


def test_a_copy_that_is_given_up_while_a_view_of_it_is_made_stays_mapped_for_that(
    segments: Segments, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = segments.write([data(3)])
    name = location[0]
    whole = mapping.exporter

    def give_up_first(address: int, size_bytes: int) -> object:
        segments.abandon(name, remove=True)
        assert name in segments._read_maps, "what is being looked at was unmapped"
        return whole(address, size_bytes)

    monkeypatch.setattr(mapping, "exporter", give_up_first)
    (view,) = segments.view(location, None)
    assert bytes(view) == bytes(data(3))
    del view
    assert name not in segments._read_maps and not segments._abandoned
    segments.close()


def test_a_segment_of_size_zero_is_let_go_and_never_used_again(segments: Segments) -> None:
    location = segments.write([data(3)])
    name = location[0]
    (view,) = segments.view(location, None)
    other = Segments(segments.shm_root, segments.disk_root, OTHER, deque())
    assert bytes(other.view(location, None)[0]) == bytes(data(3))
    segments.unlink(name)
    for each in (other, segments):
        each.recycle(name, 0)
        assert not each._free_order
        each.write([data(4)])
    assert name not in other._read_maps and bytes(view) == bytes(data(3))
    del view
    other.close()
    segments.close()


def test_a_large_object_is_written_by_this_thread_alone_where_no_other_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy thread that could not be started must not write its half later, into a file that is another by then."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    (tmp_path / "shm").mkdir()
    segments = Segments(str(tmp_path / "shm"), str(tmp_path / "disk"), ME, deque())
    first, second = bytes([1]) * (9 << 20), bytes([2]) * (9 << 20)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        cold = segments.write([memoryview(first)])
        assert segments.view(cold, None)[0] == first
        segments.recycle(cold[0], cold[1])
        warm = segments.write([memoryview(second)])
        assert segments.view(warm, None)[0] == second
    again = segments.write([memoryview(first)])
    assert segments.view(again, None)[0] == first and segments.view(warm, None)[0] == second
    segments.close()
