"""Random programs of put, get, pass, nest, drop, keep and kill, against a plain model of what is what.

Each seed is one history. A model beside it knows the value of every ref; a read that differs, or a store that
is not empty after the last ref went, fails the seed. Replay one with ``--seeds``: they are numbered from 0.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import gc
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog import engines

Start = Callable[..., ModuleType]
STEPS = 50
SMALL, LARGE = 10, 150_000  # the second lives in shared memory


def content(mark: int, size: int) -> bytes:
    """The value of an object, recognisable from its first and last bytes to its length."""
    return (b"%08d" % mark) + bytes([mark % 251]) * size + (b"%08d" % mark)


@sundog.remote(num_cpus=0.5, max_retries=-1)
def make(mark: int, size: int) -> bytes:
    """An object made by a worker."""
    return content(mark, size)


@sundog.remote(num_cpus=0.5, max_retries=-1)
def same(value: Any) -> Any:
    """Hand a value on: resolved at the top level, as a ref inside a list."""
    return value


@sundog.remote(num_cpus=0.5, max_retries=-1)
def put_inside(mark: int, size: int) -> list[Any]:
    """A ref owned by a worker, inside its result."""
    return [sundog.put(content(mark, size))]


@sundog.remote(num_cpus=0.5, max_retries=-1)
def read_inside(refs: list[Any]) -> list[bytes]:
    """Read refs that came in a container, in a process that owns none of them."""
    return [bytes(sundog.get(ref)) for ref in refs]


@sundog.remote(num_cpus=0.5, max_retries=-1)
def fan_out(ref_in_list: list[Any], count: int) -> list[Any]:
    """A worker that submits tasks on refs it borrowed, and returns refs that it owns."""
    return [same.remote(ref_in_list[0]) for _ in range(count)]


@sundog.remote(num_cpus=0)
class Shelf:
    """Keeps refs, or values, of others."""

    def __init__(self) -> None:
        self.kept: dict[int, Any] = {}

    def keep(self, key: int, refs: list[Any]) -> None:
        """Keep refs beyond the call that brought them."""
        self.kept[key] = refs

    def read(self, key: int) -> bytes:
        """The value behind a kept ref."""
        return bytes(sundog.get(self.kept[key][0]))

    def give(self, key: int) -> list[Any]:
        """Pass a kept ref on."""
        return list(self.kept[key])

    def drop(self, key: int) -> None:
        """Forget one."""
        self.kept.pop(key, None)


class History:
    """One random program and its model."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.refs: dict[Any, bytes] = {}  # ref -> what it must read
        self.fragile: set[Any] = set()  # owned by a worker: may end with it
        self.shelf: Any = Shelf.remote()
        self.shelved: dict[int, tuple[bytes, bool]] = {}
        self.marks = 0
        self.killed = False

    def run(self, steps: int) -> None:
        """Play all steps, then read what is left."""
        moves = [
            self.put,
            self.put,
            self.make,
            self.pass_on,
            self.nest,
            self.put_in_worker,
            self.shelve,
            self.read_shelf,
            self.take_from_shelf,
            self.drop,
            self.drop,
            self.read,
            self.read_elsewhere,
            self.fan,
            self.kill_worker,
        ]
        for _ in range(steps):
            self.dice.choice(moves)()
        for ref in list(self.refs):
            self.check(ref)

    def fresh(self) -> tuple[int, int]:
        """A new mark and a size."""
        self.marks += 1
        return self.marks, self.dice.choice([SMALL, SMALL, LARGE])

    def some(self, fragile: bool = True) -> Any | None:
        """Any ref that is alive."""
        found = [ref for ref in self.refs if fragile or ref not in self.fragile]
        return self.dice.choice(found) if found else None

    def check(self, ref: Any) -> None:
        """Read a ref: its value, or the truth about its dead owner."""
        try:
            assert bytes(sundog.get(ref, timeout=40)) == self.refs[ref], "a read saw other bytes"
        except sundog.exceptions.OwnerDiedError:
            assert ref in self.fragile and self.killed, "nobody had killed its owner"
            del self.refs[ref]

    # ------------------------------------------------------------------ moves
    def put(self) -> None:
        value = content(*self.fresh())
        self.refs[sundog.put(value)] = value

    def make(self) -> None:
        mark, size = self.fresh()
        self.refs[make.remote(mark, size)] = content(mark, size)

    def pass_on(self) -> None:
        ref = self.some(fragile=False)
        if ref is not None:
            self.refs[same.remote(ref)] = self.refs[ref]

    def nest(self) -> None:
        ref = self.some(fragile=False)
        if ref is not None:
            (inner,) = sundog.get(same.remote([ref]), timeout=40)
            assert inner == ref
            nested = sundog.put({"inside": [ref]})
            value = self.refs.pop(ref)
            del ref, inner
            gc.collect()
            self.refs[sundog.get(nested, timeout=40)["inside"][0]] = value

    def put_in_worker(self) -> None:
        mark, size = self.fresh()
        (ref,) = sundog.get(put_inside.remote(mark, size), timeout=40)
        self.refs[ref] = content(mark, size)
        self.fragile.add(ref)

    def shelve(self) -> None:
        ref = self.some()
        if ref is not None:
            self.marks += 1
            self.shelf.keep.remote(self.marks, [ref])
            self.shelved[self.marks] = (self.refs[ref], ref in self.fragile)

    def read_shelf(self) -> None:
        if self.shelved:
            key = self.dice.choice(list(self.shelved))
            value, fragile = self.shelved[key]
            try:
                assert sundog.get(self.shelf.read.remote(key), timeout=40) == value
            except sundog.exceptions.OwnerDiedError:
                assert fragile and self.killed

    def take_from_shelf(self) -> None:
        if self.shelved:
            key = self.dice.choice(list(self.shelved))
            (ref,) = sundog.get(self.shelf.give.remote(key), timeout=40)
            if ref not in self.refs:
                self.refs[ref], fragile = self.shelved[key]
                if fragile:
                    self.fragile.add(ref)
            if self.dice.random() < 0.5:
                del self.shelved[key]
                self.shelf.drop.remote(key)

    def drop(self) -> None:
        ref = self.some()
        if ref is not None:
            del self.refs[ref]
            self.fragile.discard(ref)

    def read(self) -> None:
        ref = self.some()
        if ref is not None:
            self.check(ref)

    def read_elsewhere(self) -> None:
        refs = [ref for ref in self.refs if ref not in self.fragile][:5]
        if refs:
            found = sundog.get(read_inside.remote(refs), timeout=40)
            assert found == [self.refs[ref] for ref in refs]

    def fan(self) -> None:
        ref = self.some(fragile=False)
        if ref is not None:
            for found in sundog.get(fan_out.remote([ref], 2), timeout=40):
                self.refs[found] = self.refs[ref]
                self.fragile.add(found)

    def kill_worker(self) -> None:
        if self.dice.random() < 0.4:
            workers = [
                row["pid"]
                for row in sundog.api.control("list", "workers", False)
                if row["worker_type"] == "WORKER" and row["state"] in ("idle", "leased")
            ]
            if workers:
                self.killed = True
                try:
                    os.kill(self.dice.choice(workers), signal.SIGKILL)
                except ProcessLookupError:
                    return


