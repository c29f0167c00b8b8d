"""Nobody starves: owners with endless queues, tasks of random length, and a clock that jumps from event to
event.

Owners behave as real ones do: they keep a lease for their next task for as long as they have one, and give
it back when it is asked back and what runs on it has ended.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from functools import partial

import pytest

from sundog.state.leases import (
    Grant,
    GroupReady,
    Instruction,
    Leases,
    LeaseSpec,
    Reclaim,
    StartWorker,
    StopWorker,
)

NODE = b"node-0"
TASK_S = 0.3
TICK_S = 0.1
SMALL = LeaseSpec((("CPU", 1.0),), "env")
LARGE = LeaseSpec((("CPU", 4.0),), "env")
GPU = LeaseSpec((("CPU", 1.0), ("GPU", 1.0)), "env")


class Crowd:
    """A machine with four CPUs and two GPUs, and owners that never run out of work."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.leases = Leases(starting_max=8, worker_max=0)
        self.timers: list[tuple[float, int, Callable[[], None]]] = []
        self.granted: list[tuple[float, Grant]] = []
        self.ready_at: float | None = None
        self.specs: dict[tuple[bytes, object], LeaseSpec] = {}
        self.asked_back: set[int] = set()
        self._count = 0
        self.do(self.leases.add_node(NODE, {"CPU": 4, "GPU": 2}))
        self.after(TICK_S, self.tick)

    def after(self, seconds: float, then: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self.timers, (self.now + seconds, self._count, then))

    def tick(self) -> None:
        self.do(self.leases.tick(self.now))
        self.after(TICK_S, self.tick)

    def endless(self, owner: bytes, key: str, spec: LeaseSpec) -> None:
        """``owner`` has more tasks of this kind than can ever run."""
        self.specs[owner, key] = spec
        self.do(self.leases.want(owner, key, spec, 100, self.now))

    def once(self, owner: bytes, key: str, spec: LeaseSpec) -> None:
        self.do(self.leases.want(owner, key, spec, 1, self.now))

    def do(self, instructions: list[Instruction]) -> None:
        for told in instructions:
            if isinstance(told, StartWorker):
                self._count += 1
                self.after(0.002, partial(self.worker_started, f"worker-{self._count}".encode()))
            elif isinstance(told, StopWorker):
                self.after(0.002, partial(self.worker_died, told.worker))
            elif isinstance(told, Grant):
                self.granted.append((self.now, told))
                self.run_task(told)
            elif isinstance(told, Reclaim):
                self.asked_back.add(told.lease)
            elif isinstance(told, GroupReady):
                self.ready_at = self.now

    def worker_started(self, worker: bytes) -> None:
        self.do(self.leases.worker_started(worker, NODE, "env", self.now))

    def worker_died(self, worker: bytes) -> None:
        self.do(self.leases.worker_died(worker, self.now))

    def run_task(self, grant: Grant) -> None:
        self.after(self.rng.uniform(0.01, TASK_S), lambda: self.task_ended(grant))

    def task_ended(self, grant: Grant) -> None:
        spec = self.specs.get((grant.owner, grant.key))
        if spec is not None and grant.lease not in self.asked_back:
            self.run_task(grant)  # the next one of its endless queue
            return
        self.do(self.leases.release(grant.lease, self.now))
        if spec is not None:
            self.do(self.leases.want(grant.owner, grant.key, spec, 100, self.now))

    def until(self, time: float, done: Callable[[], bool] = lambda: False) -> None:
        while self.timers and self.timers[0][0] <= time and not done():
            self.now, _, then = heapq.heappop(self.timers)
            then()

    def waited(self, owner: bytes, bound_s: float) -> float:
        """Run until ``owner`` is granted something that it had not before; return how long that took."""
        since, before = self.now, len(self.granted)
        self.until(since + bound_s, lambda: any(g.owner == owner for _, g in self.granted[before:]))
        times = [at for at, grant in self.granted[before:] if grant.owner == owner]
        return times[0] - since if times else float("inf")


# 0.2 s of patience, two ticks, a round of asking, and one task of everybody.
BOUND_S = 0.2 + 2 * TICK_S + 1.0 + 2 * TASK_S


