"""Follows the facts that a node records: deaths, spills, samples of the machine. Cheap while nothing happens.

Owns how far one session's segments were read, and the sums of what was found. Reads only blocks of facts; events of
tasks are passed over unread, so a flood of tasks costs nothing here. Runs in the caller's process, one thread.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from typing import TYPE_CHECKING

from sundog.observe import segments
from sundog.observe.metric_history import History, Sample
from sundog.plain import plain

if TYPE_CHECKING:
    from typing import TypedDict

    class FactRow(TypedDict, total=False):
        """A row of the state API that came with a fact: of a worker, an actor, a job or a node."""

        worker_type: str
        pid: int
        exit_type: str
        exit_detail: str
        state: str
        class_name: str
        name: str
        death_cause: object
        status: str
        entrypoint: str
        resources_total: object

    class FactData(TypedDict, total=False):
        """What a fact tells, apart from its kind and its time; each kind has some of it."""

        subject: str
        row: FactRow
        cause: str
        reason: str
        last_line: str
        count: int
        bytes: int
        seconds: float
        series: dict[str, Sample]
        cpu: float
        memory_used: float
        memory_total: float
        store_used: float
        store_total: float


HISTORY_S = 3600
_EVENTS_MAX = 2000
_SHOWN = frozenset({"worker", "actor", "job", "spill", "restore", "node", "placement_group"})


@plain(frozen=True)
class Fact:
    """One thing that the node did or saw."""

    at_s: float
    kind: str
    subject: str
    data: FactData


class FactTail:
    """The facts of one session so far.

    Args:
        session_path: its folder.
    """

    def __init__(self, session_path: str) -> None:
        self._follower = segments.SegmentFollower(session_path)
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
        for segment, block in self._follower.new_blocks():
            if block.kind == segments.FACTS:
                for line in segments.payload(segment, block).decode(errors="replace").splitlines():
                    self._take(line)

    def _take(self, line: str) -> None:
        try:
            told = json.loads(line)
            kind, at_s = told.pop("fact"), float(told.pop("s"))
        except (ValueError, KeyError, TypeError, AttributeError):
            return
        data: FactData = told
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

    def _death(self, data: FactData) -> None:
        row = data.get("row") or {}
        if row.get("worker_type") == "DRIVER":
            return
        cause = str(data.get("cause") or "unknown")
        reason = str(data.get("reason") or "")
        self.deaths[f"{cause}: {reason}" if cause == "ended" and reason else cause] += 1
        self.deaths_by_type[str(row.get("exit_type") or "")] += 1
        if cause in ("memory", "kernel_oom"):
            self.out_of_memory[cause] += 1
