"""A session as families of figures under sundog's names, whatever format they leave in.

::

    node (status, actors) + pulses + totals + facts + /proc + user metrics ──► Look ──► families

Owns which figures there are, and their names and labels. One `look` asks the node and every process once; nothing
happens between two looks. An ended session is read from its files. Refuses: the text format (`exposition.py`), Ray's
names (`ray_figures.py`). Runs in the process that serves `/metrics`, one thread at a time.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from sundog import machine
from sundog.dashboard.facts import FactTail
from sundog.observe import metric_files
from sundog.observe.activity import PATIENCE_S
from sundog.observe.live_totals import LiveTotals
from sundog.observe.memory import read_process
from sundog.observe.sessions import Opened
from sundog.plain import field, plain
from sundog.wire.looks import PULSE, Pulse, Who
from sundog.wire.requests import ListRows, LookAt, Status

if TYPE_CHECKING:
    from sundog.observe.usage import FunctionFigures
    from sundog.wire.status import SessionStatus

FUNCTIONS_MAX = 500

Labels = Mapping[str, str]


@plain()
class MetricFamily:
    """One metric: its series, each with labels and a value. Of a histogram: counts by upper bound, and the sum."""

    name: str
    kind: str  # gauge | counter | histogram
    help: str
    samples: list[tuple[Labels, float]] = field(default_factory=list)
    histograms: list[tuple[Labels, list[tuple[str, float]], float]] = field(default_factory=list)

    def add(self, value: float, /, **labels: str) -> None:
        """Add one more series."""
        self.samples.append((labels, float(value)))


@plain(frozen=True)
class ProcessFigures:
    """One process at one moment."""

    who: Who
    runs: str
    core_share: float
    rss_bytes: int
    own_bytes: int


def _no_status() -> SessionStatus:
    return {}


@plain()
class SessionLook:
    """A session at one moment."""

    at_s: float
    name: str
    is_live: bool
    tasks: dict[tuple[str, str], int] = field(default_factory=dict)  # function and state: how many
    functions: dict[str, FunctionFigures] = field(default_factory=dict)
    actors: dict[tuple[str, str], int] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    status: SessionStatus = field(default_factory=_no_status)
    processes: list[ProcessFigures] = field(default_factory=list)
    node: dict[str, float] = field(default_factory=dict)
    user: list[metric_files.Series] = field(default_factory=list)
    seconds: float = 0.0
    infeasible_kinds: int = 0  # of requests; those of another depth of nesting are another kind
    retries: dict[tuple[str, str], int] = field(default_factory=dict)  # of `tasks`, not the first attempt


class Looker:
    """Looks at one session again and again.

    Args:
        opened: the session.
    """

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.facts = FactTail(opened.path)
        self._totals = LiveTotals(opened.path, whole=True)
        self._spent: dict[int, tuple[float, float]] = {}
        self._node = NodeReader(opened.path)

    def look(self) -> SessionLook:
        """One look at everything; of a session that ends meanwhile, what its files say."""
        begun = time.monotonic()
        self.facts.read()
        look = SessionLook(time.time(), self.opened.name, self.opened.is_live)
        look.functions = _bounded(self._totals.read())
        look.user = metric_files.summed(metric_files.read(self.opened.path))
        pulses: list[Pulse] = []
        if self.opened.is_live:
            try:
                pulses = self._ask(look)
            except (ConnectionError, OSError):
                look.is_live = False
        if look.is_live:
            look.node = self._node.read()
        look.tasks = count_tasks(pulses, look.functions)
        look.retries = count_retries(pulses, look.functions)
        look.seconds = time.monotonic() - begun
        return look

    def _ask(self, look: SessionLook) -> list[Pulse]:
        told, silent = self.opened.ask(LookAt(PULSE, (), (), PATIENCE_S))
        look.status = self.opened.ask(Status())
        actors, _ = self.opened.ask(ListRows("actors"))
        look.actors = Counter((row["class_name"], row["state"]) for row in actors)
        groups, _ = self.opened.ask(ListRows("placement_groups"))
        look.groups = Counter(row["state"] for row in groups)
        now = time.monotonic()
        answers = [*told, *((who, None) for who in silent)]
        look.processes = [self._process(who, row, now) for who, row in answers]
        node_pid = int(look.status.get("pid", 0))
        if node_pid:
            who = Who(node_pid, "", "node", "node", "", 0.0)
            look.processes.append(self._process(who, None, now))
        self._spent = {pid: each for pid, each in self._spent.items() if each[0] == now}
        nested = {who.process_id: row.nested for who, row in told if isinstance(row, Pulse)}
        look.infeasible_kinds = len(
            {
                (each["kind"], each["depth"] + nested.get(each["owner"], 0))
                for each in look.status["pending"]
                if each["infeasible"]
            }
        )
        return [row for _, row in told]

    def _process(self, who: Who, row: object, now: float) -> ProcessFigures:
        spent = machine.processor_seconds(who.pid)
        at_s, before = self._spent.get(who.pid, (now, spent))
        self._spent[who.pid] = (now, spent)
        share = max(0.0, (spent - before) / (now - at_s)) if now > at_s else 0.0
        memory = read_process(who.pid, "")
        rss, own = (memory.rss_bytes, memory.own_bytes) if memory is not None else (0, 0)
        runs = row.calls[0].name if isinstance(row, Pulse) and row.calls else who.actor_class
        return ProcessFigures(who, runs, share, rss, own)


class NodeReader:
    """The machine's own figures; speeds are between two readings."""

    def __init__(self, session_path: str) -> None:
        self._path = session_path
        self._before: dict[str, tuple[float, float]] = {}
        self._ticks = (0.0, 0.0)

    def read(self) -> dict[str, float]:
        """Figures by name, bytes and shares."""
        import psutil

        reading, memory, swap = machine.read_machine(), psutil.virtual_memory(), psutil.swap_memory()
        found: dict[str, float] = {
            "cpus": float(os.cpu_count() or 1),
            "cpu_share": self._cpu_share(),
            "memory_used": float(reading.used_bytes),
            "memory_total": float(reading.total_bytes),
            "memory_total_host": float(memory.total),
            "memory_used_host": float(memory.total - memory.available),
            "memory_shared": float(getattr(memory, "shared", 0)),
            "swap_used": float(swap.used),
            "swap_total": float(swap.total),
        }
        with contextlib.suppress(OSError):
            disk = psutil.disk_usage(self._path)
            found |= {"disk_used": float(disk.used), "disk_free": float(disk.free)}
        with contextlib.suppress(Exception):  # a container may hide the counters
            network = psutil.net_io_counters()
            found["network_sent"], found["network_received"] = (
                float(network.bytes_sent),
                float(network.bytes_recv),
            )
            disks = psutil.disk_io_counters()
            if disks is not None:
                found["disk_written"], found["disk_read"] = float(disks.write_bytes), float(disks.read_bytes)
        for name in ("network_sent", "network_received", "disk_written", "disk_read"):
            found[f"{name}_speed"] = self._speed(name, found.get(name, 0.0))
        return found

    def _speed(self, name: str, value: float) -> float:
        now = time.monotonic()
        at_s, before = self._before.get(name, (now, value))
        self._before[name] = (now, value)
        return max(0.0, (value - before) / (now - at_s)) if now > at_s else 0.0

    def _cpu_share(self) -> float:
        try:
            with open("/proc/stat", encoding="ascii") as file:
                ticks = [int(each) for each in file.readline().split()[1:9]]
        except (OSError, ValueError):
            return 0.0
        total, busy = float(sum(ticks)), float(sum(ticks) - ticks[3] - ticks[4])
        before, self._ticks = self._ticks, (total, busy)
        passed = total - before[0]
        return (busy - before[1]) / passed if passed > 0 else 0.0


