"""What a running session does, look by look: functions with their progress, workers with what they run, the machine.

::

    pulses of all processes + totals of what ended + /proc ──► Watcher.look() ──► Activity
                                        the look before it ──► rates, shares of a core, time left

Owns the arithmetic between two looks. `tally` and `FunctionRates` are pure; `Watcher` asks and reads. Runs in the
process of the command that watches: `sundog top`, a progress bar, `sundog status -v`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from sundog import machine
from sundog.observe.live_totals import LiveTotals
from sundog.observe.memory import read_process
from sundog.plain import JsonMapping, JsonObject, field, plain
from sundog.wire.looks import PULSE, Pulse, RunningCall, Who
from sundog.wire.requests import LookAt, Status

if TYPE_CHECKING:
    from sundog.wire.requests import AskNode

PATIENCE_S = 0.5
_SMOOTH = 0.3  # the weight of the newest rate
_TITLE = "sundog::"


@plain()
class Function:
    """All attempts of one function or method."""

    name: str
    done: int = 0
    failed: int = 0
    running: int = 0
    waiting: int = 0
    total_s: float = 0.0
    mean_s: float = 0.0
    cpu_s: float = 0.0
    peak_bytes: float = 0.0
    rate: float = 0.0  # tasks that ended per second, recently
    left_s: float | None = None  # until the last of these tasks ends at this rate

    @property
    def ended(self) -> int:
        """How many attempts have ended."""
        return self.done + self.failed

    @property
    def total(self) -> int:
        """How many are known."""
        return self.ended + self.running + self.waiting


@plain()
class WorkerActivity:
    """One process."""

    who: Who
    calls: tuple[RunningCall, ...] = ()
    silent: bool = False  # the process did not answer: stopped, or in C code that holds the interpreter lock
    core_share: float = 0.0  # of one core, since the look before
    rss_bytes: int = 0
    own_bytes: int = 0


@plain()
class Activity:
    """What one look found."""

    at_s: float
    functions: list[Function]
    workers: list[WorkerActivity]
    machine_share: float = 0.0  # of all cores
    cores: int = 1
    memory: JsonMapping = field(default_factory=dict)
    store: JsonObject = field(default_factory=dict)
    status: JsonMapping = field(default_factory=dict)


class FunctionRates:
    """How fast functions get on: rates between looks, smoothed."""

    def __init__(self) -> None:
        self._at_s = 0.0
        self._ended: dict[str, int] = {}
        self._rates: dict[str, float] = {}

    def apply(self, functions: Iterable[Function], at_s: float) -> None:
        """Give each function its rate and the time left."""
        step = at_s - self._at_s if self._at_s else 0.0
        for each in functions:
            before = self._ended.get(each.name)
            if step > 0:
                now = max(0, each.ended - (before or 0)) / step
                known = self._rates.get(each.name)
                self._rates[each.name] = now if known is None else known + _SMOOTH * (now - known)
            self._ended[each.name] = each.ended
            each.rate = self._rates.get(each.name, 0.0)
            left = each.running + each.waiting
            # Without an ended task the duration is unknown.
            each.left_s = left / each.rate if left and each.rate > 1e-9 else None
        self._at_s = at_s


def tally(pulses: Iterable[Pulse], usage: Mapping[str, JsonMapping]) -> list[Function]:
    """Functions by name, from what processes tell and from the totals of what ended."""
    found: dict[str, Function] = {}
    sent: dict[str, int] = {}
    for pulse in pulses:
        for call in pulse.calls:
            found.setdefault(call.name, Function(call.name)).running += 1
        for each in pulse.waiting:
            found.setdefault(each.name, Function(each.name)).waiting += each.arguments + each.worker
            sent[each.name] = sent.get(each.name, 0) + each.sent
    for name, count in sent.items():
        # A task that a worker has and does not run yet waits too. The answers of owners and workers are not
        # of the same moment.
        found[name].waiting += max(0, count - found[name].running)
    for name, figures in usage.items():
        row = found.setdefault(name, Function(name))
        row.failed = figures["failed"]
        row.done = figures["count"] - figures["failed"]
        row.total_s, row.mean_s = figures["total_s"], figures["duration_s"]["mean"]
        row.cpu_s, row.peak_bytes = figures["total_cpu_s"], figures["peak_memory"]["max"]
    return list(found.values())


def since(functions: Iterable[Function], before: Mapping[str, tuple[int, int]]) -> list[Function]:
    """The same functions without what had ended before: (done, failed) by name."""
    for each in functions:
        done, failed = before.get(each.name, (0, 0))
        each.done, each.failed = max(0, each.done - done), max(0, each.failed - failed)
    return [each for each in functions if each.total]


class Watcher:
    """Looks at one session again and again.

    Args:
        ask: Asks its node.
        session_path: Its folder.
        whole: Count from the session's beginning on, not only what ends from now on.
        patience_s: How long a process may take to answer.
    """

    def __init__(
        self, ask: AskNode, session_path: str, *, whole: bool = True, patience_s: float = PATIENCE_S
    ) -> None:
        self._ask = ask
        self._totals = LiveTotals(session_path, whole=whole)
        self._patience_s = patience_s
        self._pace = FunctionRates()
        self._spent: dict[int, tuple[float, float]] = {}  # pid: when, processor seconds
        self._busy = (0.0, 0.0)

    def ended(self) -> dict[str, tuple[int, int]]:
        """How many attempts of each function are done, and failed: reads records, asks no process."""
        found = self._totals.read()
        return {name: (row["count"] - row["failed"], row["failed"]) for name, row in found.items()}

    def functions(self) -> list[Function]:
        """Only the functions: cheaper than a whole look."""
        ended = self._totals.read()  # before the pulses: a task that ends in between is in neither
        told, silent = self._ask(LookAt(PULSE, (), (), self._patience_s))
        return self._functions(ended, told, silent, time.monotonic())

    def look(self) -> Activity:
        """Look at everything once."""
        ended = self._totals.read()
        told, silent = self._ask(LookAt(PULSE, (), (), self._patience_s))
        status = self._ask(Status())
        now = time.monotonic()
        functions = self._functions(ended, told, silent, now)
        workers = [self._worker(who, row.calls if isinstance(row, Pulse) else (), now) for who, row in told]
        for who in silent:
            worker = self._worker(who, _titled(who), now)
            worker.silent = True
            workers.append(worker)
        self._spent = {pid: each for pid, each in self._spent.items() if each[0] == now}
        workers.sort(key=lambda each: (each.who.kind != "driver", each.who.started_s, each.who.pid))
        return Activity(
            time.time(),
            functions,
            workers,
            self._machine_share(),
            os.cpu_count() or 1,
            status["memory"],
            status["store"],
            status,
        )

    def _functions(
        self, ended: JsonMapping, told: list[tuple[Who, object]], silent: list[Who], now: float
    ) -> list[Function]:
        pulses = [row for _, row in told if isinstance(row, Pulse)]
        pulses += [Pulse(_titled(who), ()) for who in silent]
        functions = tally(pulses, ended)
        self._pace.apply(functions, now)
        return functions

    def _worker(self, who: Who, calls: tuple[RunningCall, ...], now: float) -> WorkerActivity:
        spent = machine.processor_seconds(who.pid)
        at_s, before = self._spent.get(who.pid, (now, spent))
        self._spent[who.pid] = (now, spent)
        share = (spent - before) / (now - at_s) if now > at_s else 0.0
        memory = read_process(who.pid, "")
        worker = WorkerActivity(who, calls, core_share=max(0.0, share))
        if memory is not None:
            worker.rss_bytes, worker.own_bytes = memory.rss_bytes, memory.own_bytes
        return worker

    def _machine_share(self) -> float:
        """The share of all cores that was busy since the look before."""
        try:
            with open("/proc/stat", encoding="ascii") as file:
                ticks = [int(each) for each in file.readline().split()[1:9]]
        except (OSError, ValueError):
            return 0.0
        total, idle = float(sum(ticks)), float(ticks[3] + ticks[4])
        before, self._busy = self._busy, (total, total - idle)
        passed = total - before[0]
        return (total - idle - before[1]) / passed if before[0] and passed > 0 else 0.0


def _titled(who: Who) -> tuple[RunningCall, ...]:
    """What a process that does not answer runs, as its title says; since when is not known."""
    title = machine.title(who.pid)
    name = title.removeprefix(_TITLE) if title.startswith(_TITLE) else ""
    if who.kind != "worker" or name in ("", "IDLE", who.actor_class):
        return ()
    return (RunningCall("", name, 0.0),)
