"""File descriptors, on the node's side: near its limit, new workers wait.

Owns the worker starts that are held back, and the one message about them. A worker costs the node its control socket.
Lanes that are parked here until their actor has a worker do not count: starting it is what passes them on. A driver
sees to its own limit, by opening no more lanes (`owner/actors.py`); it must not keep workers from starting, for each
that comes up gives the driver one end of a lane back. Descriptors of processes that end come back by themselves, so the
starts are tried again until there is room. Runs on the node's only thread.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, Protocol

from sundog.state.instructions import StartWorker
from sundog.system.descriptors import DescriptorGauge, read
from sundog.wire.control import WarnOnce

if TYPE_CHECKING:
    from sundog.node.interfaces import WithActors, WithWorkers
    from sundog.node.rows import Process
    from sundog.wire.row import Row

    class DescriptorsNode(WithActors, WithWorkers, Protocol):
        """What the bound on descriptors asks of the node."""


_AGAIN_S = 0.1
_REPEAT_S = 60.0
_COST = 3  # per worker: the control socket, and both ends of the pair while it is handed over


class Descriptors:
    """Holds back worker starts while descriptors are short."""

    def __init__(self, node: DescriptorsNode) -> None:
        self.node = node
        self._gauge = DescriptorGauge(os.getpid(), self._read)
        self._held: deque[StartWorker] = deque()
        self._said_at = float("-inf")

    def holds_back(self, instruction: StartWorker) -> bool:
        """Whether a worker must not be started now; it will be when there is room."""
        if not self._held and self._room():
            return False
        if not self._held:
            self.node.loop.after(_AGAIN_S, self._again)
        self._held.append(instruction)
        return True

    def bereft(self, _process: Process, message: Row) -> None:
        """A message came without its socket, for which no descriptor was free here."""
        self._gauge.used_up()
        self.node.log(f"a socket that came with the message {message.kind!r} was lost")
        self._say(self._gauge.text("The node"))

    def _again(self) -> None:
        while self._held and self._room():
            self.node.workers.start_now(self._held.popleft())
        if self._held:
            self.node.loop.after(_AGAIN_S, self._again)

    def _read(self, pid: int) -> tuple[int, int]:
        used, limit = read(pid)
        return used - self.node.keeper.parked(), limit

    def _room(self) -> bool:
        if self._gauge.take(_COST):
            return True
        self._say(self._gauge.text("The node"))
        return False

    def _say(self, text: str) -> None:
        if self.node.now() - self._said_at < _REPEAT_S:
            return
        self._said_at = self.node.now()
        self.node.log(text)
        for job in self.node.jobs.values():
            driver = self.node.processes.get(job.driver)
            if driver is not None:
                driver.line.send(WarnOnce("descriptors", text))