def count_tasks(pulses: Iterable[Pulse], ended: Mapping[str, FunctionFigures]) -> dict[tuple[str, str], int]:
    """Tasks and calls by function and state, with Ray's words for states."""
    counts: Counter[tuple[str, str]] = Counter()
    sent: Counter[str] = Counter()
    for pulse in pulses:
        for call in pulse.calls:
            counts[call.name, "RUNNING"] += 1
        for each in pulse.waiting:
            counts[each.name, "PENDING_ARGS_AVAIL"] += each.arguments
            counts[each.name, "PENDING_NODE_ASSIGNMENT"] += each.worker
            sent[each.name] += each.sent
    for name, count in sent.items():
        # Tasks that a worker has and does not run yet. The answers of owners and workers are not of the same
        # moment.
        counts[name, "SUBMITTED_TO_WORKER"] += max(0, count - counts[name, "RUNNING"])
    for name, figures in ended.items():
        counts[name, "FAILED"] = figures["failed"]
        counts[name, "FINISHED"] = figures["count"] - figures["failed"]
    return {key: count for key, count in counts.items() if count}


def count_retries(
    pulses: Iterable[Pulse], ended: Mapping[str, FunctionFigures]
) -> dict[tuple[str, str], int]:
    """Of the same tasks those that are not the first attempt."""
    counts: Counter[tuple[str, str]] = Counter()
    sent: Counter[str] = Counter()
    for pulse in pulses:
        for call in pulse.calls:
            counts[call.name, "RUNNING"] += call.attempt > 0
        for each in pulse.waiting:
            counts[each.name, "PENDING_ARGS_AVAIL"] += each.retries[0]
            counts[each.name, "PENDING_NODE_ASSIGNMENT"] += each.retries[1]
            sent[each.name] += each.retries[2]
    for name, count in sent.items():
        counts[name, "SUBMITTED_TO_WORKER"] += max(0, count - counts[name, "RUNNING"])
    for name, figures in ended.items():
        counts[name, "FAILED"] = figures["retried_failed"]
        counts[name, "FINISHED"] = figures["retried"] - figures["retried_failed"]
    return {key: count for key, count in counts.items() if count}


