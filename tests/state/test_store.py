"""The store's limit as pure decisions: credit, rounds, what is spilled, what comes back."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from sundog.state.store import COLLECT_REST_S, PATIENCE_S, Store
from sundog.state.store_steps import (
    Collect,
    Delete,
    Evict,
    Granted,
    Here,
    Restore,
    RoomRefused,
    Scan,
    Seen,
    Spill,
    Step,
    Trim,
)

MB = 1 << 20
A, B = b"A" * 8, b"B" * 8


def name_of(owner: bytes, number: int, maker: bytes | None = None) -> str:
    return f"{owner.hex()}-{(maker or owner).hex()}-{number}"


def only(steps: list[Step], kind: type) -> list[Step]:
    return [step for step in steps if isinstance(step, kind)]


def make(limit: int = 64 * MB, **options: object) -> Store:
    store = Store(limit, ahead=limit // 8, **options)  # type: ignore[arg-type]
    for process in (A, B):
        store.process_started(process)
    return store


def full_round(
    store: Store,
    steps: list[Step],
    files: dict[str, Seen],
    now: float,
    live: Iterable[str] = (),
    silent: Iterable[bytes] = (),
) -> list[Step]:
    """Answer a round as processes would that have nothing to return; returns what the machine decides."""
    while True:
        scans = [step for step in steps if isinstance(step, Scan)]
        trims = [step for step in steps if isinstance(step, Trim)]
        if scans:
            steps = store.scanned(scans[0].round, dict(files), 0, now)
        elif trims:
            steps = []
            for step in trims:
                if step.process not in silent:
                    steps += store.trimmed(
                        step.process, step.round, 0, store._sent.get(step.process, 0), list(live), [], [], {}
                    )
            if not steps:
                steps = store.tick(now + PATIENCE_S)
        else:
            return steps


def test_garbage_is_collected_when_the_store_fills_and_then_not_for_a_while() -> None:
    store = make()
    assert store.look(0.0) == []
    store.ask(A, 1, 40 * MB, 0, 0, 0.0)
    assert store.look(1.0) == [], "not full enough to look"
    store.ask(A, 2, 5 * MB, 0, store._sent[A], 1.0)
    (scan,) = store.look(2.0)
    assert isinstance(scan, Scan)
    files = {name_of(A, 1): Seen(40 * MB, 0.0), name_of(A, 2): Seen(5 * MB, 1.0)}
    assert store.scanned(scan.round, files, 0, 2.1) == [Collect()]
    store.ask(A, 3, 2 * MB, 0, store._sent[A], 3.0)
    assert store.look(3.0) == [], "a moment ago"
    assert only(store.look(2.1 + COLLECT_REST_S), Scan)


def test_garbage_is_not_collected_for_what_has_been_removed_or_does_not_change() -> None:
    store = make()
    store.ask(A, 1, 50 * MB, 0, 0, 0.0)
    (scan,) = store.look(1.0)
    assert isinstance(scan, Scan)
    assert store.scanned(scan.round, {}, 0, 1.1) == [], "the files are gone"
    store = make()
    store.ask(A, 1, 50 * MB, 0, 0, 0.0)
    (scan,) = store.look(1.0)
    assert isinstance(scan, Scan)
    assert store.scanned(scan.round, {name_of(A, 1): Seen(50 * MB, 0.0)}, 0, 1.1) == [Collect()]
    assert store.look(2.0 + COLLECT_REST_S) == [], "nobody asked for room since"


def test_a_put_within_the_pool_is_granted_at_once_with_some_more_for_the_next() -> None:
    store = make()
    (step,) = store.ask(A, 1, MB, 0, 0, 0.0)
    assert isinstance(step, Granted)
    assert step.amount == MB + store.limit // 32
    assert store.pool == store.limit - step.amount


def test_what_was_used_longest_ago_goes_first() -> None:
    store = make(10 * MB)
    files = {name_of(A, number): Seen(MB, float(number)) for number in range(10)}
    store.pool = 0
    decided = full_round(store, store.ask(A, 1, MB, 0, 0, 100.0), files, 100.0)
    (spill,) = only(decided, Spill)
    assert isinstance(spill, Spill)
    assert spill.names[0] == name_of(A, 0)
    assert spill.names == [name_of(A, number) for number in range(len(spill.names))]


def test_a_read_makes_an_object_recent() -> None:
    store = make(4 * MB)
    files = {name_of(A, number): Seen(MB, float(number)) for number in range(4)}
    store.pool = 0
    steps = store.ask(A, 1, MB, 0, 0, 100.0)
    steps = store.scanned(steps[0].round, files, 0, 100.0)  # type: ignore[union-attr]
    for step in only(steps, Trim):
        assert isinstance(step, Trim)
        used = {name_of(A, 0): 99.0} if step.process == A else {}
        steps = store.trimmed(step.process, step.round, 0, 0, [], [], [], used)
    decided = full_round(store, steps, files, 100.0)
    (spill,) = only(decided, Spill)
    assert isinstance(spill, Spill)
    assert spill.names[0] == name_of(A, 1)


def test_what_is_looked_at_or_being_written_or_too_new_stays() -> None:
    store = make(5 * MB)
    old = {name_of(A, number): Seen(MB, 1.0) for number in range(4)}
    files = old | {name_of(A, 4): Seen(MB, 0.0)}  # found only after the processes were asked what they write
    store.pool = 0
    steps = store.ask(A, 1, MB, 0, 0, 100.0)
    steps = store.scanned(steps[0].round, old, MB, 100.0)  # type: ignore[union-attr]
    trims = [step for step in steps if isinstance(step, Trim)]
    for step in trims:
        mine = step.process == A
        steps = store.trimmed(
            step.process,
            step.round,
            0,
            0,
            [name_of(A, 0)] if mine else [name_of(A, 1)],
            [name_of(A, 2)] if mine else [],
            [],
            {},
        )
    (spill,) = only(full_round(store, steps, files, 100.0), Spill)
    assert isinstance(spill, Spill)
    assert spill.names == [name_of(A, 3)]


@pytest.mark.parametrize("set_by_s", [-86_400.0, -1.0, 0.0, 1.0, 86_400.0])
def test_a_clock_that_is_set_neither_stops_spilling_nor_makes_a_new_file_old(set_by_s: float) -> None:
    """File times are of the wall clock: after it was set, those of older files seem to be of tomorrow or yesterday."""
    store = make(3 * MB)
    store.pool = 0
    before = {name_of(A, number): Seen(MB, 90.0 + number) for number in range(3)}
    assert full_round(store, store.ask(A, 1, MB, 0, 0, 100.0), before, 100.0, live=before) == [
        RoomRefused(A, 1, False)
    ]
    after = {name: Seen(MB, seen.made_at - set_by_s) for name, seen in before.items()}
    after[name_of(A, 3)] = Seen(MB, 101.0 - set_by_s)  # made before the clock was set
    steps = store.ask(A, 2, MB, 0, 0, 110.0)
    while scans := [step for step in steps if isinstance(step, Scan)]:
        steps = store.scanned(scans[0].round, after, 0, 110.0)
    for step in steps:
        assert isinstance(step, Trim)
        after[name_of(A, 4)] = Seen(MB, 110.0)
        more = store.trimmed(step.process, step.round, 0, store._sent.get(step.process, 0), [], [], [], {})
    decided = full_round(store, more, after, 110.0)
    names = [name for step in decided if isinstance(step, Spill) for name in step.names]
    assert names[0] == name_of(A, 0)
    assert name_of(A, 4) not in names


def test_a_process_that_does_not_answer_is_not_waited_for_twice_and_its_files_are_left_alone() -> None:
    store = make(4 * MB)
    files = {name_of(A, 0, B): Seen(MB, 1.0), name_of(A, 1): Seen(MB, 2.0)}
    store.pool = 0
    store._credit[B] = 2 * MB
    decided = full_round(store, store.ask(A, 1, MB, 0, 0, 100.0), files, 100.0, silent=[B])
    (spill,) = only(decided, Spill)
    assert isinstance(spill, Spill)
    assert spill.names == [name_of(A, 1)]  # the other one B may be in the middle of writing
    store.spilled(spill.job, "file", [(name_of(A, 1), 0, MB)])
    steps = store.released(spill.job, 101.0)
    assert only(steps, Granted)
    store.pool = 0
    steps += store.ask(A, 2, MB, 0, 0, 101.0)
    assert [step.process for step in only(steps, Trim)] == [A]  # type: ignore[union-attr]


def test_a_late_answer_to_an_earlier_round_says_nothing_of_what_is_being_written_now() -> None:
    """B was stopped when it was asked; when the next round begins, without B, it goes on, writes, and answers."""
    store = make(4 * MB)
    files = {name_of(A, 1): Seen(MB, 1.0), name_of(A, 2): Seen(MB, 2.0)}
    store.pool = 0
    store._credit[B] = 2 * MB
    decided = full_round(store, store.ask(A, 1, MB, 0, 0, 100.0), files, 100.0, silent=[B])
    late = store._round
    (spill,) = only(decided, Spill)
    assert isinstance(spill, Spill)
    store.spilled(spill.job, "file", [(name, 0, MB) for name in spill.names])
    store.released(spill.job, 101.0)
    left = {name: seen for name, seen in files.items() if name not in spill.names}
    files = {name_of(B, 1): Seen(MB, 0.0), name_of(A, 3): Seen(MB, 3.0), name_of(A, 4): Seen(MB, 4.0), **left}
    store._note(files, 102.0)  # a scan sees what B has just begun to write
    store.pool = 0
    steps = store.ask(A, 2, 4 * MB, 0, store._sent[A], 103.0)
    while not only(steps, Trim):
        (scan,) = only(steps, Scan)
        steps = store.scanned(scan.round, dict(files), 0, 103.0)  # type: ignore[union-attr]
    assert [step.process for step in only(steps, Trim)] == [A]  # type: ignore[union-attr]
    store.trimmed(B, late, 0, 0, [], [], [], {})
    decided = full_round(store, steps, files, 103.0)
    names = [name for step in decided if isinstance(step, Spill) for name in step.names]
    assert names and name_of(B, 1) not in names


def test_what_processes_return_is_enough_before_anything_is_spilled() -> None:
    store = make(8 * MB)
    store.ask(B, 1, 4 * MB, 0, 0, 0.0)  # B holds credit that it does not use
    store.pool = 0
    decided = full_round(store, store.ask(A, 1, 3 * MB, 0, 0, 100.0), {}, 100.0)
    assert len(only(decided, Granted)) == 1
    assert not only(decided, Spill)


def test_a_put_goes_to_disk_when_all_is_in_use_and_fails_if_that_is_switched_off() -> None:
    files = {name_of(A, number): Seen(MB, 1.0) for number in range(4)}
    for fallback in (True, False):
        store = make(4 * MB, fallback=fallback)
        store.pool = 0
        decided = full_round(store, store.ask(A, 1, MB, 0, 0, 100.0), files, 100.0, live=files)
        if fallback:
            assert decided == [RoomRefused(A, 1, False)]
            continue
        assert decided == []  # it waits for refs to be dropped ...
        later = 100.0 + store.grace_s
        decided = full_round(store, store.tick(later), files, later, live=files)
        assert decided == [RoomRefused(A, 1, True)]


def test_an_object_larger_than_the_store_does_not_wait_for_room() -> None:
    store = make(4 * MB)
    assert store.ask(A, 1, 5 * MB, 0, 0, 0.0) == [RoomRefused(A, 1, False)]


def spill_one(store: Store, name: str, size: int = MB) -> None:
    """Have one object spilled and its pages released."""
    store._jobs[99] = {name: size}
    store.spilled(99, f"url-{name}", [(name, 0, size)])
    store.released(99, 0.0)


def test_a_restored_object_is_evicted_again_without_another_copy() -> None:
    store = make(4 * MB)
    name = name_of(A, 0)
    store.pool = 3 * MB
    spill_one(store, name)
    (restore,) = store.restore(B, 7, name, False, 1.0)
    assert isinstance(restore, Restore) and restore.place.url == f"url-{name}"
    assert store.restored(name, True, 1.0) == [Here(B, 7, None, False)]
    assert store.restore(A, 8, name, False, 1.0) == [Here(A, 8, None, False)]
    store.pool = 0
    files = {name: Seen(4 * MB, 1.0)}
    decided = full_round(store, store.ask(A, 1, MB, 0, 0, 100.0), files, 100.0)
    (evict,) = decided
    assert isinstance(evict, Evict) and evict.names == [name]
    assert only(store.released(evict.job, 100.0), Granted)


def test_readers_of_one_object_wait_for_one_restore() -> None:
    store = make(4 * MB)
    name = name_of(A, 0)
    spill_one(store, name)
    assert len(store.restore(A, 1, name, False, 1.0)) == 1
    assert store.restore(B, 2, name, False, 1.0) == []
    assert store.restored(name, True, 1.0) == [Here(A, 1, None, False), Here(B, 2, None, False)]


def test_an_object_whose_copy_cannot_be_read_is_lost() -> None:
    store = make(4 * MB)
    name = name_of(A, 0)
    spill_one(store, name)
    store.restore(A, 1, name, False, 1.0)
    steps = store.restored(name, False, 1.0)
    assert steps == [Here(A, 1, None, True), Delete(f"url-{name}")]
    assert store.restore(A, 2, name, False, 1.0) == [Here(A, 2, None, True)]


def test_an_object_that_cannot_be_restored_just_now_is_read_where_it_lies() -> None:
    store = make(4 * MB)
    name = name_of(A, 0)
    spill_one(store, name)
    pool = store.pool
    store.restore(A, 1, name, False, 1.0)
    [here] = store.restored(name, False, 1.0, lost=False)
    assert here == Here(A, 1, store.entries[name].place, False)
    assert store.pool == pool
    [again] = store.restore(A, 2, name, False, 1.0)
    assert isinstance(again, Restore)


def test_a_file_of_fused_objects_goes_with_the_last_of_them() -> None:
    store = make(4 * MB)
    names = [name_of(A, number) for number in range(3)]
    store._jobs[5] = dict.fromkeys(names, MB)
    store.spilled(5, "fused", [(name, index * MB, MB) for index, name in enumerate(names)])
    store.released(5, 0.0)
    assert store.freed(names[:2]) == []
    assert store.freed(names[2:]) == [Delete("fused")]
    assert not store.entries


def test_objects_of_a_dead_owner_leave_no_file_on_disk() -> None:
    store = make(4 * MB)
    spill_one(store, name_of(A, 0))
    spill_one(store, name_of(B, 0, A))
    steps = store.process_died(A, 1.0)
    assert steps == [Delete(f"url-{name_of(A, 0)}")]
    assert list(store.entries) == [name_of(B, 0, A)]


def test_a_full_disk_sends_the_put_to_find_that_out_for_itself() -> None:
    store = make(4 * MB)
    files = {name_of(A, number): Seen(MB, 1.0) for number in range(4)}
    store.pool = 0
    decided = full_round(store, store.ask(A, 1, MB, 0, 0, 100.0), files, 100.0)
    jobs = [step.job for step in decided if isinstance(step, Spill)]
    steps: list[Step] = []
    for job in jobs:
        steps += store.spill_failed(job, 100.0)
    assert steps == [RoomRefused(A, 1, False)]


# ---------------------------------------------------------------------- random histories
@dataclass
class World:
    """Processes that put, read, free and die by the dice, and a disk; the machine's word is carried out late."""

    seed: int
    limit: int = 32 * MB
    now: float = 1000.0
    memory: dict[str, Seen] = field(default_factory=dict)
    disk: dict[str, set[str]] = field(default_factory=dict)  # url -> names
    restored: dict[str, Seen] = field(default_factory=dict)
    views: dict[bytes, dict[str, int]] = field(default_factory=dict)
    left: dict[bytes, int] = field(default_factory=dict)
    aside: dict[bytes, int] = field(default_factory=dict)
    got: dict[bytes, int] = field(default_factory=dict)
    freed: set[str] = field(default_factory=set)
    collected_at: float = float("-inf")
    answered: int = 0
    asked: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.store = Store(self.limit, ahead=self.limit // 8, fuse_bytes=4 * MB)
        self.wire: deque[Step] = deque()
        self.pending: dict[tuple[bytes, int], tuple[int, int]] = {}
        self.reads: dict[tuple[bytes, int], str] = {}
        self.numbers = 0
        for process in (A, B):
            self.store.process_started(process)
            self.left[process] = self.got[process] = self.aside[process] = 0
            self.views[process] = {}

    def objects(self) -> list[str]:
        on_disk = {name for names in self.disk.values() for name in names}
        return sorted((self.memory.keys() | on_disk) - self.freed)

    def step(self) -> None:
        self.now += self.dice.random() * 0.02
        choice = self.dice.random()
        process = self.dice.choice(sorted(self.left))
        if self.wire and choice < 0.6:
            self.carry_out(self.wire.popleft())
        elif choice < 0.75:
            self.put(process)
        elif choice < 0.88:
            self.read(process)
        elif choice < 0.94 and self.objects():
            self.free(self.dice.choice(self.objects()))
        elif self.views[process]:
            self.views[process].pop(self.dice.choice(sorted(self.views[process])))
        self.wire.extend(self.store.tick(self.now))
        self.wire.extend(self.store.look(self.now))
        self.check()

    def put(self, process: bytes) -> None:
        need = self.dice.randint(1, 24) * (MB // 4)
        if need <= self.left[process]:
            self.left[process] -= need
            self.write(process, need)
            return
        self.numbers += 1
        self.asked += 1
        aside, self.left[process] = self.left[process], 0
        self.aside[process] += aside
        self.pending[process, self.numbers] = need, aside
        missing = need - aside
        self.wire.extend(
            self.store.ask(process, self.numbers, missing, self.aside[process], self.got[process], self.now)
        )

    def write(self, process: bytes, need: int) -> None:
        self.numbers += 1
        self.memory[name_of(process, self.numbers)] = Seen(need, self.now)

    def read(self, process: bytes) -> None:
        names = self.objects()
        if not names:
            return
        name = self.dice.choice(names)
        seen = self.memory.get(name) or self.restored.get(name)
        if seen is not None:
            self.views[process][name] = seen.size
            return
        self.numbers += 1
        self.asked += 1
        self.reads[process, self.numbers] = name
        self.wire.extend(self.store.restore(process, self.numbers, name, False, self.now))

    def free(self, name: str) -> None:
        if any(name in views for views in self.views.values()) or name in self.reads.values():
            return  # a view and a read are holds
        self.freed.add(name)
        if self.memory.pop(name, None) is None:
            self.wire.extend(self.store.freed([name]))

    def carry_out(self, step: Step) -> None:
        if isinstance(step, Granted):
            self.answered += 1
            need, aside = self.pending.pop((step.process, step.number))
            self.got[step.process] += step.amount
            self.aside[step.process] -= aside
            self.left[step.process] += step.amount - (need - aside)
            self.write(step.process, need)
        elif isinstance(step, RoomRefused):
            self.answered += 1
            _, aside = self.pending.pop((step.process, step.number))
            self.aside[step.process] -= aside
            self.left[step.process] += aside
        elif isinstance(step, Trim):
            self.left[step.process] = 0
            live, aside = list(self.views[step.process]), self.aside[step.process]
            self.wire.extend(
                self.store.trimmed(step.process, step.round, aside, self.got[step.process], live, [], [], {})
            )
        elif isinstance(step, Scan):
            found = self.memory | self.restored
            self.wire.extend(self.store.scanned(step.round, found, 0, self.now))
        elif isinstance(step, Spill):
            self.spill(step)
        elif isinstance(step, Evict):
            for name in step.names:
                self.restored.pop(name, None)
            self.wire.extend(self.store.released(step.job, self.now))
        elif isinstance(step, Restore):
            there = step.name in self.disk.get(step.place.url, set())
            assert there or step.name in self.freed, "asked to restore what is not on disk"
            if there:
                self.restored[step.name] = Seen(step.place.length, self.now)
            self.wire.extend(self.store.restored(step.name, there, self.now))
        elif isinstance(step, Here):
            self.answered += 1
            name = self.reads.pop((step.process, step.number))
            assert not step.lost, "an object that is on disk was called lost"
            if step.place is not None:
                assert name in self.disk[step.place.url]
        elif isinstance(step, Collect):
            assert self.now >= self.collected_at + COLLECT_REST_S, "too soon after the last collection"
            self.collected_at = self.now
        else:
            assert isinstance(step, Delete)
            left = self.disk.pop(step.url, set())
            assert left <= self.freed, "a file with live objects was deleted"

    def spill(self, step: Spill) -> None:
        if self.dice.random() < 0.1:
            self.wire.extend(self.store.spill_failed(step.job, self.now))
            return
        url = f"url-{step.job}"
        moved = [(name, 0, self.memory[name].size) for name in step.names if name in self.memory]
        self.disk[url] = {name for name, _, _ in moved}
        for name, _, _ in moved:
            del self.memory[name]
        self.wire.extend(self.store.spilled(step.job, url, moved))
        self.wire.extend(self.store.released(step.job, self.now))

    def check(self) -> None:
        in_memory = sum(seen.size for seen in (self.memory | self.restored).values())
        assert in_memory + sum(self.left.values()) + sum(self.aside.values()) <= self.limit, (
            "more memory than the limit"
        )

    def settle(self) -> None:
        for _ in range(2000):
            self.now += 0.05
            if self.wire:
                self.carry_out(self.wire.popleft())
            elif not self.pending and not self.reads:
                return
            self.wire.extend(self.store.tick(self.now))
        raise AssertionError(f"unanswered: {self.pending} {self.reads} in {self.store.phase}")


def test_random_histories_stay_within_the_limit_answer_everyone_and_lose_nothing(seeds: range) -> None:
    spilled = restored = 0
    for seed in seeds:
        world = World(seed)
        for _ in range(600):
            world.step()
        for process in world.views:
            world.views[process].clear()
        world.settle()
        assert world.answered == world.asked
        spilled += world.store.figures.spilled_objects
        restored += world.store.figures.restored_objects
        for name in world.objects():
            world.free(name)
        world.settle()
        while world.wire:
            world.carry_out(world.wire.popleft())
        assert not world.disk, "spill files outlived their objects"
    assert spilled > 10 and restored > 10  # or the dice never came to the point
