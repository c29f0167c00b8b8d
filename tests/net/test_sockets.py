"""Sockets without the module `socket`: connections are accepted, and descriptors close with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from sundog.net import sockets


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


def test_the_standard_module_is_not_loaded_for_it() -> None:
    program = "import sys, sundog.net.sockets; sys.exit('socket' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {program}"]
        ).returncode
        == 0
    )