def _bounded(functions: dict[str, FunctionFigures]) -> dict[str, FunctionFigures]:
    """The functions that ran most often; what is beyond the limit is left out, and the totals tell so."""
    if len(functions) <= FUNCTIONS_MAX:
        return functions
    kept = sorted(functions, key=lambda name: -functions[name]["count"])[:FUNCTIONS_MAX]
    return {name: functions[name] for name in kept}


# ---------------------------------------------------------------------- families
def families(look: SessionLook, facts: FactTail) -> list[MetricFamily]:
    """Everything of one look, under sundog's names."""
    return [
        *_session(look),
        *_machine(look),
        *_store(look, facts),
        *_tasks(look),
        *_functions(look),
        *_processes(look),
        *_deaths(facts),
    ]


def one(name: str, help_: str, value: float, kind: str = "gauge") -> MetricFamily:
    """A family with one series and no labels."""
    made = MetricFamily(name, kind, help_)
    made.add(value)
    return made


def _session(look: SessionLook) -> list[MetricFamily]:
    found = [
        one("sundog_up", "1 while the node of the session runs", float(look.is_live)),
        one("sundog_scrape_seconds", "Time that gathering these figures took", look.seconds),
    ]
    if look.status:
        found.append(
            one("sundog_uptime_seconds", "Since the session began", float(look.status.get("uptime_s", 0.0)))
        )
        resources = MetricFamily(
            "sundog_resources", "gauge", "Logical resources, by name, used and available"
        )
        total, free = look.status["resources"]["total"], look.status["resources"]["available"]
        for name, amount in total.items():
            left = free.get(name, 0.0)
            resources.add(left, name=name, state="available")
            resources.add(amount - left, name=name, state="used")
        waiting = MetricFamily(
            "sundog_waiting_leases", "gauge", "Workers that tasks wait for, by the reason they wait"
        )
        reasons: Counter[str] = Counter()
        for each in look.status.get("pending", ()):
            reasons["infeasible" if each["infeasible"] else "resources"] += each["count"]
        for reason, count in reasons.items():
            waiting.add(count, reason=reason)
        found += [resources, waiting]
    return found


def _machine(look: SessionLook) -> list[MetricFamily]:
    if not look.node:
        return []
    node = look.node
    return [
        one("sundog_node_cpus", "Processor cores of the machine", node["cpus"]),
        one("sundog_node_cpu_share", "Share of all cores that was busy, 0 to 1", node["cpu_share"]),
        one("sundog_node_memory_used_bytes", "Memory in use that cannot be reclaimed", node["memory_used"]),
        one(
            "sundog_node_memory_total_bytes",
            "Memory of the machine or its control group",
            node["memory_total"],
        ),
        one(
            "sundog_node_disk_free_bytes", "Free disk below the session's folder", node.get("disk_free", 0.0)
        ),
    ]


