"""A thread that sends replies which would otherwise wait behind a task that turns out to be long.

Owned by `Serving`; the thread starts with the first batch. It looks seldom, since each look takes the interpreter
from the task that runs: after `BATCH_S` at a batch, after `ITEM_S` at a generator's item, and while batches follow
each other as they should, more and more seldom.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

BATCH_S = 0.15  # longer than a packet of tasks should take
ITEM_S = 2e-3
_CALM_MAX_S = 0.15
_QUIET_LOOKS = 3  # after so many checks without work the thread sleeps until the guard is armed
_perf = time.perf_counter
_FOREVER = float("inf")


class FlushGuard:
    """Calls `flush` when the guarded work has taken too long. The threads that run tasks arm it."""

    def __init__(self, flush: Callable[[], None]) -> None:
        self._flush = flush
        self._due_at = 0.0  # 0: there is nothing to guard
        self._once = False
        self._looks_at = 0.0  # when the thread checks next without being woken; 0: about to check
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None

    def begin_batch(self) -> None:
        """Several tasks follow each other: from now on `flush` is called at intervals."""
        self._once = False
        self._arm(BATCH_S, _CALM_MAX_S)

    def renew(self) -> None:
        """The batch goes on, and its replies were sent just now."""
        self._due_at = _perf() + BATCH_S

    def end_batch(self) -> None:
        """The batch is over, and its replies are sent."""
        self._due_at = 0.0

    def watch_item(self) -> None:
        """Have a generator's item sent if no other item comes soon; a guard that watches a batch does this
        anyway.
        """
        if self._due_at == 0.0:
            self._once = True
            self._arm(ITEM_S, 0.0)

    def _arm(self, delay_s: float, late_s: float) -> None:
        self._due_at = due_at = _perf() + delay_s
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True, name="sundog-flush")
            try:
                self._thread.start()
            except RuntimeError:  # the system allows no more threads: replies wait for the end of their batch
                self._thread = None
        elif self._looks_at > due_at + late_s:
            with self._condition:
                self._condition.notify()

    def _run(self) -> None:
        quiet = 0
        calm_s = 0.0  # how much longer to wait, if no recent batch needed the guard
        while True:
            quiet = 0 if self._due_at else quiet + 1
            with self._condition:
                # Set before the check: a thread that arms the guard after the check sees this flag and wakes
                # this thread.
                self._looks_at = _FOREVER
                now, due_at = _perf(), self._due_at
                if due_at or quiet < _QUIET_LOOKS:
                    wait_s = due_at - now if now < due_at else BATCH_S
                    if not self._once:
                        wait_s = max(wait_s, calm_s)
                    self._looks_at = now + wait_s
                    self._condition.wait(wait_s)
                else:
                    self._condition.wait()
                self._looks_at = 0.0
            due_at = self._due_at
            if due_at and _perf() >= due_at:
                calm_s = 0.0
                if self._once:
                    # before the flush: an item that is queued after the flush arms the guard again
                    self._due_at = 0.0
                self._flush()
            else:
                calm_s = _CALM_MAX_S
