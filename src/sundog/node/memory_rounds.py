"""Carries out what a memory monitor decides: stops what runs, asks what it is, and ends what the monitor chose.

::

    Freeze, Thaw ──► SIGSTOP, SIGCONT          Ask ──► owners ◄── TellRunning(token)
    owners ── RunningTold(token, rows) ──► told ──► Monitor ──► Retire, End ──► MemoryKeeper.kill, with the facts

Owns what was stopped and what owners said of it: of all workers of the session (`memory.py`), or of one job with a
memory limit (`job_memory.py`). Refuses to decide: `state/memory.py` does. Runs on the node's only thread.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from sundog import events, machine
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
)
from sundog.wire.control import RunningTold, TellRunning

if TYPE_CHECKING:
    from sundog.node.interfaces import Acting, WithActors, WithMemory, WithTenants, WithWorkers
    from sundog.node.rows import Process
    from sundog.state.status import HeldRow

    class RoundsNode(Acting, WithActors, WithMemory, WithTenants, WithWorkers, Protocol):
        """What a round of the memory monitor asks of the node."""


_ANSWER_S = 0.05


class Rounds:
    """What one monitor does to workers.

    Args:
        monitor: the machine that decides.
        read: a new reading of the memory that it watches.
        look: read, and let the monitor decide.
        end: end the worker that it chose.
        helpless: there is nothing to end.
        tenant: the job whose workers these are; "" is all workers.
    """

    def __init__(
        self,
        node: RoundsNode,
        monitor: Monitor,
        *,
        read: Callable[[], machine.Reading],
        look: Callable[[], None],
        end: Callable[[End], None],
        helpless: Callable[[], None],
        tenant: str = "",
    ) -> None:
        self.node = node
        self.monitor = monitor
        self.tenant = tenant
        self.told: dict[bytes, tuple[bytes, str, int]] = {}  # worker → task, name of the task, retries left
        self._read, self._look, self._end, self._helpless = read, look, end, helpless
        self._frozen: list[int] = []
        self._asked: set[bytes] = set()  # owners that have not answered
        self._unasked: set[bytes] = set()  # owners that are stopped and cannot answer
        self._token = 0

    def do(self, steps: list[MemoryInstruction]) -> None:
        """Carry out what the monitor says."""
        for step in steps:
            if step is FREEZE:
                self._freeze()
            elif step is THAW:
                self.thaw()
            elif step is ASK:
                self._ask()
            elif isinstance(step, Retire):
                for worker in step.workers:
                    self.node.do(self.node.leases.retire_worker(worker))
            elif isinstance(step, End):
                self._end(step)
            elif step is HELPLESS:
                self._helpless()

    def _held(self) -> list[HeldRow]:
        """The leases that this is about."""
        rows = self.node.leases.held(self.node.now())
        return rows if not self.tenant else [row for row in rows if self._is_ours(row.worker)]

    def _is_ours(self, worker: bytes) -> bool:
        process = self.node.processes.get(worker)
        return process is not None and self.node.tenancy.of(process.job_id) == self.tenant

    # ------------------------------------------------------------------ stopping without ending
    def _freeze(self) -> None:
        """Stop what runs, but for processes blocked in a get: those wait, and may be owners that we ask."""
        for row in self._held():
            process = self.node.processes.get(row.worker)
            if process is None or row.blocked or not process.pid or machine.is_stopped(process.pid):
                continue  # another program stopped this process, and has to continue it
            self._frozen.append(process.pid)
            _signal(process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let what was stopped continue."""
        frozen, self._frozen = self._frozen, []
        for pid in frozen:
            if pid in self.node.workers.by_pid:
                _signal(pid, signal.SIGCONT)

    # ------------------------------------------------------------------ asking what runs
    def _ask(self) -> None:
        token = self._token = self.node.memory.new_token()
        self.told = {}
        owners = {row.owner for row in self._held()} & self.node.processes.keys()
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
            self.told[worker] = (task_id, name, retries)
        self._asked.discard(process.process_id)
        if not self._asked:
            self._decide(token)

    def _decide(self, token: int) -> None:
        if token != self._token:
            return
        self._token = 0  # only once
        reading = self._read()
        limit = self.monitor.limit(reading.total_bytes)
        if reading.used_bytes <= limit:
            return self._look()  # another process has released memory in the meantime
        candidates = self._candidates()
        if self.node.config.memory_admission:
            for each in candidates:
                told = self.told.get(each.worker)
                if told is not None:
                    self.node.memory.admission.at_least(told[1], each.own_bytes)
        self.do(self.monitor.told(candidates, limit, self.node.now()))

    def _candidates(self) -> list[Candidate]:
        node = self.node
        base = machine.own_bytes(node.workers.zygote_pid)
        found = [
            Candidate(worker, machine.own_bytes(process.pid) - base, process.started_at, idle=True)
            for worker in node.leases.idle_workers()
            if (process := node.processes.get(worker)) is not None and process.pid
            if not self.tenant or self._is_ours(worker)
        ]
        for row in self._held():
            process = node.processes.get(row.worker)
            if process is not None and process.pid and not row.ending and process.state != "stopping":
                candidate = self._candidate(row, process)
                if candidate is not None:
                    found.append(candidate)
        return found

    def _candidate(self, row: HeldRow, process: Process) -> Candidate | None:
        own = self.node.memory.own_bytes(process.pid)
        actor = self.node.keeper.actors.on_worker(row.worker)
        if actor is not None:
            since = time.time() - (self.node.now() - actor.changed_at)
            return Candidate(row.worker, own, since, retriable=actor.restarts_left, lasting=True)
        told = self.told.get(row.worker)
        owner = self.node.processes.get(row.owner)
        if told is None and owner is not None and row.owner not in self._asked | self._unasked:
            return None  # the owner has answered, and has no task there
        since = events.started_last_at(f"{self.node.session['path']}/rings/{row.worker.hex()}.ring")
        retriable = told is None or told[2] != 0
        return Candidate(
            row.worker, own, since or process.started_at, retriable=retriable, lasting=row.blocked
        )

    def what(self, worker: bytes) -> str:
        """What a worker does, for people."""
        actor = self.node.keeper.actors.on_worker(worker)
        if actor is not None and isinstance(actor.spec, dict):
            return f"actor {actor.spec['class_name']}"
        told = self.told.get(worker)
        return f"{told[1]}()" if told is not None else "worker"


def _signal(pid: int, number: int) -> None:
    """To a worker and what it started; its group is not there yet in its first millisecond."""
    send: Callable[[int, int], None]
    for send in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(pid, number)