def _store(look: SessionLook, facts: FactTail) -> list[MetricFamily]:
    store = look.status.get("store", {})
    found = []
    if store:
        found = [
            one("sundog_store_used_bytes", "Objects in shared memory", store["used_bytes"]),
            one("sundog_store_limit_bytes", "Limit of the object store", store["limit_bytes"]),
            one("sundog_store_objects", "Segments in shared memory", store["segments"]),
            one("sundog_spilled_bytes", "Objects on disk or at a URL now", store["spilled_bytes"]),
            one(
                "sundog_spilled_objects",
                "Number of objects on disk or at a URL now",
                store["spilled_objects"],
            ),
        ]
    return [
        *found,
        one("sundog_spill_bytes", "Bytes spilled so far", facts.spilled_bytes, "counter"),
        one("sundog_spill_seconds", "Time spent on spilling", facts.spill_s, "counter"),
        one("sundog_restore_bytes", "Bytes brought back so far", facts.restored_bytes, "counter"),
        one("sundog_restore_seconds", "Time spent on restoring", facts.restore_s, "counter"),
    ]


def _tasks(look: SessionLook) -> list[MetricFamily]:
    tasks = MetricFamily("sundog_tasks", "gauge", "Tasks and actor calls, by function and state")
    for (name, state), count in look.tasks.items():
        tasks.add(count, function=name, state=state)
    actors = MetricFamily("sundog_actors", "gauge", "Actors, by class and state")
    for (name, state), count in look.actors.items():
        actors.add(count, class_name=name, state=state)
    return [tasks, actors]


def _functions(look: SessionLook) -> list[MetricFamily]:
    runs = MetricFamily("sundog_function_runs", "counter", "Attempts that ended, by function")
    failures = MetricFamily("sundog_function_failures", "counter", "Attempts that failed, by function")
    lost = MetricFamily(
        "sundog_function_lost", "counter", "Attempts that ended with their process, by function"
    )
    seconds = MetricFamily("sundog_function_seconds", "counter", "Time that attempts ran, by function")
    cpu = MetricFamily(
        "sundog_function_cpu_seconds", "counter", "Processor time that attempts used, by function"
    )
    mean = MetricFamily(
        "sundog_function_duration_seconds", "gauge", "Time of one attempt, by function: mean, p95, max"
    )
    peak = MetricFamily(
        "sundog_function_peak_memory_bytes", "gauge", "Peak of own memory of one attempt, by function"
    )
    for name, figures in look.functions.items():
        runs.add(figures["count"], function=name)
        failures.add(figures["failed"], function=name)
        lost.add(figures["lost"], function=name)
        seconds.add(figures["total_s"], function=name)
        cpu.add(figures["total_cpu_s"], function=name)
        for stat in ("mean", "p95", "max"):
            mean.add(figures["duration_s"][stat], function=name, stat=stat)
            peak.add(figures["peak_memory"][stat], function=name, stat=stat)
    return [runs, failures, lost, seconds, cpu, mean, peak]


def _processes(look: SessionLook) -> list[MetricFamily]:
    count = MetricFamily("sundog_processes", "gauge", "Processes of the session, by kind and state")
    cpu = MetricFamily("sundog_process_cpu_share", "gauge", "Share of one core, by process")
    rss = MetricFamily(
        "sundog_process_rss_bytes", "gauge", "Resident memory, shared pages counted, by process"
    )
    own = MetricFamily("sundog_process_own_bytes", "gauge", "Memory that no other process shares, by process")
    kinds: Counter[tuple[str, str]] = Counter()
    for each in look.processes:
        kinds[each.who.kind, each.who.state] += 1
        labels = {"pid": str(each.who.pid), "kind": each.who.kind, "actor": each.who.actor_class}
        cpu.add(each.core_share, **labels)
        rss.add(each.rss_bytes, **labels)
        own.add(each.own_bytes, **labels)
    for (kind, state), number in kinds.items():
        count.add(number, kind=kind, state=state)
    return [count, cpu, rss, own]


def _deaths(facts: FactTail) -> list[MetricFamily]:
    deaths = MetricFamily("sundog_process_deaths", "counter", "Workers that ended, by cause")
    for cause, count in facts.deaths.items():
        deaths.add(count, cause=cause)
    return [deaths]
