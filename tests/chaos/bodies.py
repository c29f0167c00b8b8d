"""Tasks and actors of the random programs. Runs in workers.

Every body first notes its run (one line with its pid, in a file of its mark's), so that the harness knows from
outside of sundog how often it ran, and where. Its *fate* says how many of the first runs end the process, and how
many after those raise: a killed run counts too, so what a task's outcome may be follows from the notes.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sundog
from tests.chaos.contents import content, mixed

CRASH_CODE = 17
ALWAYS = 1_000_000
FOREVER_S = 300.0


class Broken(Exception):
    """What a body raises when its fate says so."""


@dataclass(frozen=True)
class Fate:
    """What becomes of the first runs of a body, and how long each takes."""

    crashes: int = 0
    fails: int = 0
    nap_s: float = 0.0


def note(folder: str, name: str, line: str) -> int:
    """Append a line to a file; returns how many there were before, of all processes together."""
    fd = os.open(Path(folder) / name, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, line.encode() + b"\n")
        lines = os.pread(fd, 1 << 20, 0).decode().splitlines()
    finally:
        os.close(fd)
    return len(lines) - 1


def begin(folder: str, mark: str, fate: Fate) -> None:
    """The start of every body: note the run, and meet one's fate."""
    run = note(folder, mark, str(os.getpid()))
    if run < fate.crashes:
        os._exit(CRASH_CODE)
    if run < fate.crashes + fate.fails:
        raise Broken(mark)
    if fate.nap_s:
        time.sleep(fate.nap_s)


@sundog.remote(num_cpus=0.5)
def make(folder: str, mark: str, fate: Fate, size: int) -> Any:
    """A value from nothing."""
    begin(folder, mark, fate)
    return content(mark, size)


@sundog.remote(num_cpus=0.5, max_calls=3)
def make_few(folder: str, mark: str, fate: Fate, size: int) -> Any:
    """The same, in a worker that ends after three."""
    begin(folder, mark, fate)
    return content(mark, size)


@sundog.remote(num_cpus=0.5)
def taste(folder: str, mark: str, fate: Fate, size: int) -> Any:
    """A value from the environment."""
    begin(folder, mark, fate)
    return content(f"{mark}:{os.environ['CHAOS_FLAVOUR']}", size)


@sundog.remote(num_cpus=0.5)
def mix(folder: str, mark: str, fate: Fate, size: int, *values: Any) -> Any:
    """A value from others, which arrive resolved."""
    begin(folder, mark, fate)
    return content(mixed(mark, list(values)), size)


@sundog.remote(num_cpus=0.5)
def read_inside(folder: str, mark: str, fate: Fate, size: int, refs: list[Any]) -> Any:
    """A value from others that came as refs in a container, read in a process that owns none of them."""
    begin(folder, mark, fate)
    return content(mixed(mark, sundog.get(refs)), size)


@sundog.remote(num_cpus=0.5)
def read_through(folder: str, mark: str, fate: Fate, size: int, keeper: Any, name: str) -> Any:
    """A value from one whose ref an actor keeps, and a third process owns; None if the actor has forgotten."""
    begin(folder, mark, fate)
    box = sundog.get(keeper.give.remote(name))
    return None if box is None else content(mixed(mark, [sundog.get(box[0])]), size)


@sundog.remote(num_cpus=0.5)
def nest(folder: str, mark: str, fate: Fate, size: int, count: int, depth: int) -> Any:
    """A value from tasks that this task submits, which may do the same."""
    begin(folder, mark, fate)
    made = []
    for number in range(count):
        child = f"{mark}.{number}"
        if depth > 1:
            made.append(nest.options(max_retries=-1).remote(folder, child, Fate(), size, count, depth - 1))
        else:
            made.append(make.options(max_retries=-1).remote(folder, child, Fate(), size))
    return content(mixed(mark, sundog.get(made)), size)


def nested(mark: str, size: int, count: int, depth: int) -> Any:
    """What `nest` gives, computed in place."""
    made = [
        nested(f"{mark}.{n}", size, count, depth - 1) if depth > 1 else content(f"{mark}.{n}", size)
        for n in range(count)
    ]
    return content(mixed(mark, made), size)


@sundog.remote(num_cpus=0.5)
def hand_on(folder: str, mark: str, fate: Fate, box: Any) -> Any:
    """Return what came, refs inside and all."""
    begin(folder, mark, fate)
    return box


@sundog.remote(num_cpus=0.5)
def put_inside(folder: str, mark: str, fate: Fate, size: int) -> tuple[int, list[Any]]:
    """A ref that this worker owns, and the worker's pid."""
    begin(folder, mark, fate)
    return os.getpid(), [sundog.put(content(mark, size))]


@sundog.remote(num_cpus=0.5)
def fan_out(
    folder: str, mark: str, fate: Fate, size: int, box: list[Any], count: int
) -> tuple[int, list[Any]]:
    """Refs to results of tasks that this worker submitted, on a ref that it borrowed; and its pid."""
    begin(folder, mark, fate)
    children = [
        mix.options(max_retries=-1).remote(folder, f"{mark}.{n}", Fate(), size, box[0]) for n in range(count)
    ]
    return os.getpid(), children


