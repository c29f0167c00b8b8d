"""Whether somebody debugs a task of this session: then no bound on time ends.

Owns the clock that stands still meanwhile. The node tells every process when the first task is paused and when the
last one goes on; a thread that waited too long asks first how much of that time does not count. A session in which
nobody debugs pays nothing. Written under the owner's lock, by whichever thread reads; read by any.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from sundog import notices
from sundog.owner import interrupts
from sundog.wire.control import PauseCounts

_SHUTDOWN_LOOK_S = 0.1
_LEAST_S = 0.05


class KnownPauses:
    """What one process knows of the paused tasks of its session."""

    def __init__(self) -> None:
        self.count = 0
        self.attached = 0
        self._before_s = 0.0  # total length of the pauses that are over
        self._since_s = 0.0

    def told(self, message: PauseCounts) -> None:
        """The node reports how many tasks are paused, and how many of them have a debugger attached."""
        _, count, attached = message
        now = time.monotonic()
        if count and not self.count:
            self._since_s = now
        elif self.count and not count:
            self._before_s += now - self._since_s
        self.count, self.attached = count, attached

    def total_s(self) -> float:
        """How long tasks have stood in this session so far."""
        since = self._since_s
        return self._before_s + (time.monotonic() - since if self.count else 0.0)

    def owed_s(self, before_s: float) -> float:
        """How much longer a limit runs whose time began when `total_s` was `before_s`; 0 if it is over."""
        owed = self.total_s() - before_s
        return max(owed, _LEAST_S) if owed > 0.0 else 0.0

    def await_prompts(self, is_over: Callable[[], bool]) -> None:
        """Wait until no debugger is attached any more: the driver is about to end, and its tasks with it."""
        if not self.attached:
            return
        notices.note(
            "The program has ended, but waits for a user at the prompt of a paused task. Ctrl-C ends the wait."
        )
        try:
            # A handler runs after the verb that a signal interrupts, and the end of the session is one.
            while self.attached and not is_over() and not interrupts.take(signal.SIGINT):
                time.sleep(_SHUTDOWN_LOOK_S)
        except KeyboardInterrupt:
            return
