"""How cost grows: tasks in flight, actors, objects, and refs in one wait or get.

Every figure names its size. A size that would take longer than the cap, judged by the rate of the size before
it, is left out with a note. Memory is the growth of the driver's resident set; each kind has a host of its own,
since what one has freed would hide the growth of another.
"""

from __future__ import annotations

import ctypes
import gc
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

from benchmarks import work
from benchmarks.cases import measured
from benchmarks.sampling import Effort, Reading, time_call
from benchmarks.systems import WORKERS, System

TASKS = (1_000, 10_000, 100_000, 1_000_000)
ACTORS = (10, 100, 1_000)
OBJECTS = (1_000, 10_000, 100_000)
WAITS = (1_000, 10_000)
GETS = (1_000, 10_000, 100_000)
REPEAT_BELOW_S = 1.0
TURNS = 9
HOLD_LIMIT_S = 120.0

# Measures one size.
Step = Callable[[int], list[Reading]]


def size_name(count: int) -> str:
    """1_000 → "1 k", 1_000_000 → "1 M", 10 → "10"."""
    if count >= 1_000_000:
        return f"{count // 1_000_000} M"
    return f"{count // 1_000} k" if count >= 1_000 else str(count)


def climb(
    sizes: tuple[int, ...],
    step: Step,
    figures: Callable[[int], list[tuple[str, str]]],
    cap_s: float,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Reading]:
    """Run `step` for ever larger sizes; note those that the rate so far predicts to exceed `cap_s`."""
    readings: list[Reading] = []
    per_item_s = 0.0
    quick: list[int] = []
    for size in sizes:
        predicted_s = per_item_s * size
        if predicted_s > cap_s:
            note = f"left out: about {predicted_s:.0f} s at the rate of the size before"
            readings += [Reading(figure, unit, None, note) for figure, unit in figures(size)]
            continue
        start = clock()
        readings += step(size)
        # The whole step counts, with what it does besides the figure: the cap bounds the run.
        seconds = clock() - start
        per_item_s = seconds / size
        if seconds < REPEAT_BELOW_S:
            quick.append(size)
            readings += again(step, size, 2)
    # The machine's pace may have changed since: who compares sizes needs samples from before and after the largest.
    for size in quick:
        readings += again(step, size, 3)
    return readings


def again(step: Step, size: int, times: int) -> list[Reading]:
    """More samples of a size, but for memory: the allocator would serve it from what it has kept."""
    made = [reading for _ in range(times) for reading in step(size)]
    return [reading for reading in made if not reading.unit.startswith("B/")]


