"""Which tenant a driver belongs to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from sundog.node.tenancy import Tenancy, name_of
from sundog.state.store_quotas import Quotas
from sundog.state.tenants import Tenants


def _job(number: int, submission_id: str = "", weight: float = 1.0) -> Any:
    spec = SimpleNamespace(submission_id=submission_id, weight=weight, cpus=0.0, memory=0, object_store=0)
    return SimpleNamespace(job_id=number.to_bytes(4, "little"), spec=spec)


def test_drivers_of_one_submitted_job_are_one_tenant_until_the_last_is_gone() -> None:
    tenants = Tenants()
    memory = SimpleNamespace(jobs=SimpleNamespace(gone=lambda _name: None))
    node = SimpleNamespace(jobs={}, leases=SimpleNamespace(tenants=tenants), memory=memory)
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


def test_limits_of_the_object_store_reach_every_store_and_go_with_the_job() -> None:
    stores = [SimpleNamespace(store=SimpleNamespace(quotas=Quotas())) for _ in range(2)]
    memory = SimpleNamespace(jobs=SimpleNamespace(gone=lambda _name: None, forked=lambda _process: None))
    node = SimpleNamespace(
        jobs={}, processes={}, leases=SimpleNamespace(tenants=Tenants()), stores=stores[:1], memory=memory
    )
    tenancy = Tenancy(cast(Any, node))
    job = _job(1, "train")
    job.spec.object_store, job.driver = 1000, b"d" * 8
    worker = SimpleNamespace(process_id=b"w" * 8, job_id=job.job_id)
    node.jobs[job.job_id] = job
    node.processes = {b"d" * 8: SimpleNamespace(job_id=job.job_id), worker.process_id: worker}
    tenancy.came(job)
    tenancy.forked(cast(Any, worker))
    node.stores = stores
    tenancy.store_came(cast(Any, stores[1]))
    for each in stores:
        quotas = each.store.quotas
        assert quotas.limits == {"train": 1000}
        assert quotas.job_of(b"d" * 8) == quotas.job_of(b"w" * 8) == "train"
    del node.jobs[job.job_id]
    tenancy.gone(job)
    assert not any(each.store.quotas for each in stores)
