"""A terminal at the prompt of a pdb on another machine: lines there, text back.

Owns the relay between this terminal and a socket: input is sent unchanged, output is shown unchanged. Runs in the
command's process, main thread.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys

_CHUNK = 1 << 16


def visit(address: tuple[str, int], token: str, *, stdin: int = 0, stdout: int = 1) -> None:
    """Be the client of a prompt until it ends, or until there is nothing more to type.

    Raises:
        OSError: it is not there any more.
    """
    # A reset is an end too: the side that hangs up may not have read all that was typed.
    with (
        socket.create_connection(address) as sock,
        contextlib.suppress(ConnectionResetError, BrokenPipeError),
    ):
        sock.sendall(token.encode() + b"\n")
        typing = True
        while True:
            sources = [sock.fileno(), stdin] if typing else [sock.fileno()]
            ready, _, _ = select.select(sources, [], [])
            if sock.fileno() in ready:
                data = sock.recv(_CHUNK)
                if not data:
                    return
                os.write(stdout, data)
            if stdin in ready:
                line = os.read(stdin, _CHUNK)
                typing = bool(line)
                if not typing:  # Ctrl-D: the task continues
                    with contextlib.suppress(OSError):
                        sock.shutdown(socket.SHUT_WR)
                else:
                    sock.sendall(line)
                sys.stdout.flush()
