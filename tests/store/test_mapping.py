"""Mappings without descriptors: bytes go in and come out, and the exporter lives as long as a view does."""

from __future__ import annotations

import gc
import mmap
import os
import weakref
from pathlib import Path

import pytest

from sundog.store import mapping

PAGE = mmap.PAGESIZE


def a_file(tmp_path: Path, size: int = PAGE) -> str:
    path = tmp_path / "segment"
    path.write_bytes(bytes(size))
    return str(path)


def test_what_is_copied_in_is_in_the_file_and_in_another_mapping(tmp_path: Path) -> None:
    path = a_file(tmp_path)
    address = mapping.map_file(path, PAGE, writable=True)
    mapping.copy_in(address, memoryview(b"seen by everybody"))
    again = mapping.map_file(path, PAGE, writable=False)
    assert bytes(memoryview(mapping.exporter(again, PAGE)))[:17] == b"seen by everybody"
    assert Path(path).read_bytes()[:17] == b"seen by everybody"
    mapping.unmap(address, PAGE)
    mapping.unmap(again, PAGE)


def test_a_writable_buffer_of_numbers_is_copied_byte_by_byte(tmp_path: Path) -> None:
    path = a_file(tmp_path)
    address = mapping.map_file(path, PAGE, writable=True)
    numbers = memoryview(bytearray(range(16))).cast("I")
    mapping.copy_in(address, numbers)
    mapping.copy_in(address, memoryview(b""))
    assert Path(path).read_bytes()[:16] == bytes(range(16))
    mapping.unmap(address, PAGE)


def test_a_mapping_may_begin_at_a_later_page(tmp_path: Path) -> None:
    path = a_file(tmp_path, 2 * PAGE)
    with open(path, "r+b") as file:
        file.seek(PAGE)
        file.write(b"second page")
    address = mapping.map_file(path, PAGE, writable=False, offset=PAGE)
    assert bytes(memoryview(mapping.exporter(address, PAGE)))[:11] == b"second page"
    mapping.unmap(address, PAGE)


def test_a_mapping_keeps_no_descriptor(tmp_path: Path) -> None:
    path = a_file(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    addresses = [mapping.map_file(path, PAGE, writable=False) for _ in range(50)]
    assert len(os.listdir("/proc/self/fd")) == before
    for address in addresses:
        mapping.unmap(address, PAGE)


def test_the_exporter_lives_as_long_as_the_last_view(tmp_path: Path) -> None:
    path = a_file(tmp_path)
    address = mapping.map_file(path, PAGE, writable=False)
    exporter = mapping.exporter(address, PAGE)
    gone: list[bool] = []
    weakref.finalize(exporter, gone.append, True)
    view = memoryview(exporter)[10:20]
    del exporter
    gc.collect()
    assert gone == []
    del view
    gc.collect()
    assert gone == [True]
    mapping.unmap(address, PAGE)


def test_a_missing_file_is_an_os_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        mapping.map_file(str(tmp_path / "gone"), PAGE, writable=False)
    assert caught.value.filename == str(tmp_path / "gone")


def test_a_mapping_that_the_kernel_refuses_is_an_os_error_with_its_path(tmp_path: Path) -> None:
    path = a_file(tmp_path)
    with pytest.raises(OSError) as caught:
        mapping.map_file(path, PAGE, writable=False, offset=7)
    assert caught.value.filename == path


def test_reserved_room_is_in_the_file(tmp_path: Path) -> None:
    path = a_file(tmp_path, 0)
    mapping.reserve(path, 3 * PAGE)
    assert os.stat(path).st_blocks * 512 >= 3 * PAGE
