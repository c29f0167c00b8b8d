"""A mapping of a file touches no descriptor that is not its own."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from sundog import file_maps
from sundog.file_maps import FileMap


def mapped(path: Path) -> FileMap:
    path.write_bytes(bytes(4096))
    with path.open("r+b") as file:
        return FileMap(file.fileno(), 4096)


def test_a_mapping_grows_with_its_file_and_ends(tmp_path: Path) -> None:
    made = mapped(tmp_path / "ring")
    made.resize(8192)
    made[8191] = 7
    assert len(made) == 8192 and (tmp_path / "ring").stat().st_size == 8192
    made.close()
    assert made.closed


def test_a_mapping_neither_cuts_nor_closes_the_file_that_took_the_number_of_its_descriptor(
    tmp_path: Path,
) -> None:
    made = mapped(tmp_path / "ring")
    made[0] = 1
    number = made._number
    users = os.open(tmp_path / "users", os.O_RDWR | os.O_CREAT)
    os.dup2(users, number)  # as after os.closerange(3, 1000) of the program
    try:
        with pytest.raises(OSError, match="has closed the descriptor"):
            made.resize(8192)
        made.close()
        assert os.fstat(number).st_size == 0
        assert made[0] == 1, "what is noted later does no harm"
    finally:
        os.close(users)
        os.close(number)
        file_maps._abandoned.remove(made)


def test_a_mapping_whose_number_another_thread_took_finds_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a number that the mapping will not get
    monkeypatch.setattr(os, "dup", lambda fd: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200))
    made = mapped(tmp_path / "ring")
    assert made.has_descriptor()
    made.close()
