"""Jobs that share the CPUs: shares by weight, limits, and leases asked back at once for a job below its share."""

from __future__ import annotations

import random

import pytest

from sundog.state.leases import Grant, Infeasible, Instruction, Leases, LeaseSpec, Reclaim, StartWorker
from sundog.state.tenants import KEEP_S

NODE = b"node-1"
FLOOD, SMALL = "flood", "small"


class Session:
    """A machine with workers at once, and owners that give back what they are asked for when a task ends."""

    def __init__(self, cpus: int, **weights: float) -> None:
        self.leases = Leases(starting_max=8, worker_max=0)
        self.now = 0.0
        self.granted: dict[int, Grant] = {}
        self.asked: list[int] = []
        self.count = 0
        self.specs: dict[bytes, tuple[LeaseSpec, str]] = {}
        self.do(self.leases.add_node(NODE, {"CPU": cpus}))
        for name, weight in weights.items():
            self.leases.tenants.set_terms(name, weight, 0.0)

    def do(self, instructions: list[Instruction]) -> None:
        for told in instructions:
            if isinstance(told, StartWorker):
                self.count += 1
                self.do(self.leases.worker_started(f"w{self.count}".encode(), NODE, told.env_key, self.now))
            elif isinstance(told, Grant):
                self.granted[told.lease] = told
            elif isinstance(told, Reclaim):
                self.asked.append(told.lease)

    def want(self, owner: bytes, job: str, count: int, cpus: float = 1.0) -> None:
        spec = LeaseSpec((("CPU", cpus),), f"env-{job}")
        self.specs[owner] = (spec, job)
        self.do(self.leases.want(owner, "f", spec, count, self.now, job))

    def give_back(self) -> None:
        """Every owner that was asked gives its lease back, and wants another one."""
        while self.asked:
            lease = self.asked.pop(0)
            grant = self.granted.pop(lease)
            self.do(self.leases.release(lease, self.now))
            spec, job = self.specs[grant.owner]
            self.do(self.leases.want(grant.owner, "f", spec, 100, self.now, job))

    def release(self, job: str) -> None:
        for lease, grant in list(self.granted.items()):
            if self.specs[grant.owner][1] == job:
                del self.granted[lease]
                self.do(self.leases.release(lease, self.now))

    def held(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for grant in self.granted.values():
            job = self.specs[grant.owner][1]
            counts[job] = counts.get(job, 0) + 1
        return counts


def test_a_job_below_its_share_has_leases_asked_back_at_once() -> None:
    session = Session(4, flood=1.0, small=1.0)
    session.want(b"a", FLOOD, 100)
    assert session.held() == {FLOOD: 4}
    session.want(b"b", SMALL, 1)
    assert len(session.asked) == 1, "as many as it wants, without patience"
    session.give_back()
    assert session.held() == {FLOOD: 3, SMALL: 1}
    session.want(b"b", SMALL, 100)
    session.give_back()
    assert session.held() == {FLOOD: 2, SMALL: 2}
    assert session.asked == []


def test_what_one_job_does_not_use_the_other_may() -> None:
    session = Session(4, flood=1.0, small=1.0)
    session.want(b"a", FLOOD, 100)
    session.want(b"b", SMALL, 2)
    session.give_back()
    assert session.held() == {FLOOD: 2, SMALL: 2}
    session.release(SMALL)
    session.now += KEEP_S
    session.do(session.leases.tick(session.now))
    assert session.held() == {FLOOD: 4}


def test_what_a_job_gives_back_is_kept_for_its_next_task_for_a_moment() -> None:
    session = Session(2, flood=1.0, small=1.0)
    session.want(b"a", FLOOD, 100)
    session.want(b"b", SMALL, 1)
    session.give_back()
    session.release(SMALL)
    session.now += KEEP_S / 2
    session.do(session.leases.tick(session.now))
    assert session.held() == {FLOOD: 1}, "kept, though the flood wants it"
    (row,) = session.leases.table(session.now)
    assert row.why == "held back for a job with less than its share, which used the CPU a moment ago"
    session.want(b"b", SMALL, 1)
    assert session.held() == {FLOOD: 1, SMALL: 1}, "at once, and nobody was asked for it"
    assert session.asked == []
    session.release(SMALL)
    session.leases.tenants.drop(SMALL)
    session.do(session.leases.tick(session.now))
    assert session.held() == {FLOOD: 2}, "a job that is gone wants nothing more"


def test_an_overbooked_node_takes_nothing_from_what_is_free_on_another() -> None:
    leases = Leases(starting_max=8, worker_max=0)
    for job in (FLOOD, SMALL):
        leases.tenants.set_terms(job, 1.0, 0.0)
    for node, cpus in ((NODE, 1.0), (b"node-2", 2.0)):
        leases.add_node(node, {"CPU": cpus})
        for n in range(2):
            leases.worker_started(node + bytes([n]), node, "env", 0.0)

    def want(job: str, node: bytes, count: int) -> list[Grant]:
        spec = LeaseSpec((("CPU", 1.0),), "env", ("node", node, False))
        out = leases.want(job.encode(), node, spec, count, 0.0, job)
        return [told for told in out if isinstance(told, Grant)]

    [first] = want(FLOOD, NODE, 1)
    leases.blocked(first.worker, 0.0)
    want(FLOOD, NODE, 1)
    leases.unblocked(first.worker, 0.0)
    assert leases.available()["CPU"] == 1, "two tasks run on the one CPU of the first node"
    [small] = want(SMALL, b"node-2", 1)
    leases.release(small.lease, 0.0)
    assert len(want(FLOOD, b"node-2", 2)) == 1, "one of the two free CPUs is kept for the small job"


def test_a_job_within_its_share_gets_it_whatever_is_kept_for_another() -> None:
    session = Session(4, flood=1.0, small=1.0)
    session.want(b"a", FLOOD, 4)
    session.release(FLOOD)
    session.want(b"b", SMALL, 4)
    assert session.held() == {SMALL: 2}, "its share, and not what the flood had a moment ago"
    session.now += KEEP_S
    session.do(session.leases.tick(session.now))
    assert session.held() == {SMALL: 4}


@pytest.mark.parametrize(("weight", "expected"), [(3.0, {FLOOD: 2, SMALL: 6}), (1.0, {FLOOD: 4, SMALL: 4})])
def test_weights_decide_the_shares(weight: float, expected: dict[str, int]) -> None:
    session = Session(8, flood=1.0, small=weight)
    session.want(b"a", FLOOD, 100)
    session.want(b"b", SMALL, 100)
    for _ in range(20):
        session.give_back()
        session.now += 0.3
        session.do(session.leases.tick(session.now))
    assert session.held() == expected


def test_many_owners_of_one_job_get_no_more_than_one_owner_of_another() -> None:
    session = Session(4, flood=1.0, small=1.0)
    for n in range(10):
        session.want(f"a{n}".encode(), FLOOD, 100)
    session.want(b"b", SMALL, 100)
    session.give_back()
    assert session.held() == {FLOOD: 2, SMALL: 2}


def test_a_job_has_no_more_cpus_than_it_may_have() -> None:
    session = Session(4)
    session.leases.tenants.set_terms(FLOOD, 1.0, 1.5)
    session.want(b"a", FLOOD, 100)
    assert session.held() == {FLOOD: 1}
    assert session.leases.available()["CPU"] == 3
    (row,) = session.leases.tenant_rows()
    assert (row.tenant, row.cpus, row.cpu_limit, row.leases, row.waiting) == (FLOOD, 1.0, 1.5, 1, 99)
    session.want(b"a2", FLOOD, 3, cpus=0.5)
    assert session.held() == {FLOOD: 2}


def test_a_job_reserves_no_more_memory_than_it_may_have() -> None:
    leases = Leases(starting_max=8, worker_max=0)
    leases.add_node(NODE, {"CPU": 8, "memory": 1e9})
    leases.tenants.set_terms(FLOOD, 1.0, 0.0, 300_000_000)
    spec = LeaseSpec((("CPU", 1.0), ("memory", 1e8)), "env")
    leases.want(b"a", "f", spec, 5, 0.0, FLOOD)
    (row,) = leases.tenant_rows()
    assert (row.memory_limit, row.memory_reserved, row.waiting) == (3e8, 3e8, 2)
    (waiting,) = leases.table(1.0)
    assert "has reserved all the memory that it may use (--memory)" in waiting.why
    leases.owner_died(b"a", 2.0)
    assert leases.tenants.memory[FLOOD] == 0


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ((("CPU", 3.0),), "it asks for 3 CPUs, and its job may use 2 (--cpus)"),
        (
            (("CPU", 1.0), ("memory", 5e8)),
            "it asks for memory=500,000,000, and its job may use 300,000,000 bytes",
        ),
    ],
)
def test_a_request_above_the_limit_of_its_job_is_said_to_be_impossible(
    resources: tuple[tuple[str, float], ...], words: str
) -> None:
    leases = Leases(starting_max=8, worker_max=0)
    leases.add_node(NODE, {"CPU": 8, "memory": 1e9})
    leases.tenants.set_terms(FLOOD, 1.0, 2.0, 300_000_000)
    (told,) = leases.want(b"a", "f", LeaseSpec(resources, "env"), 1, 0.0, FLOOD)
    assert isinstance(told, Infeasible) and words in told.reason
    (row,) = leases.table(1.0)
    assert row.infeasible and words in row.why
    (granted,) = leases.want(b"b", "f", LeaseSpec(resources, "env-b"), 1, 0.0, SMALL)
    assert isinstance(granted, StartWorker), "another job has no such limit"


