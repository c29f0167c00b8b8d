"""The log of the node and the zygote: what the disk takes is there, what it does not take is counted."""

from __future__ import annotations

import errno
import os
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from sundog.system import journal
from sundog.system.journal import Journal


@pytest.fixture
def target() -> Iterator[int]:
    """A descriptor that may be made to lead elsewhere."""
    fd = os.open(os.devnull, os.O_WRONLY)
    yield fd
    os.close(fd)


def room_for(monkeypatch: pytest.MonkeyPatch, room: list[int]) -> None:
    """Let each write find so many bytes of room; without any it fails."""
    write = os.write

    def limited(fd: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(fd, data[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", limited)


def test_lines_and_tracebacks_are_appended(tmp_path: Path, target: int) -> None:
    log = Journal(str(tmp_path / "log"), (target,))
    print("one", 2, file=log)
    try:
        raise ValueError("three")
    except ValueError:
        traceback.print_exc(file=log)
    log.write("half")
    assert not (tmp_path / "log").read_text().endswith("half")
    log.flush()
    text = (tmp_path / "log").read_text()
    assert text.startswith("one 2\n") and "ValueError: three\n" in text and text.endswith("half")


def test_what_writes_to_the_descriptor_itself_lands_in_the_file_too(tmp_path: Path, target: int) -> None:
    log = Journal(str(tmp_path / "log"), (target,))
    print("ours", file=log)
    os.write(target, b"theirs\n")
    assert (tmp_path / "log").read_text() == "ours\ntheirs\n"


def test_lines_without_room_are_dropped_and_counted(
    tmp_path: Path, target: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Journal(str(tmp_path / "log"), (target,))
    room = [5]
    room_for(monkeypatch, room)
    for _ in range(3):
        print("1234", file=log)
    assert log.lost_lines == 2
    room[0] = 1000
    print("again", file=log)
    assert (tmp_path / "log").read_text() == (
        "1234\n[2 lines are missing here: they could not be written (disk full?)]\nagain\n"
    )
    assert log.lost_lines == 0


def test_a_line_that_was_cut_is_ended_and_counted(
    tmp_path: Path, target: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Journal(str(tmp_path / "log"), (target,))
    room = [3]
    room_for(monkeypatch, room)
    print("123456", file=log)
    room[0] = 1000
    print("again", file=log)
    assert (tmp_path / "log").read_text() == (
        "123\n[1 lines are missing here: they could not be written (disk full?)]\nagain\n"
    )


def test_a_file_that_cannot_be_made_is_made_later(
    tmp_path: Path, target: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_OPEN_AGAIN_S", 0.0)
    log = Journal(str(tmp_path / "folder" / "log"), (target,))
    print("lost", file=log)
    assert log.lost_lines == 1
    (tmp_path / "folder").mkdir()
    print("kept", file=log)
    assert (
        (tmp_path / "folder" / "log")
        .read_text()
        .endswith("missing here: they could not be written (disk full?)]\nkept\n")
    )
