"""What the node itself records: lives of processes, actors, jobs and groups, spills, and samples of the machine.

Owns which of the node's doings become facts in the session's segments (`node/records.py`), and their fields: the rows
of the state API as they were at that moment, so that an ended session is listed as a running one is. Nothing is
recorded per task; the machine once a second. Runs on the node's only thread.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Protocol

from sundog import machine

if TYPE_CHECKING:
    from sundog.node.interfaces import WithActors, WithMemory
    from sundog.node.records import Records
    from sundog.node.requests import Requests
    from sundog.node.rows import Environment, Job, Process
    from sundog.node.stores import Stores
    from sundog.observe.metric_history import Sample
    from sundog.store.spill import Moved
    from sundog.wire.cause import Cause

    class ChronicleNode(WithActors, WithMemory, Protocol):
        """What the chronicle asks of the node."""

        @property
        def records(self) -> Records:
            """Where facts are written."""

        @property
        def stores(self) -> Stores:
            """The object stores, one for each node."""

        @property
        def requests(self) -> Requests:
            """Has the rows of the state API."""


_EVERY_S = 1.0
_FIRST_S = 0.5
_METRICS_EVERY = 5  # one in this many samples of the machine: `metric_history.EVERY_S`
_SCAN_MAX = 2000  # with more segments the store is measured only every tenth time


def _without_secrets(runtime_env: dict[str, object]) -> dict[str, object]:
    from sundog.secrecy import for_records  # only sessions with runtime environments load this

    return for_records(runtime_env)


class Chronicle:
    """Facts in the order in which they happen."""

    def __init__(self, node: ChronicleNode) -> None:
        self.node = node
        self._busy, self._all = 0, 0
        self._turn = 0
        self._begun = False
        self._store: dict[str, int] = {"segments": 0, "used_bytes": 0}
        self._metrics: dict[str, Sample] = {}  # the program's own metrics, as last recorded

    def start(self) -> None:
        """Tell of the node, and of the machine from now on; the first task does not wait for it."""
        if self.node.records.enabled:
            # so that the first sample covers the time since now, and not since the machine's start
            self._processor_share()
            self.node.loop.after(_FIRST_S, self._begin)

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            row = self.node.requests.listings.nodes()[0]
            self._fact("node", row["node_id"], row=row, cores=machine.physical_cores())
            self._sample()

    def _fact(self, kind: str, subject: str, **facts: object) -> None:
        self.node.records.fact(kind, subject=subject, **facts)

    # ------------------------------------------------------------------ lives
    def node_changed(self, node_id: bytes) -> None:
        """A node joined, or is gone."""
        if self.node.records.enabled:
            for row in self.node.requests.listings.nodes():
                if row["node_id"] == node_id.hex():
                    self._fact("node", row["node_id"], row=row)

    def process_died(self, process: Process, row: dict[str, object], cause: Cause) -> None:
        """A process is gone: its last row, and why."""
        self._fact(
            "worker",
            process.process_id.hex(),
            row=row,
            cause=cause.kind,
            reason=cause.reason,
            last_task=cause.last_task,
            last_line=cause.last_line,
            killed=process.killed,
            facts={str(key): value for key, value in cause.facts.items() if _is_plain(value)},
        )

    def actor_changed(self, actor_id: bytes) -> None:
        """An actor was placed, lives, restarts or died."""
        found = self.node.keeper.actors.get(actor_id)
        if found is not None and self.node.records.enabled:
            row = self.node.requests.listings.actor(found)
            if row["serialized_runtime_env"] != "{}":
                env = _without_secrets(json.loads(row["serialized_runtime_env"]))
                row["serialized_runtime_env"] = json.dumps(env)
            self._fact("actor", actor_id.hex(), row=row, owner=found.owner.hex())

    def job_changed(self, job: Job, row: dict[str, object]) -> None:
        """A driver joined, or left."""
        if row.get("end_time") and self.node.records.enabled:
            self._begin()  # the session is shorter than that
        self._fact("job", job.job_id.hex(), row=row, driver=job.driver.hex())

    def environment_changed(self, environment: Environment) -> None:
        """A runtime environment is asked for, or could not be set up."""
        if environment.runtime_env and self.node.records.enabled:
            row = self.node.requests.listings.environment(environment, 0)
            row["runtime_env"] = _without_secrets(row["runtime_env"])
            self._fact("runtime_env", environment.env_key, row=row)

    def group_changed(self, pg_id: bytes) -> None:
        """A placement group was placed or removed."""
        found = self.node.leases.group(pg_id)
        if found is not None and self.node.records.enabled:
            row = self.node.requests.listings.placement_group(found)
            self._fact("placement_group", pg_id.hex(), row=row)

    # ------------------------------------------------------------------ objects
    def spilled(self, url: str, moved: list[Moved], seconds: float) -> None:
        """Objects went from memory to disk."""
        objects = [[row[0], int(row[2])] for row in moved]
        size = sum(length for _, _, length in moved)
        self._fact("spill", url, objects=objects, count=len(objects), bytes=size, seconds=seconds)

    def restored(self, name: str, size: int, seconds: float) -> None:
        """An object came back."""
        self._fact("restore", name, bytes=size, seconds=seconds)

    # ------------------------------------------------------------------ the machine
    def _sample(self) -> None:
        self.node.loop.after(_EVERY_S, self._sample)
        self._turn += 1
        reading = self.node.memory.reading if self.node.memory.reading.total_bytes else machine.read_machine()
        if self._store["segments"] < _SCAN_MAX or self._turn % 10 == 0:
            self._store = self.node.requests.store_figures()
        disk = os.statvfs(self.node.session["path"])
        self._fact_machine(
            cpu=self._processor_share(),
            memory_used=reading.used_bytes,
            memory_total=reading.total_bytes,
            store_used=self._store["used_bytes"],
            store_total=int(self.node.session.get("store_bytes", 0)),
            spilled_bytes=self.node.stores.figures()["spilled_bytes"],
            descriptors=len(os.listdir("/proc/self/fd")),
            disk_free=disk.f_bavail * disk.f_frsize,
            workers=len(self.node.processes),
            load=os.getloadavg()[0],
        )

        self._sample_metrics()

    def _sample_metrics(self) -> None:
        """The program's own metrics every few seconds, if it has any: those that have changed."""
        path = self.node.session["path"]
        if self._turn % _METRICS_EVERY or not os.path.isdir(f"{path}/metrics"):
            return
        from sundog.observe import metric_files, metric_history

        changed = metric_history.sample(metric_files.read(path), self._metrics)
        if changed:
            self._metrics.update(changed)
            self.node.records.fact("metrics", series=changed)

    def _fact_machine(self, **figures: float) -> None:
        self.node.records.fact("machine", **figures)

    def _processor_share(self) -> float:
        """The share of all cores that was busy since this was asked last."""
        try:
            with open("/proc/stat", encoding="ascii") as file:
                numbers = [int(word) for word in file.readline().split()[1:9]]
        except (OSError, ValueError):
            return 0.0
        total = sum(numbers)
        busy = total - numbers[3] - numbers[4]
        share = (busy - self._busy) / max(1, total - self._all)
        self._busy, self._all = busy, total
        return round(share, 4)


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float | bool | list | tuple | dict | None)
