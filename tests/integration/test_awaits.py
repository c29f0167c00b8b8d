"""`await ref`: the loop reads the replies itself, beside threads that call get, and after a loop has ended."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from sundog import engines
from tests.integration.gates import Gate, await_true


def in_thread(coroutine: Coroutine[Any, Any, Any]) -> threading.Thread:
    thread = threading.Thread(target=lambda: asyncio.run(coroutine))
    thread.start()
    return thread


def test_values_errors_large_objects_and_puts_are_awaited(ray: ModuleType) -> None:
    @ray.remote
    def give(value: Any) -> Any:
        return value

    @ray.remote
    def fail(kind: type[Exception]) -> None:
        raise kind("no")

    async def main() -> None:
        assert await asyncio.gather(*(give.remote(i) for i in range(200))) == list(range(200))
        large = np.arange(300_000)
        assert (await give.remote(large)).sum() == large.sum()
        assert (await ray.put(large))[7] == 7
        assert await ray.put(5) == 5
        with pytest.raises(ValueError, match="no"):
            await fail.remote(ValueError)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await fail.remote(StopIteration)
        ready, _ = await asyncio.wait([asyncio.ensure_future(_of(give.remote(1)))])
        assert ready.pop().result() == 1

    async def _of(ref: Any) -> Any:
        return await ref

    asyncio.run(main())


def test_one_loop_after_the_other_leaves_no_descriptor_and_replies_are_read_between_them(
    ray: ModuleType,
) -> None:
    @ray.remote
    def pid() -> int:
        return os.getpid()

    async def main() -> int:
        return int(await pid.remote())

    assert asyncio.run(main()) > 0
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        asyncio.run(main())
        assert ray.get(pid.remote()) > 0
    assert len(os.listdir("/proc/self/fd")) <= before
    ref = pid.remote()  # nobody leads, and no loop runs: the background thread reads
    engine = engines.current()
    assert engine is not None
    await_true(lambda: ref._id in engine.owner.ready, "a reply that nobody waits for")


def test_a_get_works_while_the_loop_that_read_last_is_closed_and_another_one_runs(
    ray: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the second loop awaits is there already, so that it does not come to read in place of the first."""
    engine = engines.current()
    assert engine is not None
    reactor = engine.owner.reactor

    @ray.remote
    def pid() -> int:
        return os.getpid()

    async def first() -> None:
        await pid.remote()

    async def second() -> None:
        assert await known > 0
        assert ray.get(pid.remote(), timeout=120) > 0

    known = ray.put(7)
    # The background thread would soon see that the loop has ended, and stand by itself: it is kept from that.
    monkeypatch.setattr(reactor, "_watch", lambda: False)
    while reactor.stander is None:  # a reply that was there before the loop could wait for it: once more
        asyncio.run(first())
    asyncio.run(second())
    assert ray.wait([pid.remote(), pid.remote()], num_returns=2, timeout=120)[1] == []


def test_a_loop_that_is_blocked_does_not_keep_other_threads_from_their_results(
    ray: ModuleType, tmp_path: Path
) -> None:
    """The loop is the one that should read, and does not get to it."""

    @ray.remote
    def add(a: int, b: int = 0) -> int:
        return a + b

    gate = Gate(tmp_path)
    enter = ray.remote(Gate.enter)
    blocked, over = threading.Event(), threading.Event()

    async def main() -> None:
        waits = asyncio.ensure_future(_of(enter.remote(gate)))
        await asyncio.sleep(0)
        blocked.set()
        assert over.wait(60)
        gate.open()
        await waits

    async def _of(ref: Any) -> Any:
        return await ref

    thread = in_thread(main())
    try:
        assert blocked.wait(60)
        chain = add.remote(1)
        for _ in range(20):  # each needs the reply before it
            chain = add.remote(chain, 1)
        future = chain.future()
        assert future.result(60) == 21
    finally:
        over.set()
        thread.join()


def test_the_loop_that_results_are_for_reads_them_although_another_one_waits_longer(
    ray: ModuleType, tmp_path: Path
) -> None:
    @ray.remote
    def one() -> int:
        return 1

    gate = Gate(tmp_path)
    enter = ray.remote(Gate.enter)
    waiting = threading.Event()
    reactor = engines.current().owner.reactor  # type: ignore[union-attr]

    async def wait_long() -> None:
        ref = enter.remote(gate)
        future = ref.as_future()
        waiting.set()
        await future

    async def ask() -> None:
        mine = asyncio.get_running_loop()
        for _ in range(5000):
            assert await one.remote() == 1
            if getattr(reactor.stander, "loop", None) is mine:
                return
        raise AssertionError("the loop never read what was for it")

    thread = in_thread(wait_long())
    try:
        assert waiting.wait(120)
        asyncio.run(ask())
    finally:
        gate.open()
        thread.join()


def test_loops_in_several_threads_and_gets_beside_them_all_come_to_an_end(ray: ModuleType) -> None:
    @ray.remote
    class Echo:
        async def say(self, value: int) -> int:
            await asyncio.sleep(0)
            return value

    echo = Echo.remote()

    async def main() -> None:
        for start in range(0, 300, 30):
            wanted = list(range(start, start + 30))
            assert await asyncio.gather(*(echo.say.remote(i) for i in wanted)) == wanted

    threads = [in_thread(main()) for _ in range(3)]
    for i in range(100):
        assert ray.get(echo.say.remote(i)) == i
    for each in threads:
        each.join(120)
        assert not each.is_alive()


def test_an_await_that_is_given_up_frees_its_object_and_an_ended_session_ends_all_awaits(
    ray: ModuleType, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    enter = ray.remote(Gate.enter)

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(_of(enter.remote(gate)), 0.05)
        waits = asyncio.ensure_future(_of(enter.remote(gate)))
        await asyncio.sleep(0)
        threading.Thread(target=ray.shutdown).start()
        with pytest.raises(Exception, match=r"shut down|ended|shutdown"):
            await asyncio.wait_for(waits, 60)

    async def _of(ref: Any) -> Any:
        return await ref

    asyncio.run(main())
    gate.open()
