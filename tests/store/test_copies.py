"""Objects of one node read on another: copies are made, counted, found when the home is lost, and removed."""

from __future__ import annotations

import os
import shutil
from collections import deque
from pathlib import Path

import pytest

from sundog.exceptions import ObjectLostError
from sundog.store import places
from sundog.store.segments import Segments

HEAD, WORKER_B, WORKER_C = b"H" * 8, b"B" * 8, b"C" * 8
TAG_B, TAG_C = "0b0b0b0b", "0c0c0c0c"
KB = 1024


class Node:
    """Grants everything, and remembers what was asked for."""

    def __init__(self, segments: Segments, *, refuses: bool = False) -> None:
        self.segments = segments
        self.refuses = refuses
        self.asked = 0

    def obtain(self, missing: int, aside: int) -> bool:
        self.asked += missing
        if not self.refuses:
            self.segments.credit.granted(0, aside)
        return not self.refuses

    def restore(self, name: str, *, directly: bool) -> tuple[str, int] | None:
        return None

    def freed(self, name: str) -> None:
        pass


@pytest.fixture
def base(tmp_path: Path) -> str:
    root = str(tmp_path / "sundog-1-0a1b2c3d")
    for tag in ("", TAG_B, TAG_C):
        os.mkdir(places.shared_root(root, tag))
    return root


def on_node(base: str, tag: str, process: bytes) -> tuple[Segments, Node]:
    segments = Segments(base, base + "-disk", process, deque(), tag)
    segments.several = True
    node = Node(segments)
    segments.live_within(1 << 30, node)
    return segments, node


def read(segments: Segments, location: tuple[str, int, list[tuple[int, int]]]) -> bytes:
    return bytes(segments.view(location, None)[0])


def test_reading_an_object_of_another_node_makes_a_copy_that_counts_there(base: str) -> None:
    here, _ = on_node(base, TAG_B, WORKER_B)
    there, its_node = on_node(base, TAG_C, WORKER_C)
    location = here.write([memoryview(b"x" * 300 * KB)], HEAD)

    assert read(there, location) == b"x" * 300 * KB

    assert location[0].endswith("@" + TAG_B)
    assert os.path.exists(f"{there.shm_root}/{location[0]}")
    assert 300 * KB <= its_node.asked <= 304 * KB


def test_a_second_reader_on_the_same_node_uses_the_copy(base: str) -> None:
    here, _ = on_node(base, TAG_B, WORKER_B)
    location = here.write([memoryview(b"x" * 300 * KB)], HEAD)
    first, _ = on_node(base, TAG_C, WORKER_C)
    read(first, location)
    second, its_node = on_node(base, TAG_C, b"D" * 8)

    read(second, location)

    assert its_node.asked == 0


def test_without_room_an_object_is_read_where_it_lies(base: str) -> None:
    here, _ = on_node(base, TAG_B, WORKER_B)
    there, its_node = on_node(base, TAG_C, WORKER_C)
    its_node.refuses = True
    location = here.write([memoryview(b"y" * 300 * KB)], HEAD)

    assert read(there, location) == b"y" * 300 * KB
    assert not os.path.exists(f"{there.shm_root}/{location[0]}")


def test_a_copy_serves_when_the_home_is_lost(base: str) -> None:
    here, _ = on_node(base, TAG_B, WORKER_B)
    location = here.write([memoryview(b"z" * 300 * KB)], HEAD)
    there, _ = on_node(base, TAG_C, WORKER_C)
    read(there, location)
    shutil.rmtree(here.shm_root)
    head, _ = on_node(base, "", HEAD)

    assert read(head, location) == b"z" * 300 * KB
    assert os.path.exists(f"{base}/{location[0]}")


def test_without_a_copy_it_is_lost_with_its_home(base: str) -> None:
    here, _ = on_node(base, TAG_B, WORKER_B)
    location = here.write([memoryview(b"z" * 300 * KB)], HEAD)
    shutil.rmtree(here.shm_root)
    head, _ = on_node(base, "", HEAD)

    with pytest.raises(ObjectLostError):
        read(head, location)


def test_freeing_an_object_removes_all_of_its_copies(base: str) -> None:
    here, _ = on_node(base, TAG_B, WORKER_B)
    location = here.write([memoryview(b"z" * 300 * KB)], HEAD)
    readers = [on_node(base, "", HEAD)[0], on_node(base, TAG_C, WORKER_C)[0]]
    for reader in readers:
        read(reader, location)
        reader.forget(location[0])

    here.recycle(location[0], location[1])

    assert not any(os.path.exists(f"{reader.shm_root}/{location[0]}") for reader in readers)
    assert here.write([memoryview(b"1" * 300 * KB)], HEAD)[0] != location[0]
    here.close()
