"""Room in a file: reserved whole or not at all, also where nothing can be reserved."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sundog.room import reserve


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    made = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield made
    os.close(made)


def fail_with(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(fd: int, offset: int, length: int) -> None:
        os.ftruncate(fd, offset + length // 2)  # some file systems leave a half
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", refuse)


def test_a_file_has_no_holes_afterwards(fd: int) -> None:
    for old, size in ((0, 4096), (4096, 65_536), (65_536, 3 << 20)):
        reserve(fd, old, size)
        facts = os.fstat(fd)
        assert facts.st_size == size and facts.st_blocks * 512 >= size


def test_without_room_the_file_is_as_it_was(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    os.write(fd, b"kept")
    fail_with(monkeypatch, errno.ENOSPC)
    with pytest.raises(OSError, match="No space left"):
        reserve(fd, 4, 4096)
    assert os.pread(fd, 100, 0) == b"kept"


def test_where_nothing_can_be_reserved_zeros_are_written(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    os.write(fd, b"kept")
    fail_with(monkeypatch, errno.EOPNOTSUPP)
    reserve(fd, 4, 3 << 20)
    assert os.pread(fd, 8, 0) == b"kept\0\0\0\0"
    facts = os.fstat(fd)
    assert facts.st_size == 3 << 20 and facts.st_blocks * 512 >= 3 << 20


def test_another_file_of_that_name_is_not_taken_for_it(fd: int) -> None:
    with pytest.raises(OSError, match="Stale"):
        reserve(fd, 4096, 8192)
    assert os.fstat(fd).st_size == 0


def test_a_reservation_ends_although_each_long_call_is_interrupted_and_undone(
    fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As tmpfs did before Linux 6.18 to a program with a timer: there, Python begins the call again for ever."""
    reserve_really = os.posix_fallocate

    def refuse_long(fd: int, offset: int, length: int) -> None:
        if length > 2 << 20:
            raise InterruptedError(errno.EINTR, os.strerror(errno.EINTR))
        reserve_really(fd, offset, length)

    monkeypatch.setattr(os, "posix_fallocate", refuse_long)
    reserve(fd, 0, (5 << 20) + 1)
    assert os.fstat(fd).st_size == (5 << 20) + 1
