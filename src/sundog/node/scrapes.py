"""The port on which a session's figures are read, and the program that answers there.

::

    nodes(), init().address_info ──► port(): a listener on 127.0.0.1, no more
    first connection ──► the program (`dashboard/scraping.py`), with the listener; it ends after a minute without one
    next connection  ──► the program again

Owns the listener and the program's pid. Nothing is bound before a program asks for the port (or chooses one:
`metrics_export_port`), and nothing runs before a client connects. A program that dies at once is started again ever
later. Runs in the node, main thread.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

from sundog.node.beside import LISTENER_FD, spawn

if TYPE_CHECKING:
    import socket
    from typing import Protocol

    from sundog.node.heads import HeadKeeper
    from sundog.node.interfaces import NodeBasics

    class _Node(NodeBasics, Protocol):
        """The node, with its head process, which may serve the figures instead."""

        head: HeadKeeper


LOG = "metrics.log"
_YOUNG_S = 5.0
_DELAY_MAX_S = 30.0
_BACKLOG = 64


class ScrapeKeeper:
    """Gives the session a port for its figures when it is asked for one."""

    def __init__(self, node: _Node) -> None:
        self.node = node
        self.listener: socket.socket | None = None
        self.pid = 0
        self.began_at = 0.0
        self.young_ends = 0

    def port(self) -> int:
        """The port; 0 if the setting `metrics_port` is off, or none can be had."""
        if self.listener is None and self.node.config.metrics_port and not self.node.stopping:
            self._listen()
        return 0 if self.listener is None else int(self.listener.getsockname()[1])

    def start(self) -> None:
        """Listen at once if the program chose the port; a session with a head process has the port there."""
        chosen = self.node.config.metrics_export_port
        if chosen and self.node.config.metrics_port and self.node.head.listener is None:
            self._listen(chosen)

    def _listen(self, port: int = 0) -> None:
        import socket  # only sessions that are scraped load this

        try:
            self.listener = socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)
        except OSError as error:
            self.node.log(f"the session gets no port {port or ''} for its figures: {error}")
            return
        self._watch()

    def _watch(self) -> None:
        if self.listener is not None:
            self.node.loop.add(self.listener.fileno(), self._connected)

    def _connected(self) -> None:
        assert self.listener is not None
        self.node.loop.remove(self.listener.fileno())
        try:
            self.pid = self._spawn(self.listener.fileno())
        except OSError as error:
            self.node.log(f"the program for figures cannot be started: {error}")
            self._again()
            return
        self.began_at = time.monotonic()

    def _spawn(self, listener: int) -> int:
        node = self.node
        words = (
            f"{node.session['path']!r}, {LISTENER_FD}, {os.getpid()}, {node.config.metrics_port_for_all!r}"
        )
        return spawn(node, f"sundog.dashboard.scraping.main({words})", listener, LOG)

    def exited(self, pid: int, status: int) -> bool:
        """A child ended; whether it was the program."""
        if pid != self.pid or not pid:
            return False
        self.pid = 0
        if not self.node.stopping:
            if status:
                code = os.waitstatus_to_exitcode(status)
                self.node.log(f"the program for figures (pid {pid}) ended with {code}; its log: {LOG}")
            self._again()
        return True

    def _again(self) -> None:
        young = time.monotonic() - self.began_at < _YOUNG_S
        self.young_ends = self.young_ends + 1 if young else 0
        if self.young_ends:
            self.node.loop.after(min(_DELAY_MAX_S, 0.1 * 2.0**self.young_ends), self._watch)
        else:
            self._watch()

    def stop(self) -> None:
        """The session ends."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)  # the process has no state that could be lost
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
            self.pid = 0
        if self.listener is not None:
            self.listener.close()
            self.listener = None
