"""A terminal at a prompt elsewhere."""

from __future__ import annotations

import os
import socket
import threading

from sundog.debugging import relay


def test_what_is_typed_goes_there_and_what_comes_is_shown() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    said: list[str] = []

    def prompt() -> None:
        sock, _ = server.accept()
        with sock, sock.makefile("r") as lines:
            said.append(lines.readline())
            sock.sendall(b"(Pdb) ")
            said.append(lines.readline())
            sock.sendall(b"42\n")

    thread = threading.Thread(target=prompt)
    thread.start()
    typed_out, typed_in = os.pipe()
    shown_out, shown_in = os.pipe()
    os.write(typed_in, b"p x\n")
    relay.visit(server.getsockname(), "token", stdin=typed_out, stdout=shown_in)
    thread.join()
    assert said == ["token\n", "p x\n"]
    assert os.read(shown_out, 100) == b"(Pdb) 42\n"
    for descriptor in (typed_out, typed_in, shown_out, shown_in):
        os.close(descriptor)
    server.close()
