"""The descriptor that a process keeps back: large messages are written and read when no other is free."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sundog.net import packets
from sundog.net.packets import Connection, make_pair
from sundog.net.spare import SpareDescriptor, imported, spare
from tests.shortages import no_descriptor_free

BIG = ("big", bytes(400_000))


@pytest.fixture
def held() -> Iterator[SpareDescriptor]:
    spare.hold()
    yield spare
    spare.release()


def test_a_large_message_is_sent_and_read_without_a_free_descriptor(
    tmp_path: Path, held: SpareDescriptor
) -> None:
    ours, theirs = (Connection(sock, str(tmp_path)) for sock in make_pair())
    try:
        with no_descriptor_free():
            for _ in range(3):
                ours.send(BIG)
                assert theirs.receive() == (BIG, [])
        assert os.listdir(tmp_path) == []
    finally:
        ours.close()
        theirs.close()


def test_without_the_spare_one_a_large_message_waits_and_is_not_lost(tmp_path: Path) -> None:
    ours, theirs = (Connection(sock, str(tmp_path)) for sock in make_pair())
    try:
        with no_descriptor_free(), pytest.raises(packets.NoRoom):
            ours.send(BIG)
        ours.send(BIG)
        assert theirs.receive() == (BIG, [])
    finally:
        ours.close()
        theirs.close()


def test_a_module_is_loaded_without_a_free_descriptor_and_the_spare_one_is_kept_again(
    held: SpareDescriptor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "sundog.waiting", raising=False)
    with no_descriptor_free():
        with pytest.raises(OSError, match="Too many open files"):
            importlib.import_module("sundog.waiting")
        imported("sundog.waiting")
    assert "sundog.waiting" in sys.modules and held._fd >= 0


def nulls() -> set[int]:
    found = map(int, os.listdir("/proc/self/fd"))
    return {fd for fd in found if os.path.realpath(f"/proc/self/fd/{fd}") == "/dev/null"}


def test_a_file_of_the_program_in_the_place_of_the_spare_one_stays_open(tmp_path: Path) -> None:
    own = SpareDescriptor()
    before = nulls()
    own.hold()
    [kept] = nulls() - before
    os.close(kept)
    users = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    assert users == kept
    own.release()
    os.fstat(users)
    os.close(users)


def test_what_is_released_is_not_opened_again(tmp_path: Path) -> None:
    own = SpareDescriptor()
    before = len(os.listdir("/proc/self/fd"))
    own.hold()
    own.hold()
    assert len(os.listdir("/proc/self/fd")) == before + 1
    own.release()
    with own.opened(str(tmp_path / "file"), os.O_RDWR | os.O_CREAT) as fd:
        assert os.fstat(fd).st_mode & 0o777 == 0o600
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_descriptor_that_is_needed_for_good_takes_the_place_of_the_spare_one(held: SpareDescriptor) -> None:
    with no_descriptor_free():
        fd = held.instead(lambda: os.eventfd(0))
        with pytest.raises(OSError, match="Too many open files"):
            held.instead(lambda: os.eventfd(0))
    os.close(fd)
    with pytest.raises(PermissionError):
        held.instead(lambda: (_ for _ in ()).throw(PermissionError("another error")))
