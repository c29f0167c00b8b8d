"""Follows the facts that a node records: deaths, spills, samples of the machine. Cheap while nothing happens.

Owns how far one session's segments were read, and the sums of what was found. Reads only blocks of facts; events of
tasks are passed over unread, so a flood of tasks costs nothing here. Runs in the process of whoever looks, one thread.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from typing import Any

from sundog.observe import segments
from sundog.observe.metric_history import History
from sundog.plain import plain

HISTORY_S = 3600
_EVENTS_MAX = 2000
_SHOWN = frozenset({"worker", "actor", "job", "spill", "restore", "node", "placement_group"})


@plain(frozen=True)
class Fact:
    """One thing that the node did or saw."""

    at_s: float
    kind: str
    subject: str
    data: dict[str, Any]


class FactTail:
    """The facts of one session so far.

    Args:
        session_path: its folder.
    """

    def __init__(self, session_path: str) -> None:
        self.session_path = session_path
        self._segment, self._offset = 0, segments.HEADER_BYTES
        self.deaths: Counter[str] = Counter()
        self.deaths_by_type: Counter[str] = Counter()
        self.out_of_memory: Counter[str] = Counter()
        self.spilled_bytes = self.spilled_objects = 0
        self.restored_bytes = self.restored_objects = 0
        self.spill_s = self.restore_s = 0.0
        self.machine: deque[Fact] = deque(maxlen=HISTORY_S)
        self.events: deque[Fact] = deque(maxlen=_EVENTS_MAX)
        self.metrics = History()  # of the program's own metrics
        self.number = 0  # of facts read so far

    def read(self) -> None:
        """Read what is new."""
        for segment in segments.list_segments(self.session_path):
            if segment.number < self._segment:
                continue
            if segment.number > self._segment:
                self._segment, self._offset = segment.number, segments.HEADER_BYTES
            for block in segments.scan(segment, self._offset):
                self._offset = segments.after(block)
                if block.kind == segments.FACTS:
                    for line in segments.payload(segment, block).decode(errors="replace").splitlines():
                        self._take(line)

    def _take(self, line: str) -> None:
        try:
            data = json.loads(line)
            kind, at_s = data.pop("fact"), float(data.pop("s"))
        except (ValueError, KeyError, TypeError, AttributeError):
            return
        fact = Fact(at_s, kind, str(data.get("subject", "")), data)
        self.number += 1
        if kind == "machine":
            self.machine.append(fact)
        elif kind == "metrics":
            self.metrics.take(at_s, data.get("series") or {})
        elif kind in _SHOWN:
            self.events.append(fact)
        if kind == "worker":
            self._death(data)
        elif kind == "spill":
            self.spilled_bytes += int(data.get("bytes", 0))
            self.spilled_objects += int(data.get("count", 0))
            self.spill_s += float(data.get("seconds", 0.0))
        elif kind == "restore":
            self.restored_bytes += int(data.get("bytes", 0))
            self.restored_objects += 1
            self.restore_s += float(data.get("seconds", 0.0))

    def _death(self, data: dict[str, Any]) -> None:
        row = data.get("row") or {}
        if row.get("worker_type") == "DRIVER":
            return
        cause = str(data.get("cause") or "unknown")
        reason = str(data.get("reason") or "")
        self.deaths[f"{cause}: {reason}" if cause == "ended" and reason else cause] += 1
        self.deaths_by_type[str(row.get("exit_type") or "")] += 1
        if cause in ("memory", "kernel_oom"):
            self.out_of_memory[cause] += 1
