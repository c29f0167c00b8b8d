"""The program that answers with a session's figures on a port of loopback, to this user's programs.

Owns that socket while it runs. The kernel's table of connections tells which user connected: others are refused before
a byte of theirs is read (the setting `metrics_port_for_all` lets them read). A request that names another host than
loopback is refused, too: it comes from a web page. Needs no package beyond sundog's own. Ends with the session's node,
and when no request has come for a minute; the node starts it again.

Launched by `node/scrapes.py`. Main thread, and one thread for each connection.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from sundog import isolation, trust

if TYPE_CHECKING:
    _Request = socket.socket | tuple[bytes, socket.socket]  # as the standard library's servers say it
    from sundog.dashboard.exposition import Exporter

IDLE_S = 60.0
_CLIENT_S = 10.0
_LOOPBACK = frozenset({"127.0.0.1", "localhost"})


def main(path: str, listener_fd: int, node_pid: int, for_all: bool = False) -> None:
    """Answer on `listener_fd` until the node ends or no request comes for a minute."""
    import gc

    isolation.find_packages()
    gc.enable()
    from sundog import titles
    from sundog.dashboard.exposition import Exporter
    from sundog.observe.sessions import open_session

    titles.begin("metrics")
    listener = socket.socket(fileno=listener_fd)
    listener.set_inheritable(False)
    try:
        node = os.pidfd_open(node_pid)
    except ProcessLookupError:
        return
    serve(Server(listener, Exporter(open_session(path)), for_all=for_all), node)
    sys.stdout.flush()
    os._exit(0)  # a thread whose client does not read must not keep the process alive


def serve(server: Server, node: int, idle_s: float = IDLE_S) -> None:
    """Accept connections until the descriptor `node` is readable, or no request came for `idle_s` seconds."""
    poll = select.poll()
    poll.register(node, select.POLLIN)
    poll.register(server.fileno(), select.POLLIN)
    last = time.monotonic()
    while True:
        ready = {fd for fd, _ in poll.poll(idle_s * 1000)}
        if node in ready:
            return
        if server.fileno() in ready:
            server.handle_request()
            last = time.monotonic()
        elif time.monotonic() - last >= idle_s and not server.busy:
            return


class Server(ThreadingHTTPServer):
    """An HTTP server on a socket that is bound already."""

    daemon_threads = True
    timeout = 0

    def __init__(self, listener: socket.socket, exporter: Exporter, *, for_all: bool = False) -> None:
        super().__init__(listener.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        listener.setblocking(False)
        self.exporter = exporter
        self.for_all = for_all
        self.busy = 0
        self._lock = threading.Lock()

    def verify_request(self, request: _Request, client_address: object) -> bool:
        """Whether the user who connected may read; others get one line and are hung up on."""
        assert isinstance(request, socket.socket)  # of TCP
        request.settimeout(_CLIENT_S)
        if self.for_all:
            return True
        if trust.connected_user(request) in (0, os.geteuid()):
            return True
        reason = (
            b"Figures of this session are for the user who runs it. See the setting metrics_port_for_all.\n"
        )
        try:
            request.sendall(
                b"HTTP/1.0 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%b"
                % (len(reason), reason)
            )
        except OSError:
            pass
        return False

    def process_request_thread(self, request: _Request, client_address: object) -> None:
        """One connection, counted while it lasts."""
        with self._lock:
            self.busy += 1
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self.busy -= 1

    def handle_error(self, request: _Request, client_address: object) -> None:
        """A client that went away is no error."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "sundog"
    sys_version = ""

    def do_GET(self) -> None:
        """The figures, at /metrics."""
        from sundog.dashboard.exposition import CONTENT_TYPE

        host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if host not in _LOOPBACK:
            self._answer(403, "text/plain", b"Ask for 127.0.0.1.\n")
        elif self.path.partition("?")[0] not in ("/metrics", "/metrics/"):
            self._answer(404, "text/plain", b"The figures are at /metrics.\n")
        else:
            self._answer(200, CONTENT_TYPE, self.server.exporter.text())

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Scrapes are not written down."""