@sundog.remote(num_cpus=0.5, num_returns=3)
def several(folder: str, mark: str, fate: Fate, size: int) -> tuple[Any, ...]:
    """Three values of one task."""
    begin(folder, mark, fate)
    return tuple(content(f"{mark}:{number}", size) for number in range(3))


@sundog.remote(num_cpus=0.5, num_returns="streaming")
def stream(folder: str, mark: str, fate: Fate, size: int, count: int) -> Iterator[Any]:
    """Values one by one; a fate that crashes does so in the middle."""
    run = note(folder, mark, str(os.getpid()))
    for number in range(count):
        if number == count // 2:
            if run < fate.crashes:
                os._exit(CRASH_CODE)
            if run < fate.crashes + fate.fails:
                raise Broken(mark)
        if fate.nap_s:
            time.sleep(fate.nap_s)
        yield content(f"{mark}:{number}", size)


@sundog.remote(num_cpus=0.5)
def sleep_long(folder: str, mark: str, depth: int) -> None:
    """A task that ends by being cancelled, or not within the harness's patience; with children likewise."""
    note(folder, mark, str(os.getpid()))
    if depth > 0:
        sundog.get(
            [sleep_long.options(max_retries=-1).remote(folder, f"{mark}.{n}", depth - 1) for n in range(2)]
        )
    time.sleep(FOREVER_S)


@sundog.remote(num_cpus=0.5)
def oversleep(folder: str, mark: str, deaf: bool) -> None:
    """A task that ends by its timeout; a deaf one only with its process."""
    note(folder, mark, str(os.getpid()))
    deadline = time.monotonic() + FOREVER_S
    while time.monotonic() < deadline:
        try:
            time.sleep(FOREVER_S)
        except KeyboardInterrupt:
            if not deaf:
                raise


@sundog.remote(num_cpus=0.5)
def grow(folder: str, mark: str, size_bytes: int) -> None:
    """A task that takes so much memory, and keeps it."""
    note(folder, mark, str(os.getpid()))
    taken = [b"\1" * (1 << 20) for _ in range(size_bytes >> 20)]
    while taken:
        time.sleep(FOREVER_S)


@sundog.remote(num_cpus=0)
class Ledger:
    """Counts the calls of each life, and keeps refs for others."""

    def __init__(self, folder: str, key: str) -> None:
        self.folder, self.key = folder, key
        self.life = note(folder, f"{key}.lives", str(os.getpid()))
        self.calls = 0
        self.kept: dict[str, Any] = {}

    def add(self, number: int, nap_s: float) -> tuple[int, int, bool]:
        """Who served this call, as which of its life, and whether that is a later life."""
        note(self.folder, f"{self.key}.calls", f"{os.getpid()} {number}")
        if nap_s:
            time.sleep(nap_s)
        self.calls += 1
        return os.getpid(), self.calls, sundog.get_runtime_context().was_current_actor_reconstructed

    def make(self, mark: str, size: int, *values: Any) -> Any:
        """A value of the actor's making, from others."""
        note(self.folder, mark, str(os.getpid()))
        return content(mixed(mark, list(values)), size)

    def keep(self, name: str, box: list[Any]) -> None:
        """Keep refs beyond the call that brought them."""
        self.kept[name] = box
        note(self.folder, f"{self.key}.kept", name)

    def give(self, name: str) -> list[Any] | None:
        """Pass kept refs on; None in a life that never got them."""
        return self.kept.get(name)

    def read(self, name: str) -> Any:
        """The value behind a kept ref; None likewise."""
        box = self.kept.get(name)
        return sundog.get(box[0]) if box is not None else None

    def drop(self, name: str) -> None:
        """Forget one."""
        self.kept.pop(name, None)


@sundog.remote(num_cpus=0)
class AsyncMaker:
    """Makes values in an event loop."""

    def __init__(self, folder: str, key: str) -> None:
        self.folder = folder
        note(folder, f"{key}.lives", str(os.getpid()))

    async def make(self, mark: str, size: int, *values: Any) -> Any:
        """A value, after giving way to other calls."""
        note(self.folder, mark, str(os.getpid()))
        await asyncio.sleep(0.002)
        return content(mixed(mark, list(values)), size)

    async def doze(self, mark: str) -> None:
        """A call that ends by being cancelled."""
        note(self.folder, mark, str(os.getpid()))
        await asyncio.sleep(FOREVER_S)


class _Maker:
    """Makes values, in whichever thread the call has."""

    def __init__(self, folder: str, key: str) -> None:
        self.folder = folder
        note(folder, f"{key}.lives", str(os.getpid()))

    def make(self, mark: str, size: int, *values: Any) -> Any:
        """A value, after a nap in which others run."""
        note(self.folder, mark, str(os.getpid()))
        time.sleep(0.002)
        return content(mixed(mark, list(values)), size)


@sundog.remote(num_cpus=0, concurrency_groups={"few": 1, "many": 4})
class GroupedMaker(_Maker):
    """Makes values in threads that belong to groups."""


@sundog.remote(num_cpus=0, max_concurrency=3)
class ThreadedMaker(_Maker):
    """Makes values in three threads."""
