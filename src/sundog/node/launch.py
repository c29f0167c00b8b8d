"""The node's first milliseconds: fork the zygote, then import the rest.

The start of the zygote and that of the node are the longest parts of `init()` → first result. Both begin as one
process, which imports what they share and forks the zygote while it has neither a thread nor a socket of the
session's; each then imports its own part at the same time (docs/decisions/0007). A zygote that dies later is
replaced by a new program, for by then the node is no place to fork from. Run as a program with the path
of its parameters; descriptors 3 (the driver's socket, if there is one) and 4 (the session's lock) are inherited.
"""

from __future__ import annotations

import _socket
import os
import sys
from typing import NoReturn

SNDBUF_BYTES = 4 << 20


def spawn_zygote(session: dict[str, str], environ: dict[str, str], lifeline_read: int) -> tuple[int, int]:
    """Start a zygote as a program; returns its pid and the descriptor of our end of its socket."""
    import fcntl

    ours, theirs = _pair()
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = (
        f"import sys; sys.path[:0]=[{source!r}]; from sundog.worker.zygote import main; "
        f"main(['3','4',{session['shm_root']!r}])"
    )
    # Numbers that the targets below cannot collide with.
    high: list[int] = []
    log = _log_path(session)
    try:
        for fd in (theirs.fileno(), lifeline_read):
            high.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64))
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-c", code],
            environ,
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


def fork_zygote(session: dict[str, str], lifeline: tuple[int, int], others: list[int]) -> tuple[int, int]:
    """Fork a zygote off this young process; it closes `others`. Returns as `spawn_zygote` does."""
    ours, theirs = _pair()
    pid = os.fork()
    if pid == 0:
        _be_zygote(session, ours, theirs, lifeline, others)
    theirs.close()
    return pid, ours.detach()


def _be_zygote(
    session: dict[str, str],
    ours: _socket.socket,
    theirs: _socket.socket,
    lifeline: tuple[int, int],
    others: list[int],
) -> NoReturn:
    try:
        ours.close()
        for fd in (lifeline[1], *others):
            os.close(fd)
        log = os.open(_log_path(session), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        from sundog.worker.zygote import main

        main([str(theirs.detach()), str(lifeline[0]), session["shm_root"]])
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(1)


def _pair() -> tuple[_socket.socket, _socket.socket]:
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    for side in (ours, theirs):
        side.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, SNDBUF_BYTES)
    return ours, theirs


def _log_path(session: dict[str, str]) -> str:
    return f"{session['path']}/logs/zygote.log"


def _import_shared() -> None:
    """What both the node and the zygote need: imported once, before the one becomes two."""
    import sundog.config
    import sundog.events
    import sundog.net.packets
    import sundog.store.segments
    import sundog.wire.cause  # noqa: F401


def main(params_path: str) -> None:
    """Be the node; does not return."""
    import json

    with open(params_path, encoding="utf-8") as file:
        params = json.load(file)
    from sundog.net.descriptors import raise_limit

    raise_limit()  # the zygote and its workers inherit it
    inherited = [4] if params.get("driver_fd") is None else [3, 4]
    for fd in inherited:
        os.set_inheritable(fd, False)
    from sundog.net.orphans import adopt

    adopt()  # before there is a child: the zygote's become ours if it dies, so that their ends are still told
    lifeline_read, lifeline_write = os.pipe2(os.O_CLOEXEC)
    _import_shared()
    zygote = fork_zygote(params["session"], (lifeline_read, lifeline_write), inherited)
    from sundog.node.program import run

    run(params, zygote, lifeline_read, lifeline_write)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
