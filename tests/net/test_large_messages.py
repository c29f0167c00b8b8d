"""Messages that are too large for a packet: no file is left by one that was not sent, or not read."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from sundog.net import packets
from sundog.net.packets import Connection, make_pair

BIG = bytes(1 << 20)


def test_a_large_message_travels_in_a_file_that_its_reader_removes(tmp_path: Path) -> None:
    ours, theirs = (Connection(each, str(tmp_path)) for each in make_pair())
    ours.send(("big", BIG))
    assert len(list(tmp_path.iterdir())) == 1
    assert theirs.receive() == (("big", BIG), [])
    assert not list(tmp_path.iterdir())
    ours.close()
    theirs.close()


def test_a_large_message_that_finds_no_room_in_the_socket_leaves_no_file(tmp_path: Path) -> None:
    ours, theirs = (Connection(each, str(tmp_path)) for each in make_pair())
    with pytest.raises(BlockingIOError):
        while True:
            ours.send((bytes(100_000),), (), socket.MSG_DONTWAIT)
    for _ in range(3):
        with pytest.raises(BlockingIOError):
            ours.send(("big", BIG), (), socket.MSG_DONTWAIT)
    theirs.close()
    with pytest.raises(ConnectionError):
        ours.send(("big", BIG))
    assert not list(tmp_path.iterdir())
    ours.close()


def test_a_large_message_that_cannot_be_read_leaves_no_file(tmp_path: Path) -> None:
    path = packets.write_big(b"no pickle", str(tmp_path))
    with pytest.raises(Exception, match=r"pickle|invalid"):
        packets.read_big(path)
    assert not os.path.exists(path)
