"""Which tenant a driver belongs to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from sundog.node.tenancy import Tenancy, name_of
from sundog.state.tenants import Tenants


def _job(number: int, submission_id: str = "", weight: float = 1.0) -> Any:
    spec = SimpleNamespace(submission_id=submission_id, weight=weight, cpus=0.0)
    return SimpleNamespace(job_id=number.to_bytes(4, "little"), spec=spec)


def test_drivers_of_one_submitted_job_are_one_tenant_until_the_last_is_gone() -> None:
    tenants = Tenants()
    node = SimpleNamespace(jobs={}, leases=SimpleNamespace(tenants=tenants))
    tenancy = Tenancy(cast(Any, node))
    first, second, other = _job(1, "train"), _job(2, "train"), _job(3)
    for job in (first, second, other):
        node.jobs[job.job_id] = job
        tenancy.came(job)
    assert [name_of(job) for job in (first, second, other)] == ["train", "train", "03000000"]
    assert tenancy.of(first.job_id) == "train" and tenancy.of(b"none") == ""
    for job in (first, second):
        assert tenants.several()
        del node.jobs[job.job_id]
        tenancy.gone(job)
    assert not tenants.several()
