"""The node's first milliseconds: start the zygote, then import the rest.

The zygote's start is the longest part of `init()` → first result, so it begins before the node has
imported anything of weight: this module uses `_socket` instead of `socket`, and takes the environment from
its parameters. Run as a program with the path of those; descriptors 3 (the driver's socket, if there is
one) and 4 (the session's lock) are inherited.
"""

from __future__ import annotations

import _socket
import os
import sys

SNDBUF_BYTES = 4 << 20


def spawn_zygote(session: dict[str, str], environ: dict[str, str], lifeline_read: int) -> tuple[int, int]:
    """Start a zygote; returns its pid and the descriptor of our end of its socket."""
    import fcntl

    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    for side in (ours, theirs):
        side.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, SNDBUF_BYTES)
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = (
        f"import sys; sys.path[:0]=[{source!r}]; from sundog.worker.zygote import main; "
        f"main(['3','4',{session['shm_root']!r}])"
    )
    # Numbers that the targets below cannot collide with.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in (theirs.fileno(), lifeline_read)]
    log = f"{session['path']}/logs/zygote.log"
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
    for fd in high:
        os.close(fd)
    theirs.close()
    return pid, ours.detach()


def main(params_path: str) -> None:
    """Be the node; does not return."""
    import json

    with open(params_path, encoding="utf-8") as file:
        params = json.load(file)
    from sundog.net.descriptors import raise_limit

    raise_limit()  # the zygote and its workers inherit it
    for fd in (3, 4):
        if fd == 4 or params.get("driver_fd") is not None:
            os.set_inheritable(fd, False)
    lifeline_read, lifeline_write = os.pipe2(os.O_CLOEXEC)
    zygote = spawn_zygote(params["session"], params["environ"], lifeline_read)
    from sundog.node.program import run

    run(params, zygote, lifeline_read, lifeline_write)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
