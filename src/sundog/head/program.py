"""The head process' program: serve a session over HTTP until it ends.

::

    node ── starts ──► main(folder, socket) ──► uvicorn ( make_app )
                          └─ the node's pidfd: readable when the node is gone ──► end

Owns the server's life: it begins with a socket that is bound already, and ends on SIGTERM, with the session's node, or
(in a terminal) with Ctrl-C. Connections that are open at the end get a moment, then are closed. Launched by
`node/heads.py`, or called by `sundog dashboard`. Main thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sundog import isolation

if TYPE_CHECKING:
    import uvicorn

    from sundog.engines.heads import HeadInfo
    from sundog.observe.sessions import Opened

_GRACE_S = 1
_WS_MAX_BYTES = 1 << 20


def main(path: str, listener_fd: int, max_running_jobs: int = 0, metrics_port: int = 0) -> None:
    """Be the head process of a running session."""
    import gc

    isolation.find_packages()
    from sundog.config import set_child_environ, user_environ
    from sundog.early import untuned

    set_child_environ(untuned(user_environ()))
    gc.enable()
    from sundog import titles
    from sundog.engines import heads
    from sundog.observe.sessions import open_session

    titles.begin("head")
    info = heads.read_head(path)
    if info is None:
        return  # the session has ended
    session = open_session(path)
    listener = socket.socket(fileno=listener_fd)
    listener.set_inheritable(False)
    more = _listen(metrics_port)
    serve(session, info, listener, max_running_jobs, with_page=True, more=more)
    sys.stdout.flush()
    os._exit(0)  # threads that wait for a node that is gone must not keep the process alive


def serve(
    session: Opened,
    info: HeadInfo,
    listener: socket.socket,
    max_running_jobs: int = 0,
    *,
    with_page: bool = False,
    more: Sequence[socket.socket] = (),
) -> None:
    """Answer requests until this process is told to end, or the session's node ends.

    Args:
        session: which.
        info: where it listens, and its token.
        listener: its socket.
        max_running_jobs: how many submitted jobs may run at a time; 0 is any number.
        with_page: put the page at /.
        more: further sockets on which the same is answered, behind the same token.
    """
    import uvicorn

    from sundog.head.app import make_app

    settings = uvicorn.Config(
        make_app(session, info, max_running_jobs, with_page=with_page),
        log_level="warning",
        access_log=False,  # an address may have the token in it
        server_header=False,
        date_header=False,
        lifespan="on",
        ws="websockets-sansio",
        ws_max_size=_WS_MAX_BYTES,
        timeout_graceful_shutdown=_GRACE_S,
    )
    server = uvicorn.Server(settings)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(
            _serve(server, [listener, *more], session.info.node_pid if session.info is not None else 0)
        )


async def _serve(server: uvicorn.Server, listeners: list[socket.socket], node_pid: int) -> None:
    node = _watch(node_pid, server)
    try:
        await server.serve(listeners)
    finally:
        if node >= 0:
            asyncio.get_running_loop().remove_reader(node)
            os.close(node)


def _listen(port: int) -> list[socket.socket]:
    """A socket on a port for Prometheus; none if none is wanted, or it is taken, which the log then says."""
    if not port:
        return []
    try:
        return [socket.create_server(("127.0.0.1", port), reuse_port=False)]
    except OSError as error:
        print(
            f"metrics_export_port={port} cannot be used: {error.strerror}. /metrics is at the dashboard's port."
        )
        return []


def _watch(node_pid: int, server: uvicorn.Server) -> int:
    """End the server when the node is gone; returns the descriptor that tells."""
    if not node_pid:
        return -1
    try:
        node = os.pidfd_open(node_pid)
    except ProcessLookupError:
        server.should_exit = True
        return -1

    def ended() -> None:
        asyncio.get_running_loop().remove_reader(node)
        server.should_exit = True

    asyncio.get_running_loop().add_reader(node, ended)
    return node
