"""The few names of `socket` that sundog needs: importing the whole module takes 5 ms in each process of a start.

A socket here has no `accept`, `makefile` or `with`; all else is as the standard library's, whose base it is.
"""

from __future__ import annotations

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
    socket,
)

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


def accept(listener: socket) -> socket:
    """The next connection to a listening socket."""
    fd, _ = listener._accept()  # type: ignore[attr-defined]
    return socket(fileno=fd)
