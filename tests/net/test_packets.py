"""Control connections: what is read from a process that died."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sundog.net.packets import Connection, make_pair


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Connection, Connection]]:
    ours, theirs = (Connection(sock, str(tmp_path)) for sock in make_pair())
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.mark.parametrize("unread", [0, 1, 5])
def test_the_last_messages_of_the_dead_are_read_whatever_they_had_not_read(
    pair: tuple[Connection, Connection], unread: int
) -> None:
    ours, theirs = pair
    theirs.send(("forked", 1))
    theirs.send(("exit", 2))
    for number in range(unread):
        ours.send(("fork", number))
    theirs.close()
    assert ours.receive() == (("forked", 1), [])
    assert ours.receive() == (("exit", 2), [])
    assert ours.receive() is None
    assert ours.receive() is None


def test_descriptors_that_the_dead_had_sent_arrive_too(pair: tuple[Connection, Connection]) -> None:
    ours, theirs = pair
    read, write = os.pipe()
    theirs.send(("peer",), (write,))
    ours.send(("never read",))
    theirs.close()
    os.close(write)
    received = ours.receive()
    assert received is not None
    message, (fd,) = received
    os.write(fd, b"here")
    assert (message, os.read(read, 10)) == (("peer",), b"here")
    for each in (fd, read):
        os.close(each)
