"""The node's reading of its session's records: totals per function, kept up to date and saved.

Owns the ledger (`observe/ledger.py`) and when it is read: every second, a few thousand events at a time, so
that leases never wait behind it; a dead process's ring at once; the rest when somebody asks. Whoever wants
to know what tasks needed (learnt admission) adds itself to `observers`. Runs on the node's only thread.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sundog.node.program import Node
    from sundog.observe.ledger import Ledger, Observer

_EVERY_S = 1.0
_PORTION = 4096  # events: about 3 ms of work
_PAUSE_S = 0.02
_SAVE_EVERY_S = 30.0


class Records:
    """What the node knows of the tasks that ended."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.observers: list[Observer] = []
        """Called with name and peak memory of every task whose memory was measured, or seen before it died."""
        self._ledger: Ledger | None = None
        self._dead: list[str] = []
        self._turn = 0
        self._unsaved = 0
        self._save_at = 0.0

    @property
    def ledger(self) -> Ledger:
        """The totals; loaded when they are first read, for the first task does not wait for them."""
        if self._ledger is None:
            from sundog.observe.ledger import Ledger

            self._ledger = Ledger(self.node.session["path"])
            self._ledger.observers = self.observers
        return self._ledger

    def start(self) -> None:
        """Read on from now on."""
        if self.node.config.record_enabled:
            self.node.loop.after(_EVERY_S, self._tick)

    def _tick(self) -> None:
        more = self.drain(_PORTION)
        self.node.loop.after(_PAUSE_S if more else _EVERY_S, self._tick)
        if self._unsaved and self.node.now() > self._save_at:
            self._save_at = self.node.now() + _SAVE_EVERY_S
            self.save()

    def drain(self, most: int = 1 << 30) -> bool:
        """Read what is new, up to `most` events; True if there may be more."""
        left = most
        while self._dead and left > 0:
            read = self.ledger.drain(self._dead[0], left, final=True)
            left -= read
            if left > 0:
                del self._dead[0]
        rings = [self.ring(process_id) for process_id in self.node.processes]
        for _ in range(len(rings)):
            if left <= 0:
                break
            self._turn += 1  # the one after the one that used up the last portion comes first
            left -= self.ledger.drain(rings[self._turn % len(rings)], left)
        self._unsaved += most - left
        return left <= 0

    def process_died(self, process_id: bytes) -> None:
        """A process is gone: what it wrote last is read soon."""
        if self.node.config.record_enabled:
            self._dead.append(self.ring(process_id))

    def usage(self) -> dict[str, Any]:
        """Figures of every function and class, up to now; in the form of `observe.ledger.session_usage`."""
        while self.drain():
            pass
        totals = self.ledger.totals
        return {
            "functions": totals.functions(),
            "classes": totals.classes(),
            "missed": self.ledger.missed,
        }

    def save(self) -> None:
        """Keep what is known where a reader of the finished session finds it."""
        self._unsaved = 0
        with contextlib.suppress(OSError):  # a full disk, or a folder that was removed
            self.ledger.save()

    def reads(self, process_id: bytes) -> bool:
        """Whether there is more to read of a process that is gone."""
        return self.ring(process_id) in self._dead

    def forget(self, process_id: bytes) -> None:
        """A dead process' ring is removed: its events are in the totals, and nowhere else from now on."""
        if self.node.config.record_enabled:
            self.ledger.forget(self.ring(process_id))
            self._unsaved += 1

    def ring(self, process_id: bytes) -> str:
        """Where a process' ring is."""
        return os.path.join(self.node.session["path"], "rings", f"{process_id.hex()}.ring")