def test_the_cpu_of_a_worker_that_waits_is_not_counted() -> None:
    session = Session(2, flood=1.0, small=1.0)
    session.want(b"a", FLOOD, 1)
    (grant,) = session.granted.values()
    assert session.leases.tenants.cpu[FLOOD] > 0
    session.do(session.leases.blocked(grant.worker, 0.0))
    assert session.leases.tenants.cpu[FLOOD] == 0
    session.do(session.leases.unblocked(grant.worker, 0.0))
    assert session.leases.tenants.cpu[FLOOD] > 0
    session.do(session.leases.blocked(grant.worker, 0.0))
    session.do(session.leases.worker_died(grant.worker, 0.0))
    assert not session.leases.tenants.cpu and not session.leases.tenants.leases


def test_one_job_by_itself_is_asked_for_nothing() -> None:
    session = Session(2, flood=1.0)
    session.want(b"a", FLOOD, 100)
    session.want(b"b", FLOOD, 1)
    assert session.asked == []


def test_more_jobs_than_cpus_take_turns_by_patience_and_not_by_asking_at_once() -> None:
    session = Session(2, a=1.0, b=1.0, c=1.0)
    for job in ("a", "b"):
        session.want(job.encode(), job, 100)
        session.give_back()
    assert session.held() == {"a": 1, "b": 1}
    session.want(b"c", "c", 100)
    assert session.asked == []
    session.now = 1.0
    session.do(session.leases.tick(session.now))
    assert len(session.asked) == 1


