"""What is left to do when the program has closed descriptors of sundog's (`os.closerange`, as daemons do).

::

    reactor: an error, or a look each second ──► is_robbed ──► driver: the session ends with `error()`
                                                          └──► worker: the process ends with `WORKER`, on its stderr

Owns the sentences, and the letting go of sockets whose numbers belong to the program by now. Refuses to go on: what was
on its way in a closed socket is lost. Runs in any process of a session, under the owner's lock.
"""

from __future__ import annotations

import _socket
from typing import TYPE_CHECKING

from sundog.exceptions import RaySystemError
from sundog.net.spare import spare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sundog.net import sockets as socket
    from sundog.owner.core import Owner

_HOW = "(os.closerange(), os.close(), or a library that makes the program a daemon)"
WORKER = (
    f"The code that ran in this process closed sockets and files of sundog {_HOW}, so this worker had to end. Close "
    "only what the code itself has opened."
)


def error() -> RaySystemError:
    """What every verb of a driver raises from then on."""
    return RaySystemError(
        f"The program closed sockets and files of sundog {_HOW}, so this session is over. Call sundog.shutdown() and "
        "sundog.init() to start a new one, and close descriptors before init(), or only those that the program itself "
        "has opened."
    )


def abandon(owner: Owner) -> None:
    """Before an owner gives back its descriptors: let go of those that are the program's by now."""
    for sock in _sockets(owner):
        if not is_ours(sock):
            sock.detach()
    spare.abandon()


def is_ours(sock: socket.socket) -> bool:
    """Whether a socket still has the kind of sockets of sundog."""
    try:
        return (
            sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_TYPE) == _socket.SOCK_SEQPACKET
            and sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_DOMAIN) == _socket.AF_UNIX
        )
    except OSError:
        return False


def _sockets(owner: Owner) -> Iterator[socket.socket]:
    for lane in (*owner.dispatch.lanes.values(), *owner.actors.links.values()):
        yield from (each for each in (lane.sock, lane.peer) if each is not None)
    yield from owner.peers.sockets()
    yield owner.node.sock
