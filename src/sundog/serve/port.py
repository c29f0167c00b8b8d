"""One listening socket for all proxies, which outlives each of them.

::

    controller ──┐                                   new proxy, new controller
    proxy 0    ──┼── hold the same socket ──give──►  take
    proxy 1    ──┘

Owns the handing over: every holder answers on a Unix socket in Serve's folder of the session, and hands over the
descriptor. A connection that no proxy has accepted yet waits in the kernel as long as one holder lives, so a killed
proxy costs only the requests that it had accepted. Refuses other users (`sundog.trust`). Runs in the holder's loop.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress

from sundog import trust

_BACKLOG = 2048
_TAKE_S = 5.0


def bound_socket(host: str, port: int) -> socket.socket:
    """A TCP socket that listens at an address.

    Raises:
        OSError: the address is in use, or is not this machine's.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    # The protocol is given so that asyncio switches off the delay of small packets (TCP_NODELAY) for accepted
    # sockets.
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Whether calls block is a property of the socket itself, for all its holders at once: if another
    # proxy accepted the connection first, a blocking accept() would wait, and this proxy would serve no client.
    sock.setblocking(False)
    try:
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def take(folder: str) -> socket.socket | None:
    """The socket, from any holder that lives; None if there is none."""
    try:
        names = sorted(os.listdir(folder))
        opened = trust.open_folder(folder)
    except OSError:
        return None
    try:
        for name in names:
            sock = _take_from(opened, name)
            if sock is not None:
                return sock
    finally:
        os.close(opened)
    return None


def _take_from(folder: int, name: str) -> socket.socket | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asker:
        asker.settimeout(_TAKE_S)
        try:
            # By the descriptor: a socket address has room for 107 bytes only.
            asker.connect(f"/proc/self/fd/{folder}/{name}")
            trust.check_peer(asker)
            _, fds, _, _ = socket.recv_fds(asker, 1, 1)
        except ConnectionRefusedError:
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)  # its holder is dead
            return None
        except OSError:
            return None
    if not fds:
        return None
    sock = socket.socket(fileno=fds[0])
    sock.setblocking(False)  # otherwise the next dup() would make the socket blocking in all processes
    return sock


class Giver:
    """Hands a socket to every process of this user that asks. Keeps a duplicate of it."""

    def __init__(self, sock: socket.socket, folder: str, loop: asyncio.AbstractEventLoop) -> None:
        self._sock, self._loop = sock.dup(), loop
        self._path = f"{folder}/{os.getpid()}.sock"
        trust.make_folder(folder)
        opened = trust.open_folder(folder)
        listener = self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with suppress(OSError):
                os.unlink(self._path)  # left by a dead process that had the same pid
            listener.bind(f"/proc/self/fd/{opened}/{os.getpid()}.sock")
            listener.listen()
        finally:
            os.close(opened)
        listener.setblocking(False)
        loop.add_reader(listener.fileno(), self._give)

    def _give(self) -> None:
        with suppress(OSError):
            asker, _ = self._listener.accept()
            with asker:
                trust.check_peer(asker)
                socket.send_fds(asker, [b"."], [self._sock.fileno()])

    def close(self) -> None:
        """Release the socket; others may still hold it."""
        self._loop.remove_reader(self._listener.fileno())
        with suppress(OSError):
            os.unlink(self._path)
        self._listener.close()
        self._sock.close()
