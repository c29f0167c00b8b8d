"""A summary for the drivers: how many workers ended for lack of memory, and how many for other reasons.

Said a moment after the first of a series and then at most once per `memory_summary_s`, so that a thousand kills are a
few lines. Owns the counts and the time of the next line. Runs on the node's only thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.wire.cause import MEMORY, Cause
from sundog.wire.control import Notice

if TYPE_CHECKING:
    from sundog.node.interfaces import WithMemory

_FIRST_S = 1.0
_FOR_MEMORY = (MEMORY, "kernel_oom")  # kills by the kernel, where the cause says so


class Deaths:
    """Counts the unexpected ends of this node's workers."""

    def __init__(self, node: WithMemory) -> None:
        self.node = node
        self.memory_total = 0
        self.other_total = 0
        self._told = (0, 0)
        self._told_at = float("-inf")
        self._scheduled = False

    def count(self, cause: Cause) -> None:
        """A worker is gone."""
        if cause.intended or self.node.stopping or {"cap_bytes", "job"} & cause.facts.keys():
            # a worker that exceeded its own or its job's cap says nothing about the machine; its error
            # reports it
            return
        if cause.kind in _FOR_MEMORY:
            self.memory_total += 1
        else:
            self.other_total += 1
        # Crashes are reported by the errors of their tasks. Memory is shared by many tasks, so it gets a
        # summary.
        if self.memory_total > self._told[0] and not self._scheduled:
            self._scheduled = True
            interval = self.node.config.memory_summary_s
            due = max(_FIRST_S, self._told_at + interval - self.node.now())
            self.node.loop.after(due, self.summarise)

    def summarise(self) -> None:
        """Tell the drivers what happened since the last summary, if anything did."""
        self._scheduled = False
        memory, other = self.memory_total - self._told[0], self.other_total - self._told[1]
        if not memory:
            return
        now = self.node.now()
        since = f"in the last {now - self._told_at:.0f} s" if self._told[0] else "so far"
        self._told, self._told_at = (self.memory_total, self.other_total), now
        node = self.node
        reading = node.memory.reading
        limit = node.memory.monitor.limit(reading.total_bytes)
        self.tell(
            f"{_workers(memory)} ended for lack of memory and {_workers(other)} crashed for other reasons {since} on "
            f"node {node.node_id.hex()} ({node.memory.reading.where}: {reading.used_bytes / 1e9:.2f} GB of "
            f"{reading.total_bytes / 1e9:.2f} GB in use, at most {limit / 1e9:.2f} GB may be). Their tasks are tried "
            "again as their options allow. To need less: give the functions memory= or more num_cpus=, so that fewer "
            "run at once. See: sundog status"
        )

    def tell(self, text: str) -> None:
        """Show a warning in every driver that shows its workers' output."""
        self.node.log(text)
        for job in self.node.jobs.values():
            driver = self.node.processes.get(job.driver)
            if driver is not None and job.log_to_driver:
                driver.line.send(Notice(text))


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"
