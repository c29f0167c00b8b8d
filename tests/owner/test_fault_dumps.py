"""Stacks written by the fault handler: the file, the signal, and a program that wants the signal for itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sundog.owner import fault_dumps


@pytest.fixture(autouse=True)
def _undone() -> Iterator[None]:
    yield
    fault_dumps.stop()
    fault_dumps._path = ""


def _caught() -> bool:
    return fault_dumps.is_caught("/proc/self/status")


def test_a_process_that_listens_writes_its_stacks_when_the_signal_comes(tmp_path: Path) -> None:
    assert not _caught()
    fault_dumps.listen(str(tmp_path))
    assert _caught()
    os.kill(os.getpid(), fault_dumps.SIGNAL)
    text = (tmp_path / fault_dumps.FILE).read_text()
    assert "test_a_process_that_listens_writes_its_stacks" in text
    assert (tmp_path / fault_dumps.FILE).stat().st_mode & 0o777 == 0o600
    fault_dumps.stop()
    assert not _caught()


def test_a_program_that_has_a_handler_keeps_it_and_a_mark_says_so(tmp_path: Path) -> None:
    before = signal.signal(fault_dumps.SIGNAL, lambda *_: None)
    try:
        fault_dumps.listen(str(tmp_path), politely=True)
        mark = fault_dumps.mark(f"{tmp_path}/{fault_dumps.FILE}", os.getpid())
        assert os.path.exists(mark) and not (tmp_path / fault_dumps.FILE).exists()
    finally:
        signal.signal(fault_dumps.SIGNAL, before)


def test_a_program_that_takes_the_signal_later_leaves_one_mark(tmp_path: Path) -> None:
    fault_dumps.listen(str(tmp_path))
    fault_dumps.give_up()
    fault_dumps.give_up()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "stacks.txt",
        f"stacks.txt.not-{os.getpid()}",
    ]
    import faulthandler

    faulthandler.unregister(fault_dumps.SIGNAL)  # what a program's own handler would replace


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    fault_dumps.listen(str(tmp_path / "gone"))
    assert not _caught()


def test_a_link_that_another_user_planted_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / fault_dumps.FILE).symlink_to(tmp_path / "target")
    fault_dumps.listen(str(tmp_path))
    assert not (tmp_path / "target").exists() and not _caught()


def test_whether_a_process_handles_the_signal_is_read_from_its_status(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text(f"Name:\tx\nSigCgt:\t{1 << (fault_dumps.SIGNAL - 1):016x}\n")
    assert fault_dumps.is_caught(str(status))
    for text in (f"SigCgt:\t{1 << fault_dumps.SIGNAL:016x}\n", "SigCgt:\tzzz\n", "Name:\tx\n"):
        status.write_text(text)
        assert not fault_dumps.is_caught(str(status))
    assert not fault_dumps.is_caught(str(tmp_path / "gone"))


def test_a_file_of_the_program_that_took_the_number_stays_open(tmp_path: Path) -> None:
    fault_dumps.listen(str(tmp_path))
    users = os.open("/dev/null", os.O_RDONLY)
    number = fault_dumps._fd
    os.dup2(users, number)
    fault_dumps.stop()
    assert not _caught()
    os.close(number)  # still open
    os.close(users)
