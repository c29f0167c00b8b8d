"""What a task costs: readings where they pay, honest figures where they do not."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog import events
from sundog.worker import meter as meter_module
from sundog.worker.meter import LoopMeter, Meter, OwnMemory, Steps, ThreadsMeter, own_and_shared

TASK_ID = bytes(range(16))
MIB = 1 << 20


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[events.Ring]:
    made = events.Ring(str(tmp_path / f"{'ab' * 8}.ring"), 64, "worker")
    yield made
    made.close()


def read(ring: events.Ring) -> list[events.Event]:
    found = events.read_ring(ring.path)
    assert found is not None
    return list(found[1])


def burn(seconds: float, clock: Any = time.thread_time) -> None:
    end = clock() + seconds
    while clock() < end:
        pass


def test_own_memory_grows_with_what_is_allocated_and_touched() -> None:
    before, _ = own_and_shared()
    block = bytearray(64 * MIB)
    after, _ = own_and_shared()
    del block
    assert 60 * MIB < after - before < 80 * MIB


def test_a_file_that_is_mapped_is_not_own_memory(tmp_path: Path) -> None:
    import mmap

    path = tmp_path / "segment"
    path.write_bytes(bytes(32 * MIB))
    own, shared = own_and_shared()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert sum(mapped[at] for at in range(0, len(mapped), 4096)) == 0
        own_now, shared_now = own_and_shared()
    assert shared_now - shared > 30 * MIB
    assert own_now - own < 8 * MIB


def test_a_peak_that_is_gone_at_the_end_is_recorded(ring: events.Ring) -> None:
    meter = Meter(ring)
    start = time.time()
    base = own_and_shared()[0]
    block = bytearray(96 * MIB)
    del block
    meter.write(events.TASK, TASK_ID, 1, start, start, time.time())
    start = time.time()
    burn(0.002)
    meter.write(events.TASK, TASK_ID, 1, start, start, time.time())
    first, second = read(ring)
    assert first.measured and second.measured
    assert 90 * MIB < first.own_bytes - base < 120 * MIB
    assert second.own_bytes - base < 32 * MIB


def test_a_task_that_waits_uses_no_processor_and_one_that_works_does(ring: events.Ring) -> None:
    meter = Meter(ring)
    works: list[Any] = [time.sleep] * 5 + [burn]
    for work in works:
        meter.settle()
        start = time.time()
        work(0.05)
        meter.write(events.TASK, TASK_ID, 1, start, start, time.time())
    *waited, worked = read(ring)
    # The least of several: this process has other threads, and what they do is its own too.
    assert min(each.cpu_s for each in waited) < 0.04 < 0.05 <= worked.cpu_s
    assert worked.end_s - worked.start_s >= worked.cpu_s - 0.005


def test_threads_that_a_task_starts_count_as_its_own(ring: events.Ring) -> None:
    meter = Meter(ring)
    start = time.time()
    threads = [threading.Thread(target=burn, args=(0.05,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    meter.write(events.TASK, TASK_ID, 1, start, start, time.time())
    assert read(ring)[0].cpu_s >= 0.1


def test_short_tasks_are_not_measured_each(ring: events.Ring) -> None:
    meter = Meter(ring)
    now = time.time()
    for step in range(60):
        start = now + step * 1.1e-4
        meter.write(events.TASK, TASK_ID, 1, start, start, start + 5e-5)
    found = read(ring)
    assert [event.measured for event in found] == [step in (0, 46) for step in range(60)]
    assert all(event.cpu_s == pytest.approx(5e-5, rel=0.1) for event in found if not event.measured)
    assert all(event.own_bytes > MIB for event in found)


def test_a_task_of_a_millisecond_is_measured_however_soon_after_another(ring: events.Ring) -> None:
    meter = Meter(ring)
    now = time.time()
    for start, seconds in ((0.0, 1e-4), (1e-4, 1e-4), (2e-4, 2e-3), (2.2e-3, 2e-3), (4.2e-3, 1e-4)):
        meter.write(events.TASK, TASK_ID, 1, now, now + start, now + start + seconds)
    assert [event.measured for event in read(ring)] == [True, False, True, True, False]


def test_what_short_tasks_before_it_used_is_not_charged_to_a_task(
    ring: events.Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = 0.0
    monkeypatch.setattr("sundog.worker.meter._getrusage", lambda who: (spent, 0.0, *[0] * 14))
    monkeypatch.setattr("time.process_time", lambda: spent)
    meter = Meter(ring)
    now = time.time() + 1
    steps = (
        (0.0, 0.01, 0.01),  # when it began, how long it took, processor time since the one before it
        (0.014, 0.01, 0.014),  # 4 ms of these are those of short tasks before it
        (0.024, 0.01, 0.02),  # of two threads
        (0.034, 0.01, 0.001),  # it waited
    )
    for start, seconds, used in steps:
        spent += used
        meter.write(events.TASK, TASK_ID, 1, now, now + start, now + start + seconds)
    assert [event.cpu_s for event in read(ring)] == pytest.approx([0.01, 0.01, 0.02, 0.001], rel=1e-3)


def test_a_task_that_did_not_sleep_needed_its_processor_time_alone(
    ring: events.Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent, sleeps = 0.0, 0
    monkeypatch.setattr("sundog.worker.meter._getrusage", lambda who: (spent, 0.0, *[0] * 12, sleeps, 0))
    monkeypatch.setattr("time.process_time", lambda: spent)
    meter = Meter(ring)
    now = time.time() + 1
    needed = []
    for slept in (0, 0, 1, 0):
        spent, sleeps = spent + 0.002, sleeps + slept
        meter.write(events.TASK, TASK_ID, 1, now, now, now := now + 0.02)
        needed.append(meter.needed_s)
    meter.settle()  # the worker was idle: how often it slept since is not known
    meter.write(events.TASK, TASK_ID, 1, now, now, now + 0.02)
    needed.append(meter.needed_s)
    assert needed == pytest.approx([0.02, 0.002, 0.02, 0.002, 0.02], rel=1e-3)


def test_failures_and_attempts_are_kept(ring: events.Ring) -> None:
    Meter(ring).write(events.TASK, TASK_ID, 1, 1.0, 2.0, 3.0, events.FAILED, 4)
    [event] = read(ring)
    assert (event.failed, event.attempt, event.measured) == (True, 4, True)


def test_a_peak_is_known_to_every_call_that_was_running_then() -> None:
    memory = OwnMemory()
    own = memory.own_bytes
    for at, size in ((1.0, 50), (2.0, 900), (3.0, 200), (4.0, 100)):
        memory.note(at, own + size * MIB)
    found = [(memory.peak_since(start) - own) // MIB for start in (0.0, 1.5, 2.5, 3.5, 4.5)]
    assert found == [900, 900, 200, 100, 0]


def test_each_thread_of_an_actor_is_charged_for_its_own_call(ring: events.Ring) -> None:
    meter = ThreadsMeter(ring)

    def call(name: int, work: Any) -> None:
        start = time.time()
        work()
        meter.write(events.CALL, TASK_ID, name, start, start, time.time())

    threads = [
        threading.Thread(target=call, args=(1, lambda: burn(0.05))),
        threading.Thread(target=call, args=(2, lambda: time.sleep(0.05))),
    ]
    numbers = [ring.name("burns"), ring.name("sleeps")]
    assert numbers == [1, 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = {event.name: event.cpu_s for event in read(ring)}
    assert used["sleeps"] < 0.04 < 0.05 <= used["burns"]


def test_calls_of_a_loop_are_charged_for_the_steps_they_made(ring: events.Ring) -> None:
    meter = LoopMeter(ring)

    async def call(steps: Steps, name: int, burnt: float) -> None:
        start = time.time()
        await asyncio.sleep(0.01)
        burn(burnt)
        await asyncio.sleep(0.05)
        meter.write_call(steps, "call", TASK_ID, name, start, start, time.time(), 0, 0)

    async def both() -> None:
        burns, waits = ring.name("burns"), ring.name("waits")
        loop = asyncio.get_running_loop()
        first = loop.create_task(Steps(meter, lambda steps: call(steps, burns, 0.05)))
        second = loop.create_task(Steps(meter, lambda steps: call(steps, waits, 0.0)))
        await asyncio.gather(first, second)

    asyncio.run(both())
    used = {event.name: event.cpu_s for event in read(ring)}
    assert used["waits"] < 0.04 < 0.05 <= used["burns"]


def test_steps_are_counted_until_a_method_proves_quick(ring: events.Ring) -> None:
    meter = LoopMeter(ring)
    steps = Steps(meter, lambda _: asyncio.sleep(0))
    ends = [(steps, 10.0001), (None, 10.0001), (None, 10.5), (steps, 10.5)]
    quick = []
    for counted, end in ends:
        meter.write_call(counted, "m", TASK_ID, 1, 10.0, 10.0, end, 0, 0)
        quick.append("m" in meter.quick)
    steps.close()
    assert quick == [True, True, False, False]
    found = read(ring)
    assert [event.cpu_s for event in found[:2]] == pytest.approx([1e-4, 1e-4], rel=0.01)
    assert all(event.cpu_s <= 0.5 for event in found[2:])


def test_a_stepped_coroutine_looks_like_the_one_it_wraps(ring: events.Ring) -> None:
    async def wait() -> None:
        await asyncio.sleep(60)

    async def look() -> None:
        steps = Steps(LoopMeter(ring), lambda _: wait())
        assert inspect.getcoroutinestate(steps) == inspect.CORO_CREATED
        task = asyncio.get_running_loop().create_task(steps)
        await asyncio.sleep(0)
        assert inspect.getcoroutinestate(steps) == inspect.CORO_SUSPENDED
        assert steps.cr_await is not None and steps.cr_code is wait.__code__
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert inspect.getcoroutinestate(steps) == inspect.CORO_CLOSED

    asyncio.run(look())


def test_a_task_that_used_up_all_descriptors_is_recorded_with_the_last_reading(ring: events.Ring) -> None:
    import resource

    meter = Meter(ring)
    known = meter.memory.own_bytes
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        with pytest.raises(OSError):
            own_and_shared()
        meter.write(events.TASK, TASK_ID, 1, 1.0, 2.0, 3.0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    [event] = read(ring)
    assert event.measured and event.own_bytes == pytest.approx(known)


def test_without_recording_nothing_is_measured() -> None:
    meter = Meter(events.NoRing())
    assert meter.again_at == float("inf")


def test_a_clock_that_is_set_back_does_not_end_the_measuring(
    ring: events.Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1e9]
    monkeypatch.setattr(meter_module, "_time", lambda: now[0])
    meter = Meter(ring)
    meter.write(events.TASK, b"t" * 16, 1, now[0], now[0], now[0] + 1.0)
    now[0] -= 86_400.0
    meter.settle()
    assert meter.again_at <= now[0]
