"""The few names of `socket` that sundog needs: importing the whole module takes 5 ms in each process of a start.

A socket here has no `accept`, `makefile` or `with`, and no timeout, whatever the program says of all its sockets
(`socket.setdefaulttimeout`): with a timeout, `MSG_DONTWAIT` has no effect. All else is as the standard library's, whose
base it is.
"""

from __future__ import annotations

import _socket
from _socket import (
    AF_UNIX,
    CMSG_SPACE,
    MSG_CMSG_CLOEXEC,
    MSG_DONTWAIT,
    SCM_RIGHTS,
    SHUT_WR,
    SO_SNDBUF,
    SOCK_SEQPACKET,
    SOL_SOCKET,
)
from typing import TYPE_CHECKING

__all__ = [
    "AF_UNIX",
    "CMSG_SPACE",
    "MSG_CMSG_CLOEXEC",
    "MSG_DONTWAIT",
    "SCM_RIGHTS",
    "SHUT_WR",
    "SOCK_SEQPACKET",
    "SOL_SOCKET",
    "SO_SNDBUF",
    "accept",
    "socket",
]


if TYPE_CHECKING:
    from _socket import socket  # what others make is as good
else:

    class socket(_socket.socket):
        """A socket that blocks."""

        __slots__ = ()

        def __init__(
            self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None
        ) -> None:
            super().__init__(family, type, proto, fileno)
            if self.gettimeout() is not None:
                self.settimeout(None)


def accept(listener: socket) -> socket:
    """The next connection to a listening socket."""
    fd, _ = listener._accept()  # type: ignore[attr-defined]
    return socket(fileno=fd)
