"""Workers that cannot start: tried again ever later, and said.

Owns the count of failures in a row for each environment, and the one message about them. Without it a worker that
ends before it serves (the system allows no thread, for example) would be replaced at once, for ever. A pip
environment or a hook that fails is no matter of this file: it fails its tasks (`env_failed`). Runs on the node's only
thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.printable import printable
from sundog.wire.control import StartFailed, WarnOnce

if TYPE_CHECKING:
    from sundog.node.interfaces import NodeBasics
    from sundog.node.rows import Process

_REPEAT_S = 60.0
_IN_A_ROW_S = 60.0  # a failure so long after the last one starts a new series


class FailedStarts:
    """Counts failures of workers to start, and spreads the attempts."""

    def __init__(self, node: NodeBasics) -> None:
        self.node = node
        self._counts: dict[str, int] = {}
        self._last_at = float("-inf")
        self._said_at = float("-inf")

    def told(self, process: Process, message: StartFailed) -> None:
        """A worker says why it could not begin to serve; it ends now."""
        now = self.node.now()
        if now - self._last_at > _IN_A_ROW_S:
            self._counts.clear()
        self._last_at = now
        self._counts[process.env_key] = failures = self._counts.get(process.env_key, 0) + 1
        self.node.leases.delay_starts(process.node_id, process.env_key, failures, now)
        if not process.kill_reason:  # what its actor, if it was to be one, has died of
            process.kill_reason, process.intended = f"it could not start: {message.text.rstrip('.')}", False
        self.say(message.text)

    def say(self, text: str) -> None:
        """Tell the log, and the drivers now and then."""
        self.node.log(f"a worker could not start: {text}")
        if self.node.now() - self._said_at < _REPEAT_S:
            return
        self._said_at = self.node.now()
        shown = f"Workers cannot start now, so tasks and actors wait: {printable(text)} See: sundog status"
        for job in self.node.jobs.values():
            driver = self.node.processes.get(job.driver)
            if driver is not None:
                driver.line.send(WarnOnce("failed_starts", shown))