def resident_bytes() -> int:
    """Resident memory of this process, after giving freed memory back to the kernel."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def bytes_per_task(api: System, count: int) -> float:
    """Growth of the driver by one task in flight: submitted while every worker is held.

    Raises AssertionError when a task ran before the workers were let go: then it was not in flight.
    """
    task = api.remote(work.moment)
    hold = api.remote(work.hold_until)
    with tempfile.TemporaryDirectory() as folder:
        gate = os.path.join(folder, "open")
        holders = [hold.remote(gate, HOLD_LIMIT_S) for _ in range(WORKERS)]
        deadline = time.monotonic() + HOLD_LIMIT_S
        while len(os.listdir(folder)) < WORKERS:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{WORKERS} tasks did not run at once within {HOLD_LIMIT_S:.0f} s")
            time.sleep(0.005)
        before = resident_bytes()
        refs = [task.remote() for _ in range(count)]
        grown = resident_bytes() - before
        opened = time.monotonic()
        open(gate, "w").close()
        if not all(api.get(holders)) or min(api.get(refs)) < opened:
            raise AssertionError("a task ran before the workers were let go, so it was not in flight")
    return grown / count


@measured("tasks in flight", group="growth, tasks", needs="tasks workers", once=True, timeout_s=400.0)
def tasks_in_flight(api: System, effort: Effort) -> list[Reading]:
    task = api.remote(work.small_value)
    api.get([task.remote() for _ in range(500)])
    api.get([api.remote(work.moment).remote() for _ in range(500)])

    def step(count: int) -> list[Reading]:
        # Memory first: after the rate, the allocator would serve it from what it has kept.
        size = bytes_per_task(api, count)
        seconds = time_call(lambda: api.get([task.remote() for _ in range(count)]))
        memory, rate = names(count)
        return [Reading(*memory, size), Reading(*rate, count / seconds)]

    def names(count: int) -> list[tuple[str, str]]:
        name = f"{size_name(count)} tasks in flight"
        return [(f"{name}: driver memory", "B/task"), (f"{name}: rate", "/s")]

    return climb(TASKS, step, names, 3 * effort.cap_s)


@measured("actors at once", group="growth, actors", needs="actors workers", once=True, timeout_s=300.0)
def actors_at_once(api: System, effort: Effort) -> list[Reading]:
    cls = api.actor(work.Server, num_cpus=0)

    def names(count: int) -> list[tuple[str, str]]:
        return [(f"{size_name(count)} actors: create, call, kill", "s")]

    def step(count: int) -> list[Reading]:
        def run() -> None:
            actors = [cls.remote() for _ in range(count)]
            api.get([actor.small_value.remote() for actor in actors])
            for actor in actors:
                api.kill(actor)

        seconds = time_call(run)
        return [Reading(*names(count)[0], seconds)]

    return climb(ACTORS, step, names, 4 * effort.cap_s)


@measured("objects held", group="growth, objects", needs="put", once=True, timeout_s=200.0)
def objects_held(api: System, effort: Effort) -> list[Reading]:
    # The first puts pay for what a system builds once; that is no cost per object.
    api.get([api.put(i) for i in range(200)])

    def names(count: int) -> list[tuple[str, str]]:
        name = f"{size_name(count)} objects held"
        return [(f"{name}: driver memory", "B/object"), (f"{name}: put rate", "/s")]

    def step(count: int) -> list[Reading]:
        before = resident_bytes()
        refs: list[Any] = []
        seconds = time_call(lambda: refs.extend([api.put(i) for i in range(count)]))
        grown = resident_bytes() - before
        memory, rate = names(count)
        return [Reading(*memory, grown / count), Reading(*rate, count / seconds)]

    return climb(OBJECTS, step, names, effort.cap_s)


def _over_refs(
    api: System, sizes: tuple[int, ...], verb: str, act: Callable[[list[Any]], object], cap_s: float
) -> list[Reading]:
    """Time `act` on lists of ready refs; the making of the refs counts for the cap, not for the figure."""

    def names(count: int) -> list[tuple[str, str]]:
        return [(f"{verb} {size_name(count)} refs", "µs/ref")]

    made: dict[int, list[Any]] = {}
    took_s: dict[int, float] = {}

    def time_one(count: int) -> Reading:
        took_s[count] = time_call(lambda: act(made[count]))
        return Reading(*names(count)[0], took_s[count] / count * 1e6)

    def step(count: int) -> list[Reading]:
        made[count] = [api.put(i) for i in range(count)]
        return [time_one(count)]

    readings = climb(sizes, step, names, cap_s)
    # In turn: what is asked is how sizes compare, and a core that others use has another speed a second later.
    quick = [count for count in made if took_s[count] < REPEAT_BELOW_S]
    return readings + [time_one(count) for _ in range(TURNS) for count in quick]


@measured("wait on many refs", group="growth, objects", needs="put wait", once=True, timeout_s=150.0)
def wait_many(api: System, effort: Effort) -> list[Reading]:
    def wait_all(refs: list[Any]) -> None:
        ready, rest = api.wait(refs, num_returns=len(refs))
        if rest or len(ready) != len(refs):
            raise AssertionError(f"wait returned {len(ready)} of {len(refs)} refs")

    return _over_refs(api, WAITS, "wait on", wait_all, effort.cap_s)


@measured("get of many refs", group="growth, objects", needs="put", once=True, timeout_s=200.0)
def get_many(api: System, effort: Effort) -> list[Reading]:
    def get_all(refs: list[Any]) -> None:
        if api.get(refs) != list(range(len(refs))):
            raise AssertionError("get returned other values than were put")

    return _over_refs(api, GETS, "get", get_all, effort.cap_s)