def owner_tables() -> dict[str, int]:
    """What the driver still keeps; all zero when no ref is left."""
    engine = engines.current()
    assert engine is not None
    owner = engine.owner
    with owner.lock:
        owner.drain()
        return {
            "values": len(owner.ready),
            "tasks": len(owner.table),
            "owned": len(owner.refs.owned),
            "borrowed": len(owner.refs.borrowed),
            "waiters": len(owner.waiters),
        }


def segments_in_use(workers_too: bool) -> list[str]:
    """Segments that hold an object, by name ``<owner>-<maker>-<n>``; free ones have ``free`` for an owner.

    What a worker made and an owner freed is handed back with the next task for that worker: on its way, it
    counts as free. What workers owe each other in this manner cannot be seen from here, and is left out.
    """
    engine = engines.current()
    assert engine is not None
    owner = engine.owner
    with owner.lock:
        lanes: list[Any] = [*owner.tasks.lanes.values(), *owner.actors.links.values()]
        handed_back = {name for lane in lanes for name, _ in lane.freed}
    found = []
    for name in os.listdir(owner.segments.shm_root):
        holder, maker, *_ = [*name.split("-"), ""]
        if name.startswith((".", "free-")) or name in handed_back:
            continue
        if holder == owner.me.hex() or (workers_too and holder == maker):
            found.append(name)
    return found


def await_empty() -> None:
    """Once nothing refers to anything, nothing is kept, in the driver or in shared memory."""

    def empty() -> bool:
        gc.collect()
        sundog.available_resources()
        return not any(owner_tables().values())

    deadline = time.monotonic() + 20
    while not empty():
        assert time.monotonic() < deadline, f"kept without a ref: {owner_tables()}"
        time.sleep(0.02)


@pytest.mark.timeout(300)  # many histories in one test
def test_random_programs_read_what_they_wrote_and_leave_an_empty_store(
    seeds: range, leak_check: Path
) -> None:
    for seed in seeds:
        print(f"seed {seed}", flush=True)
        with sundog.init(num_cpus=2, log_to_driver=False):
            history = History(seed)
            history.run(STEPS)
            history.refs.clear()
            history.fragile.clear()
            history.shelved.clear()
            del history
            await_empty()
            deadline = time.monotonic() + 20
            while left := segments_in_use(True):
                assert time.monotonic() < deadline, f"segments without an object: {left}"
                time.sleep(0.02)
