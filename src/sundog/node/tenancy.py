"""Which tenant a process belongs to: the submitted job that its driver is the entrypoint of, or its driver by itself.

Owns the names of tenants; their weights and limits are handed to the lease machine (`state/tenants.py`), which shares
the CPUs. Several drivers of one submitted job are one tenant. Runs in the node, main thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sundog.node.program import Node
    from sundog.node.rows import Job


class Tenancy:
    """The tenants of a session."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def of(self, job_id: bytes) -> str:
        """The tenant of a job; "" if the job is unknown: a detached actor's, whose driver is gone."""
        job = self.node.jobs.get(job_id)
        return "" if job is None else name_of(job)

    def came(self, job: Job) -> None:
        """A driver has joined."""
        self.node.leases.tenants.set_terms(name_of(job), job.spec.weight, job.spec.cpus)

    def gone(self, job: Job) -> None:
        """A driver is gone."""
        name = name_of(job)
        if not any(name_of(other) == name for other in self.node.jobs.values()):
            self.node.leases.tenants.drop(name)


def name_of(job: Job) -> str:
    """The tenant that a driver's job is, or is part of."""
    return job.spec.submission_id or job.job_id.hex()
