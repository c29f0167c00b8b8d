"""The memory monitor's eyes: readings, the words of an end for memory, what drivers are told, admission.

::

    /proc, cgroups ──► look ──► state.memory.Monitor ──► Rounds: stop, ask, end, let go on
    leases about to be granted ──► admits ──► state.admission.Admission

Owns the clock of the looks, and which functions each owner asks leases for. Jobs with a limit of their own are watched
beside it (`job_memory.py`). Refuses to decide: the two machines do. Runs on the node's only thread; a look takes about
0.15 ms, four times a second while memory is plentiful and up to a hundred times a second when it is about to run out.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Hashable
from typing import TYPE_CHECKING

from sundog import machine
from sundog.node.caps import Caps
from sundog.node.deaths import Deaths
from sundog.node.job_memory import JobMemory, job_arithmetic
from sundog.node.memory_rounds import Rounds
from sundog.node.memory_users import top_users, users_text
from sundog.node.rows import Process
from sundog.node.tripwire import Tripwire
from sundog.plain import replaced
from sundog.state.admission import Admission, LeaseInUse
from sundog.state.memory import End, Monitor, next_look_s
from sundog.state.shapes import Want
from sundog.system import orphans
from sundog.wire.cause import MEMORY, Cause
from sundog.wire.control import RunningTold

if TYPE_CHECKING:
    from sundog.node.memory_rounds import RoundsNode
    from sundog.plain import JsonMapping
    from sundog.wire.status import MemoryFigures

_FRESH_S = 0.02
_FILL_BYTES_PER_CORE_S = 4e9  # the fastest measured rate at which one core fills fresh pages
_HELPLESS_S = 60.0
_HURRY_SHARE = 0.7
_HURRY_NICE = 10
REASON = "memory was running out"


class MemoryKeeper:
    """Memory on one node."""

    def __init__(self, node: RoundsNode) -> None:
        config = node.config
        self.node = node
        self.groups = machine.groups()
        self.monitor = Monitor(config.memory_usage_threshold, config.min_memory_free_bytes)
        self.admission = Admission()
        self.deaths = Deaths(node)
        self.caps = Caps(node, self.groups)
        self.reading = machine.read(self.groups)
        self._read_at = node.now()
        self._refresh_s = config.memory_monitor_refresh_ms / 1e3
        self._fill = _FILL_BYTES_PER_CORE_S * (os.cpu_count() or 1)
        self._tripwire = Tripwire(node.loop, self.look)
        self.rounds = Rounds(
            node, self.monitor, read=self._read, look=self.look, end=self._end, helpless=self._helpless
        )
        self.jobs = JobMemory(node)
        self._functions: dict[tuple[bytes, Hashable], tuple[str, ...]] = {}
        self._tokens = itertools.count(1)
        self._looks = 0
        self._helpless_at = float("-inf")
        self._nice: int | None = os.getpriority(os.PRIO_PROCESS, 0)  # None: the priority cannot be changed
        self._hurrying = False

    def start(self) -> None:
        """Begin to look, unless that is switched off; let leases ask before they are granted."""
        if self.node.config.memory_admission:
            self.node.leases.gate = self.admits
        if self._refresh_s:
            self.look()

    def stop(self) -> None:
        """The session ends."""
        self._tripwire.close()
        self.caps.close()
        self.jobs.close()

    # ------------------------------------------------------------------ looking
    def look(self) -> None:
        """Read memory, do what the monitor says, look again when it is time."""
        self._looks += 1  # cancels the earlier appointments
        this = self._looks
        reading = self._read()
        limit = self.monitor.limit(reading.total_bytes)
        self.rounds.do(self.monitor.look(reading.used_bytes, reading.total_bytes, self.node.now()))
        self._hurry(reading.used_bytes > limit * _HURRY_SHARE)
        wait_s = next_look_s(max(0, limit - reading.used_bytes), self._refresh_s, self._fill)
        if self.monitor.frozen:
            wait_s = min(wait_s, 0.01)
        else:
            self._tripwire.arm(self.groups, reading, limit)
        self.node.loop.after(wait_s, lambda: self.look() if this == self._looks else None)

    def _hurry(self, on: bool) -> None:
        """Where that is allowed, run before our own workers while memory is about to run out."""
        if on == self._hurrying or self._nice is None:
            return
        self._hurrying = on
        try:
            os.setpriority(os.PRIO_PROCESS, 0, self._nice - _HURRY_NICE if on else self._nice)
        except OSError:
            self._nice = None

    def _read(self) -> machine.Reading:
        self.reading = machine.read(self.groups)
        self._read_at = self.node.now()
        return self.reading

    def new_token(self) -> int:
        """A number for a question to owners; no two have the same."""
        return next(self._tokens)

    def runs(self, process: Process, message: RunningTold) -> None:
        """An owner says what runs on the workers it has leased: given to the callback of the question."""
        self.rounds.runs(process, message)
        self.jobs.runs(process, message)

    def own_bytes(self, pid: int) -> int:
        """What a worker holds for itself, with the processes that its code started."""
        return machine.own_bytes(pid) + sum(machine.own_bytes(each) for each in orphans.descendants(pid))

    # ------------------------------------------------------------------ ending
    def _end(self, step: End) -> None:
        reading = self.reading
        told = self.rounds.told.get(step.worker)
        if told is not None:
            self.admission.ended(told[1], step.own_bytes, self.node.now())
        limit = self.monitor.limit(reading.total_bytes)
        facts = {
            "used_bytes": reading.used_bytes,
            "total_bytes": reading.total_bytes,
            "threshold": limit / reading.total_bytes,
            "where": reading.where,
            "own_bytes": step.own_bytes,
            "reason": step.why,
            "retry": step.retry,
        }
        self.kill(step.worker, REASON, facts)

    def kill(self, worker: bytes, reason: str, facts: dict[str, object]) -> None:
        """End a worker for memory; its owners get the facts."""
        process = self.node.processes.get(worker)
        if process is None:
            return
        facts["node_id"] = self.node.node_id.hex()
        facts.setdefault("top_users", top_users(self.node, self.rounds.what))
        process.kill_kind, process.kill_facts = MEMORY, facts
        self.node.workers.kill(worker, reason, intended=False)

    def explained(self, cause: Cause) -> Cause:
        """The cause of an end with the arithmetic behind it, if memory was the reason."""
        if cause.kind != MEMORY or cause.detail:
            return cause
        return replaced(cause, detail=arithmetic(cause.facts))

    def died(self, process: Process, cause: Cause) -> None:
        """A process is gone."""
        self.caps.ended(process.process_id)
        self.jobs.died(process)
        for who in [who for who in self._functions if who[0] == process.process_id]:
            del self._functions[who]
            self.admission.forget(who)
        if process.kind == "worker":
            self.deaths.count(cause)
            if self.monitor.died(process.process_id):
                self.look()

    def _helpless(self) -> None:
        now = self.node.now()
        if now - self._helpless_at < _HELPLESS_S:
            return
        self._helpless_at = now
        reading = self.reading
        rows = users_text(top_users(self.node, self.rounds.what))
        self.deaths.tell(
            f"{reading.where} has {reading.used_bytes / 1e9:.2f} GB of {reading.total_bytes / 1e9:.2f} GB in use, "
            f"above the threshold, and sundog has no worker to end: other programs use the memory.\n{rows}"
        )

    # ------------------------------------------------------------------ admission
    def wanted(self, owner: bytes, key: Hashable, functions: tuple[str, ...]) -> None:
        """An owner asks for leases; which functions wait there, if it says."""
        if functions:
            self._functions[owner, key] = functions

    def admits(self, want: Want) -> str:
        """Whether a lease may be granted now as far as memory goes: "" or why not."""
        who = (want.owner, want.key)
        functions = self._functions.get(who)
        if functions is None or any(name == "memory" for name, _ in want.shape.spec.resources):
            return ""
        node, admission, reading = self.node, self.admission, self.reading
        limit = self.monitor.limit(reading.total_bytes)
        if admission.plenty(node.leases.lease_count(), reading.used_bytes, limit):
            return ""
        if not admission.need(functions):
            return ""
        now = node.now()
        if now - self._read_at > _FRESH_S:
            reading = self._read()
        running = [
            LeaseInUse(
                machine.own_bytes(process.pid), self._functions.get((row.owner, row.key), ()), row.blocked
            )
            for row in node.leases.held(now)
            if (process := node.processes.get(row.worker)) is not None
        ]
        return admission.decide(who, functions, running, reading.used_bytes, limit, now)

    # ------------------------------------------------------------------ questions
    def figures(self) -> MemoryFigures:
        """What is known of memory, for `status` and `why`."""
        reading = self.reading
        return {
            "used_bytes": reading.used_bytes,
            "total_bytes": reading.total_bytes,
            "limit_bytes": self.monitor.limit(reading.total_bytes),
            "where": reading.where,
            "learnt": self.admission.learnt(),
            "decisions": [
                {
                    "seconds_ago": self.node.now() - each.at,
                    "function": each.function,
                    "admitted": each.admitted,
                    "why": each.text,
                }
                for each in self.admission.decisions
            ],
            "ended_for_memory": self.deaths.memory_total,
            "ended_otherwise": self.deaths.other_total,
        }


def arithmetic(facts: JsonMapping) -> str:
    """How it came to an end for memory, in lines."""
    own = f"It held {facts['own_bytes'] / 1e9:.2f} GB for itself"
    if "job" in facts:
        return job_arithmetic(facts)
    if "cap_bytes" in facts:
        return f"{own}, above the {facts['cap_bytes'] / 1e9:.2f} GB of its memory= with enforce_memory=True."
    used, total = facts["used_bytes"], facts["total_bytes"]
    first = (
        f"{own} when {facts['where']} had {used / 1e9:.2f} GB of {total / 1e9:.2f} GB in use ({used / total:.1%}), "
        f"above the threshold of {facts['threshold']:.1%}. It was chosen because {facts['reason']}."
    )
    return f"{first}\n{users_text(facts['top_users'])}"