@pytest.mark.parametrize("owners", [1, 3, 6])
def test_a_large_request_is_met_in_bounded_time_among_endless_small_ones(owners: int) -> None:
    for seed in range(60):
        crowd = Crowd(seed)
        for n in range(owners):
            crowd.endless(f"owner-{n}".encode(), "f", SMALL)
        crowd.until(crowd.rng.uniform(0.5, 3.0))
        crowd.once(b"large", "g", LARGE)
        assert crowd.waited(b"large", 60.0) <= BOUND_S, f"seed {seed}"


def test_a_second_owner_gets_a_share_of_what_the_first_one_had_to_itself() -> None:
    for seed in range(60):
        crowd = Crowd(seed)
        crowd.endless(b"first", "f", SMALL)
        crowd.until(1.0)
        crowd.endless(b"second", "f", SMALL)
        assert crowd.waited(b"second", 60.0) <= BOUND_S, f"seed {seed}"
        crowd.until(crowd.now + 20.0)
        held = [row.owner for row in crowd.leases.held(crowd.now)]
        assert held.count(b"first") >= 1 and held.count(b"second") >= 1, f"seed {seed}: {held}"


def test_one_owner_with_two_endless_kinds_of_work_gets_on_with_both() -> None:
    crowd = Crowd(1)
    crowd.endless(b"owner", "f", SMALL)
    crowd.until(1.0)
    crowd.endless(b"owner", "gpu", GPU)
    crowd.until(10.0)
    assert {row.key for row in crowd.leases.held(crowd.now)} == {"f", "gpu"}


def test_more_endless_owners_than_cpus_take_turns() -> None:
    crowd = Crowd(2)
    names = [f"owner-{n}".encode() for n in range(9)]
    for name in names:
        crowd.endless(name, "f", SMALL)
    crowd.until(60.0)
    assert {grant.owner for _, grant in crowd.granted} == set(names)
    late = {grant.owner for at, grant in crowd.granted if at > 30.0}
    assert late == set(names), "somebody was served once and never again"


def test_a_placement_group_finds_room_among_endless_small_tasks() -> None:
    for seed in range(40):
        crowd = Crowd(seed)
        for n in range(3):
            crowd.endless(f"owner-{n}".encode(), "f", SMALL)
        crowd.until(2.0)
        crowd.do(crowd.leases.create_group(b"pg", [{"CPU": 2}, {"CPU": 2}], "STRICT_PACK", b"x", crowd.now))
        since = crowd.now
        crowd.until(60.0)
        assert crowd.ready_at is not None and crowd.ready_at - since <= BOUND_S, f"seed {seed}"


def test_room_is_not_kept_for_a_request_that_an_actor_stands_in_the_way_of() -> None:
    crowd = Crowd(3)
    actor = LeaseSpec((("CPU", 1.0),), "env", permanent=True)
    crowd.specs[b"control", "actor"] = actor
    crowd.do(crowd.leases.want(b"control", "actor", actor, 1, 0.0))
    crowd.endless(b"owner", "f", SMALL)
    crowd.until(1.0)
    crowd.once(b"large", "g", LARGE)
    crowd.until(30.0)
    assert len(crowd.leases.held(crowd.now)) == 4, "CPUs idle for a request that cannot be met"
    assert [row.why for row in crowd.leases.table(crowd.now) if row.owner == b"large"] == ["waiting for CPU"]


def test_what_a_running_task_needs_to_end_is_not_withheld_for_ever() -> None:
    """Both GPUs are wanted at once; the task on one of them waits for a child that needs the other."""
    leases = Leases(starting_max=8, worker_max=0)
    leases.add_node(NODE, {"CPU": 4, "GPU": 2})
    one, two = LeaseSpec((("GPU", 1.0),), "env"), LeaseSpec((("GPU", 2.0),), "env")
    leases.want(b"a", "parent", one, 1, 0.0)
    leases.worker_started(b"w1", NODE, "env", 0.0)
    leases.worker_started(b"w2", NODE, "env", 0.0)
    leases.want(b"b", "both", two, 1, 0.0)
    leases.tick(0.3)
    assert leases.want(b"w1", "child", one, 1, 0.4) == [], "kept for the one who waited longer"
    granted: list[Instruction] = []
    now = 0.4
    while not granted and now < 60:
        now += 0.1
        granted = [told for told in leases.tick(now) if isinstance(told, Grant)]
    assert [grant.key for grant in granted if isinstance(grant, Grant)] == ["child"]
