"""The head process beside the node: started, started again when it dies, ended with the session.

Owns the listening socket of the head process while the node lives, so that connections wait out a restart, and the pid.
Its death harms nothing: tasks never come near it, and jobs have supervisors of their own, which become children of
this process. A head process that dies again and again is started ever later, and then not at all; node.log says so.
Runs in the node, main thread.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

from sundog.node.beside import LISTENER_FD, spawn

if TYPE_CHECKING:
    from sundog.node.interfaces import NodeBasics

LOG = "head.log"
_GRACE_S = 3.0
_GRACE_LOOK_S = 0.01
_YOUNG_S = 30.0
_YOUNG_DEATHS_MAX = 5


class HeadKeeper:
    """Keeps a head process running, if the session has one."""

    def __init__(self, node: NodeBasics) -> None:
        self.node = node
        self.listener: int | None = node.params.get("head_fd")
        self.pid = 0
        self.began_at = 0.0
        self.young_deaths = 0

    def start(self) -> None:
        """Start the program, unless the session has none."""
        if self.listener is None or self.node.stopping:
            return
        try:
            self.pid = self._spawn(self.listener)
        except OSError as error:
            self.node.log(f"the head process cannot be started: {error}")
            self._again()
            return
        self.began_at = time.monotonic()
        self.node.log(f"the head process is started (pid {self.pid})")

    def _spawn(self, listener: int) -> int:
        config = self.node.config
        words = f"{self.node.session['path']!r}, {LISTENER_FD}, {config.max_running_jobs}, {config.metrics_export_port}"
        return spawn(self.node, f"sundog.head.program.main({words})", listener, LOG)

    def exited(self, pid: int, status: int) -> bool:
        """A child ended; whether it was the head process."""
        if pid != self.pid or not pid:
            return False
        self.pid = 0
        if not self.node.stopping:
            code = os.waitstatus_to_exitcode(status)
            how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
            self.node.log(f"the head process (pid {pid}) ended with {how}; its log: {LOG}")
            self._again()
        return True

    def _again(self) -> None:
        young = time.monotonic() - self.began_at < _YOUNG_S
        self.young_deaths = self.young_deaths + 1 if young else 0
        if self.young_deaths > _YOUNG_DEATHS_MAX:
            self.node.log("the head process is not started again: it died too often. Try: sundog dashboard")
            self._give_up()
            return
        self.node.loop.after(_delay_s(self.young_deaths), self.start)

    def _give_up(self) -> None:
        from sundog.engines.heads import remove_head

        if self.listener is not None:
            # clients are refused at once instead of waiting for an answer that never comes
            os.close(self.listener)
            self.listener = None
        remove_head(self.node.session["path"])

    def stop(self) -> None:
        """The session ends: let the head process tell its clients, for a moment."""
        if self.listener is None:
            return
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
            deadline = time.monotonic() + _GRACE_S
            while time.monotonic() < deadline:
                with contextlib.suppress(ChildProcessError):
                    if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                        time.sleep(_GRACE_LOOK_S)
                        continue
                break
        self._give_up()


def _delay_s(deaths: int) -> float:
    return min(5.0, 0.05 * 2.0**deaths)
