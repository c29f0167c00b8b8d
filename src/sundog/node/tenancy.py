"""Which tenant a process belongs to: the submitted job that its driver is the entrypoint of, or its driver by itself.

Owns the names of tenants. Their weights and limits are handed on: CPUs and reserved memory to the lease machine
(`state/tenants.py`), memory to its monitors (`job_memory.py`), room in the object store to the stores. Several drivers
of one submitted job are one tenant. Runs in the node, main thread.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from sundog import machine
from sundog.store.segments import RESTORED

if TYPE_CHECKING:
    from sundog.node.interfaces import WithWorkers
    from sundog.node.memory import MemoryKeeper
    from sundog.node.rows import Job, Process
    from sundog.node.store import StoreKeeper
    from sundog.node.stores import Stores
    from sundog.wire.status import JobFigures

    class TenancyNode(WithWorkers, Protocol):
        """What the tenants ask of the node."""

        @property
        def stores(self) -> Stores:
            """The object stores, one for each node."""

        @property
        def memory(self) -> MemoryKeeper:
            """The memory monitor."""


class Tenancy:
    """The tenants of a session."""

    def __init__(self, node: TenancyNode) -> None:
        self.node = node
        self._store_limits: dict[str, int] = {}

    def of(self, job_id: bytes) -> str:
        """The tenant of a job; "" if the job is unknown: a detached actor's, whose driver is gone."""
        job = self.node.jobs.get(job_id)
        return "" if job is None else name_of(job)

    def came(self, job: Job) -> None:
        """A driver has joined."""
        name, spec = name_of(job), job.spec
        self.node.leases.tenants.set_terms(name, spec.weight, spec.cpus, spec.memory)
        if spec.object_store > 0:
            self._store_limits[name] = spec.object_store
            for keeper in self.node.stores:
                keeper.store.quotas.set_limit(name, spec.object_store)
                keeper.store.quotas.joined(job.driver, name)
        if spec.memory > 0:
            store_bytes = spec.object_store or self.node.stores.head.store.limit
            self.node.memory.jobs.came(name, job, store_bytes)

    def gone(self, job: Job) -> None:
        """A driver is gone."""
        name = name_of(job)
        if any(name_of(other) == name for other in self.node.jobs.values()):
            return
        self.node.leases.tenants.drop(name)
        self.node.memory.jobs.gone(name)
        if self._store_limits.pop(name, None) is not None:
            for keeper in self.node.stores:
                keeper.store.quotas.drop(name)

    def forked(self, process: Process) -> None:
        """A worker begins."""
        self.node.memory.jobs.forked(process)
        if self._store_limits and (name := self.of(process.job_id)) in self._store_limits:
            for keeper in self.node.stores:
                keeper.store.quotas.joined(process.process_id, name)

    def store_came(self, keeper: StoreKeeper) -> None:
        """A node joined, with a store of its own: limits hold there too."""
        for name, limit in self._store_limits.items():
            keeper.store.quotas.set_limit(name, limit)
        for process_id, process in self.node.processes.items():
            if (name := self.of(process.job_id)) in self._store_limits:
                keeper.store.quotas.joined(process_id, name)

    # ------------------------------------------------------------------ for people
    def rows(self) -> list[JobFigures]:
        """What each tenant has, may have and waits for; memory and objects are counted now."""
        base = machine.own_bytes(self.node.workers.zygote_pid)
        memory: dict[str, int] = {}
        tenant_of: dict[str, str] = {}
        for process_id, process in self.node.processes.items():
            name = self.of(process.job_id)
            if name and process.kind in ("driver", "worker"):
                tenant_of[process_id.hex()] = name
                own = self.node.memory.own_bytes(process.pid) if process.pid else 0
                memory[name] = memory.get(name, 0) + max(0, own - (base if process.kind == "worker" else 0))
        objects: dict[str, int] = {}
        for keeper in self.node.stores:
            for owner, size in (*_sizes(keeper.shm_root), *_sizes(f"{keeper.shm_root}/{RESTORED}")):
                if owner in tenant_of:
                    objects[tenant_of[owner]] = objects.get(tenant_of[owner], 0) + size
        return [
            {
                "tenant": row.tenant,
                "weight": row.weight,
                "cpu_limit": row.cpu_limit,
                "cpus": row.cpus,
                "leases": row.leases,
                "waiting": row.waiting,
                "memory_limit": row.memory_limit,
                "memory_reserved": row.memory_reserved,
                "memory": memory.get(row.tenant, 0),
                "object_store": objects.get(row.tenant, 0),
                "object_store_limit": self._store_limits.get(row.tenant, 0),
                "held_by": self.node.memory.jobs.figures(row.tenant),
            }
            for row in self.node.leases.tenant_rows()
        ]


def name_of(job: Job) -> str:
    """The tenant that a driver's job is, or is part of."""
    return job.spec.submission_id or job.job_id.hex()


def _sizes(shm_root: str) -> list[tuple[str, int]]:
    """Of each object in a store: its owner (hex) and its bytes."""
    try:
        with os.scandir(shm_root) as entries:
            return [
                (entry.name.partition("-")[0], entry.stat(follow_symlinks=False).st_blocks * 512)
                for entry in entries
                if not entry.name.startswith(".")
            ]
    except OSError:
        return []
