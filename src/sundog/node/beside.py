"""Programs that the node starts beside itself, each with a listening socket: the head process, and that for figures.

Owns how they are started: an interpreter of our own modules only, no terminal, a log file, one socket at a fixed
descriptor. Refuses to watch them: the part that starts one keeps its pid. Runs in the node, main thread.
"""

from __future__ import annotations

import fcntl
import os
import sys
from typing import TYPE_CHECKING

from sundog import isolation

if TYPE_CHECKING:
    from sundog.node.interfaces import NodeBasics

LISTENER_FD = 3


def spawn(node: NodeBasics, call: str, listener: int, log: str) -> int:
    """Start a program with a listening socket; returns its pid.

    Args:
        node: whose program it is.
        call: what it runs, a function of ours with its arguments as text.
        listener: the socket's descriptor here; the program finds it at `LISTENER_FD`.
        log: the name of the file for what it prints.

    Raises:
        OSError: it cannot be started.
    """
    high = fcntl.fcntl(listener, fcntl.F_DUPFD_CLOEXEC, 10)
    path = f"{node.session['path']}/logs/{log}"
    try:
        return os.posix_spawn(
            sys.executable,
            isolation.command(call),
            isolation.hide(node.params["environ"]),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                (os.POSIX_SPAWN_DUP2, high, LISTENER_FD),
            ],
            setsid=True,
        )
    finally:
        os.close(high)