def test_a_tenant_that_is_gone_leaves_nothing() -> None:
    session = Session(2, flood=1.0, small=2.0)
    session.want(b"a", FLOOD, 2)
    session.release(FLOOD)
    session.leases.tenants.drop(FLOOD)
    session.leases.tenants.drop(SMALL)
    assert session.leases.tenant_rows() == [] and not session.leases.tenants.several()


def test_random_histories_keep_the_books_and_end_at_the_shares(seeds: range) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        weights = {"x": rng.choice((1.0, 2.0)), "y": 1.0}
        session = Session(rng.choice((3, 6)), **weights)
        for _ in range(200):
            session.now += rng.uniform(0, 0.2)
            job = rng.choice(("x", "y"))
            owner = f"{job}{rng.randrange(3)}".encode()
            move = rng.random()
            if move < 0.4:
                session.want(owner, job, rng.randrange(6))
            elif move < 0.6 and session.granted:
                lease = rng.choice(list(session.granted))
                grant = session.granted.pop(lease)
                session.asked = [each for each in session.asked if each != lease]
                session.do(session.leases.release(lease, session.now) if rng.random() < 0.8 else [])
                if lease in session.leases._leases:
                    session.granted[lease] = grant
            elif move < 0.8:
                session.give_back()
            else:
                session.do(session.leases.tick(session.now))
            counted = session.leases.tenants.cpu
            by_hand: dict[str, int] = {}
            for node in session.leases._nodes.values():
                for held in node.leases.values():
                    by_hand[held.want.job] = by_hand.get(held.want.job, 0) + held.holding.cpu
            assert dict(counted) == by_hand, seed
