"""Which tenant a driver belongs to."""

from __future__ import annotations

from typing import Any, cast

from sundog.job_spec import JobSpec
from sundog.node.rows import Job
from sundog.node.tenancy import Tenancy, name_of
from sundog.state.store_quotas import Quotas
from sundog.state.tenants import Tenants
from tests.node.fakes import FakeProcess


class _JobMemory:
    """Limits of memory: no job has one."""

    def gone(self, _name: str) -> None: ...

    def forked(self, _process: FakeProcess) -> None: ...


class _Memory:
    def __init__(self) -> None:
        self.jobs = _JobMemory()


class _Leases:
    def __init__(self) -> None:
        self.tenants = Tenants()


class _Store:
    def __init__(self) -> None:
        self.quotas = Quotas()


class _Keeper:
    """A node's store, of which the quotas alone matter."""

    def __init__(self) -> None:
        self.store = _Store()


class _Node:
    """What `Tenancy` sees of a node."""

    def __init__(self, *stores: _Keeper) -> None:
        self.jobs: dict[bytes, Job] = {}
        self.processes: dict[bytes, FakeProcess] = {}
        self.leases, self.memory, self.stores = _Leases(), _Memory(), list(stores)


def _job(number: int, submission_id: str = "", object_store: int = 0) -> Job:
    spec = JobSpec(cast(Any, None), "/", submission_id=submission_id, object_store=object_store)
    return Job(number.to_bytes(4, "little"), b"d" * 8, 0, "", "train.py", spec, 0.0)


def test_drivers_of_one_submitted_job_are_one_tenant_until_the_last_is_gone() -> None:
    node = _Node()
    tenants = node.leases.tenants
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
    stores = [_Keeper(), _Keeper()]
    node = _Node(stores[0])
    tenancy = Tenancy(cast(Any, node))
    job = _job(1, "train", object_store=1000)
    driver, worker = (FakeProcess(letter * 8, job_id=job.job_id) for letter in (b"d", b"w"))
    node.jobs[job.job_id] = job
    node.processes = {each.process_id: each for each in (driver, worker)}
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
