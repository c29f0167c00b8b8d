"""Sockets without the module `socket`: connections are accepted, and descriptors close with them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sundog.net import packets, sockets


def test_a_connection_is_accepted_and_carries_whole_packets(tmp_path: Path) -> None:
    listener = sockets.socket(sockets.AF_UNIX, sockets.SOCK_SEQPACKET)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    client = sockets.socket(sockets.AF_UNIX, sockets.SOCK_SEQPACKET)
    client.connect(str(tmp_path / "s"))
    server = sockets.accept(listener)
    client.send(b"one")
    client.send(b"two")
    assert (server.recv(100), server.recv(100)) == (b"one", b"two")
    assert not os.get_inheritable(server.fileno())
    for each in (listener, client, server):
        each.close()


def test_a_timeout_that_the_program_gives_all_its_sockets_is_not_for_ours(tmp_path: Path) -> None:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(0.01)
    try:
        listener = sockets.socket(sockets.AF_UNIX, sockets.SOCK_SEQPACKET)
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        client = sockets.socket(sockets.AF_UNIX, sockets.SOCK_SEQPACKET)
        client.connect(str(tmp_path / "s"))
        found = [listener, client, sockets.accept(listener), *packets.make_pair()]
        found.append(sockets.socket(fileno=os.dup(client.fileno())))
    finally:
        socket.setdefaulttimeout(before)
    assert [each.gettimeout() for each in found] == [None] * 6
    with pytest.raises(BlockingIOError):
        client.recv(1, sockets.MSG_DONTWAIT)
    for each in found:
        each.close()


def test_the_standard_module_is_not_loaded_for_it() -> None:
    program = "import sys, sundog.net.sockets; sys.exit('socket' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {program}"]
        ).returncode
        == 0
    )
