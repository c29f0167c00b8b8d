"""What workers print, on its way to their drivers: read when it is due, sent in batches.

::

    LogTails (logs.py) ─► batches ─► LogLines ─► the driver of the job, unless it was started with log_to_driver=False

Owns when the files are looked at next. Refuses to read or to parse them. Runs on the node's only thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from sundog.wire.control import LogLines

if TYPE_CHECKING:
    from sundog.net.loop import Loop
    from sundog.node.logs import LogBatch, LogTails
    from sundog.node.rows import Job, Process

_SOONEST_S = 0.005
_ALL_DUE_S = 1e6  # so far in the future every file is due
_FLUSHES_MAX = 100


class LogDelivery:
    """Gives each job's driver what the job's workers print."""

    def __init__(
        self,
        tails: LogTails,
        loop: Loop,
        now: Callable[[], float],
        jobs: Mapping[bytes, Job],
        processes: Mapping[bytes, Process],
    ) -> None:
        self._tails = tails
        self._loop = loop
        self._now = now
        self._jobs = jobs
        self._processes = processes
        self._scheduled = False

    def wake(self) -> None:
        """Look at the workers' output when it is due."""
        if self._scheduled:
            return
        due = self._tails.next_poll_in_s(self._now())
        if due is not None:
            self._scheduled = True
            self._loop.after(max(_SOONEST_S, due), self._poll)

    def flush(self) -> None:
        """Send all that the files hold now."""
        for _ in range(_FLUSHES_MAX):
            batches = self._tails.poll(self._now() + _ALL_DUE_S)
            self._send(batches)
            # A read may find no whole line and yet not reach the end: long lines are read in pieces.
            if not batches and not self._tails.pending_bytes:
                return

    def _poll(self) -> None:
        self._scheduled = False
        self._send(self._tails.poll(self._now()))
        self.wake()

    def _send(self, batches: Iterable[LogBatch]) -> None:
        for batch in batches:
            for job in self._jobs.values():
                driver = self._processes.get(job.driver)
                if driver is not None and job.log_to_driver and batch.job_id == job.job_id:
                    driver.line.send(LogLines(tuple(batch)))
