"""A zygote started as a program of its own, after the first one has died.

The first zygote of a node is forked off its launcher (`launch.py`); later the node has threads and locks, and is no
place to fork from. Owns the start alone: `workers.py` owns the running zygote. Runs on the node's only thread.
"""

from __future__ import annotations

import fcntl
import os
import sys
from typing import TYPE_CHECKING

from sundog import isolation
from sundog.early import make_pair, tuned

if TYPE_CHECKING:
    from sundog.wire.dicts import SessionFacts


def spawn_zygote(session: SessionFacts, environ: dict[str, str], lifeline_read: int) -> tuple[int, int]:
    """Start a zygote as a program; returns its pid and the descriptor of our end of its socket."""
    ours, theirs = make_pair()
    # Descriptor numbers that the targets below cannot collide with.
    high: list[int] = []
    log = f"{session['path']}/logs/zygote.log"
    try:
        for fd in (theirs.fileno(), lifeline_read):
            high.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10))
        pid = os.posix_spawn(
            sys.executable,
            isolation.command("sundog.worker.zygote.main(['3', '4'])"),
            tuned(environ),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                (os.POSIX_SPAWN_DUP2, high[0], 3),
                (os.POSIX_SPAWN_DUP2, high[1], 4),
            ],
        )
    except OSError:
        ours.close()
        raise
    finally:
        for fd in high:
            os.close(fd)
        theirs.close()
    return pid, ours.detach()
