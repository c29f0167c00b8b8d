"""The memory monitor's hands and eyes: readings, stopping and ending processes, what drivers are told.

::

    /proc, cgroups ──► look ──► state.memory.Monitor ──► Freeze, Ask, Retire, End, Thaw
    owners ◄──("running", token)── Ask                  End ──► Workers.kill, with the arithmetic as facts
    owners ──("runs", token, rows)──► told ──► Monitor
    leases about to be granted ──► admits ──► state.admission.Admission

Owns the clock of the looks, the list of what was stopped, and which functions each owner asks leases for. Refuses to
decide: the two machines do. Runs on the node's only thread; a look takes about 0.15 ms, four times a second while
memory is plentiful and up to a hundred times a second when it is about to run out.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from sundog import events, machine
from sundog.node.caps import Caps
from sundog.node.deaths import Deaths
from sundog.node.memory_users import top_users, users_text
from sundog.node.rows import Process
from sundog.node.tripwire import Tripwire
from sundog.plain import replaced
from sundog.state.admission import Admission, Running
from sundog.state.memory import (
    ASK,
    FREEZE,
    HELPLESS,
    THAW,
    Candidate,
    End,
    MemoryInstruction,
    Monitor,
    Retire,
    next_look_s,
)
from sundog.state.shapes import Want
from sundog.state.status import HeldRow
from sundog.system import orphans
from sundog.wire.cause import MEMORY, Cause
from sundog.wire.control import RunningTold, TellRunning

if TYPE_CHECKING:
    from sundog.node.program import Node

_ANSWER_S = 0.05
_FRESH_S = 0.02
_FILL_BYTES_PER_CORE_S = 4e9  # the fastest that one core was seen to fill fresh pages
_HELPLESS_S = 60.0
_HURRY_SHARE = 0.7
_HURRY_NICE = 10
REASON = "memory was running out"


class MemoryKeeper:
    """Memory on one node."""

    def __init__(self, node: Node) -> None:
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
        self._frozen: list[int] = []
        self._functions: dict[tuple[bytes, Hashable], tuple[str, ...]] = {}
        self._asked: set[bytes] = set()  # owners that have not answered yet
        self._unasked: set[bytes] = set()  # owners that are stopped and cannot answer
        self._told: dict[bytes, tuple[bytes, str, int]] = {}  # worker → task, its name, retries left
        self._token = 0
        self._looks = 0
        self._helpless_at = float("-inf")
        self._nice: int | None = os.getpriority(os.PRIO_PROCESS, 0)  # None: not ours to change
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

    # ------------------------------------------------------------------ looking
    def look(self) -> None:
        """Read memory, do what the monitor says, look again when it is time."""
        self._looks += 1  # earlier appointments are off
        this = self._looks
        reading = self._read()
        limit = self.monitor.limit(reading.total_bytes)
        self._do(self.monitor.look(reading.used_bytes, reading.total_bytes, self.node.now()))
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

    def _do(self, steps: list[MemoryInstruction]) -> None:
        for step in steps:
            if step is FREEZE:
                self._freeze()
            elif step is THAW:
                self._thaw()
            elif step is ASK:
                self._ask()
            elif isinstance(step, Retire):
                for worker in step.workers:
                    self.node.do(self.node.leases.retire_worker(worker))
            elif isinstance(step, End):
                self._end(step)
            elif step is HELPLESS:
                self._helpless()

    # ------------------------------------------------------------------ stopping without ending
    def _freeze(self) -> None:
        """Stop what runs, but for processes blocked in a get: those wait, and may be owners that we ask."""
        for row in self.node.leases.held(self.node.now()):
            process = self.node.processes.get(row.worker)
            if process is None or row.blocked or not process.pid or machine.is_stopped(process.pid):
                continue  # stopped by somebody else: theirs to continue
            self._frozen.append(process.pid)
            _signal(process.pid, signal.SIGSTOP)

    def _thaw(self) -> None:
        frozen, self._frozen = self._frozen, []
        for pid in frozen:
            if pid in self.node.workers.by_pid:
                _signal(pid, signal.SIGCONT)

    # ------------------------------------------------------------------ asking what runs
    def _ask(self) -> None:
        self._token += 1
        token = self._token
        self._told = {}
        owners = {row.owner for row in self.node.leases.held(self.node.now())} & self.node.processes.keys()
        self._unasked = {each for each in owners if self.node.processes[each].pid in self._frozen}
        self._asked = owners - self._unasked
        for owner in list(self._asked):
            self.node.processes[owner].line.send(TellRunning(token))
        self.node.loop.after(_ANSWER_S, lambda: self._decide(token))
        if not self._asked:
            self._decide(token)

    def runs(self, process: Process, message: RunningTold) -> None:
        """An owner says what runs on the workers it has leased."""
        token = message.token
        if token != self._token:
            return
        for worker, task_id, name, retries in message.rows:
            self._told[worker] = (task_id, name, retries)
        self._asked.discard(process.process_id)
        if not self._asked:
            self._decide(token)

    def _decide(self, token: int) -> None:
        if token != self._token:
            return
        self._token += 1  # once
        reading = self._read()
        limit = self.monitor.limit(reading.total_bytes)
        if reading.used_bytes <= limit:
            return self.look()  # somebody gave some back meanwhile
        candidates = self._candidates()
        if self.node.config.memory_admission:
            for each in candidates:
                told = self._told.get(each.worker)
                if told is not None:
                    self.admission.at_least(told[1], each.own_bytes)
        self._do(self.monitor.told(candidates, limit, self.node.now()))

    def _candidates(self) -> list[Candidate]:
        node = self.node
        base = machine.own_bytes(node.workers.zygote_pid)
        found = [
            Candidate(worker, machine.own_bytes(process.pid) - base, process.started_at, idle=True)
            for worker in node.leases.idle_workers()
            if (process := node.processes.get(worker)) is not None and process.pid
        ]
        for row in node.leases.held(node.now()):
            process = node.processes.get(row.worker)
            if process is not None and process.pid and not row.ending and process.state != "stopping":
                candidate = self._candidate(row, process)
                if candidate is not None:
                    found.append(candidate)
        return found

    def _candidate(self, row: HeldRow, process: Process) -> Candidate | None:
        own = self.own_bytes(process.pid)
        actor = self.node.keeper.actors.on_worker(row.worker)
        if actor is not None:
            since = time.time() - (self.node.now() - actor.changed_at)
            return Candidate(row.worker, own, since, retriable=actor.restarts_left, lasting=True)
        told = self._told.get(row.worker)
        owner = self.node.processes.get(row.owner)
        if told is None and owner is not None and row.owner not in self._asked | self._unasked:
            return None  # its owner has answered, and has nothing there
        since = events.started_last_at(f"{self.node.session['path']}/rings/{row.worker.hex()}.ring")
        retriable = told is None or told[2] != 0
        return Candidate(
            row.worker, own, since or process.started_at, retriable=retriable, lasting=row.blocked
        )

    def own_bytes(self, pid: int) -> int:
        """What a worker holds for itself, with the processes that its code started."""
        return machine.own_bytes(pid) + sum(machine.own_bytes(each) for each in orphans.descendants(pid))

    def what(self, worker: bytes) -> str:
        """What a worker does, for people."""
        actor = self.node.keeper.actors.on_worker(worker)
        if actor is not None and isinstance(actor.spec, dict):
            return f"actor {actor.spec['class_name']}"
        told = self._told.get(worker)
        return f"{told[1]}()" if told is not None else "worker"

    # ------------------------------------------------------------------ ending
    def _end(self, step: End) -> None:
        reading = self.reading
        told = self._told.get(step.worker)
        if told is not None:
            self.admission.ended(told[1], step.own_bytes, self.node.now())
        limit = self.monitor.limit(reading.total_bytes)
        self.kill(
            step.worker,
            REASON,
            {
                "used_bytes": reading.used_bytes,
                "total_bytes": reading.total_bytes,
                "threshold": limit / reading.total_bytes,
                "where": reading.where,
                "own_bytes": step.own_bytes,
                "reason": step.why,
                "retry": step.retry,
            },
        )

    def kill(self, worker: bytes, reason: str, facts: dict[str, object]) -> None:
        """End a worker for memory; its owners get the facts."""
        process = self.node.processes.get(worker)
        if process is None:
            return
        facts["node_id"] = self.node.node_id.hex()
        facts["top_users"] = top_users(self.node, self.what)
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
        rows = users_text(top_users(self.node, self.what))
        self.deaths.tell(
            f"{reading.where} has {reading.used_bytes / 1e9:.2f} GB of {reading.total_bytes / 1e9:.2f} GB in use, "
            f"above the threshold, and there is no worker to end: others use it.\n{rows}"
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
            Running(
                machine.own_bytes(process.pid), self._functions.get((row.owner, row.key), ()), row.blocked
            )
            for row in node.leases.held(now)
            if (process := node.processes.get(row.worker)) is not None
        ]
        return admission.decide(who, functions, running, reading.used_bytes, limit, now)

    # ------------------------------------------------------------------ questions
    def figures(self) -> dict[str, Any]:
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


def arithmetic(facts: Any) -> str:
    """How it came to an end for memory, in lines."""
    own = f"It held {facts['own_bytes'] / 1e9:.2f} GB for itself"
    if "cap_bytes" in facts:
        return f"{own}, above the {facts['cap_bytes'] / 1e9:.2f} GB of its memory= with enforce_memory=True."
    used, total = facts["used_bytes"], facts["total_bytes"]
    first = (
        f"{own} when {facts['where']} had {used / 1e9:.2f} GB of {total / 1e9:.2f} GB in use ({used / total:.1%}), "
        f"above the threshold of {facts['threshold']:.1%}. It was chosen because {facts['reason']}."
    )
    return f"{first}\n{users_text(facts['top_users'])}"


def _signal(pid: int, number: int) -> None:
    """To a worker and what it started; its group is not there yet in its first millisecond."""
    send: Callable[[int, int], None]
    for send in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(pid, number)
