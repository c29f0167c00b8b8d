"""Asyncio actors: how many calls run at once, groups, generators, errors, cancelling, context."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog.exceptions import ActorDiedError, RayTaskError, TaskCancelledError

GET_S = 120


def make_barrier(ray: ModuleType) -> Any:
    """An actor whose `meet` returns once so many calls are inside at the same time."""

    class Barrier:
        def __init__(self) -> None:
            self.inside = 0
            self.most = 0
            self.open = asyncio.Event()

        async def meet(self, count: int) -> int:
            self.inside += 1
            if self.inside >= count:
                self.open.set()
            await self.open.wait()
            return self.inside

        async def count(self, at_least: int) -> int:
            """How many calls of this method ran at once, at most, up to now; it waits until so many have."""
            self.inside += 1
            self.most = max(self.most, self.inside)
            if self.most >= at_least:
                self.open.set()
            await self.open.wait()
            for _ in range(5):
                await asyncio.sleep(0)
            self.inside -= 1
            return self.most

        async def ping(self) -> str:
            return "pong"

    return ray.remote(Barrier)


# ---------------------------------------------------------------------- concurrency
def test_a_thousand_calls_run_at_once_by_default(ray: ModuleType) -> None:
    barrier = make_barrier(ray).remote()
    assert ray.get([barrier.meet.remote(1000) for _ in range(1000)], timeout=GET_S) == [1000] * 1000


def test_max_concurrency_bounds_how_many_calls_run_at_once(ray: ModuleType) -> None:
    barrier = make_barrier(ray).options(max_concurrency=3).remote()
    assert max(ray.get([barrier.count.remote(3) for _ in range(40)], timeout=GET_S)) == 3
    alone = make_barrier(ray).options(max_concurrency=1).remote()
    assert max(ray.get([alone.count.remote(1) for _ in range(10)], timeout=GET_S)) == 1


def make_log(ray: ModuleType) -> Any:
    class Log:
        def __init__(self) -> None:
            self.seen: list[int] = []

        async def note(self, number: int) -> None:
            self.seen.append(number)
            await asyncio.sleep(0)

        async def note_somehow(self, number: int) -> None:
            self.seen.append(number)
            if number % 40 == 20:
                time.sleep(0.003)  # no longer quick
            elif number % 7 == 3:
                await asyncio.sleep(0)

        async def note_slowly(self, number: int) -> None:
            self.seen.append(number)
            await asyncio.sleep(0.002)

        async def all(self) -> list[int]:
            return self.seen

    return ray.remote(Log)


def test_calls_of_one_caller_begin_in_order(ray: ModuleType) -> None:
    log = make_log(ray).remote()
    ray.get([log.note.remote(number) for number in range(500)], timeout=GET_S)
    assert ray.get(log.all.remote()) == list(range(500))


def test_calls_begin_in_order_whether_they_are_quick_wait_or_hold_the_loop(ray: ModuleType) -> None:
    log = make_log(ray).remote()
    calls = [
        (log.note_slowly if number % 11 == 5 else log.note_somehow).remote(number) for number in range(1500)
    ]
    ray.get(calls, timeout=GET_S)
    assert ray.get(log.all.remote(), timeout=GET_S) == list(range(1500))


def test_a_ref_that_a_plain_method_returns_stays_a_ref(ray: ModuleType) -> None:
    @ray.remote
    class Keeper:
        async def wait(self) -> None:
            pass

        def keep(self) -> Any:
            return sundog.put(5)

    keeper = Keeper.remote()  # held: what it put ends with it
    ref = ray.get(keeper.keep.remote(), timeout=GET_S)
    assert isinstance(ref, sundog.ObjectRef) and ray.get(ref, timeout=GET_S) == 5


def test_concurrency_groups_have_limits_of_their_own(ray: ModuleType) -> None:
    @ray.remote(concurrency_groups={"io": 2, "compute": 1})
    class Grouped:
        def __init__(self) -> None:
            self.running = {"io": 0, "compute": 0, "": 0}
            self.most = dict(self.running)
            self.open = False  # for all loops: an asyncio.Event belongs to one

        async def _run(self, group: str) -> str:
            self.running[group] += 1
            self.most[group] = max(self.most[group], self.running[group])
            while not self.open:
                await asyncio.sleep(0.002)
            self.running[group] -= 1
            return group

        @sundog.method(concurrency_group="io")
        async def io(self) -> str:
            return await self._run("io")

        @sundog.method(concurrency_group="compute")
        async def compute(self) -> str:
            return await self._run("compute")

        async def plain(self) -> str:
            return await self._run("")

        async def release(self) -> dict[str, int]:
            while sum(self.running.values()) < 8:
                await asyncio.sleep(0.002)
            self.open = True
            return self.most

    actor = Grouped.remote()
    refs = [actor.io.remote() for _ in range(5)] + [actor.compute.remote() for _ in range(5)]
    refs += [actor.plain.remote() for _ in range(5)]
    refs.append(actor.plain.options(concurrency_group="io").remote())
    assert ray.get(actor.release.remote(), timeout=GET_S) == {"io": 2, "compute": 1, "": 5}
    assert ray.get(refs, timeout=GET_S) == ["io"] * 5 + ["compute"] * 5 + [""] * 6


def test_an_unknown_group_is_an_error_of_the_call_and_not_the_end_of_the_actor(ray: ModuleType) -> None:
    @ray.remote(concurrency_groups={"io": 1})
    class Grouped:
        async def ping(self) -> str:
            return "pong"

    barrier = Grouped.remote()
    with pytest.raises(ValueError, match=r"'disk'.*'io'"):
        ray.get(barrier.ping.options(concurrency_group="disk").remote(), timeout=GET_S)
    assert ray.get(barrier.ping.remote(), timeout=GET_S) == "pong"


def test_plain_methods_of_an_async_actor_run_in_its_loop(ray: ModuleType) -> None:
    @ray.remote
    class Mixed:
        def __init__(self) -> None:
            self.value = 1

        async def slow(self) -> int:
            while self.value == 1:
                await asyncio.sleep(0)
            return self.value

        def set(self, value: int) -> bool:
            self.value = value
            return asyncio.get_running_loop().is_running()

    mixed = Mixed.remote()
    waiting = mixed.slow.remote()
    assert ray.get(mixed.set.remote(5), timeout=GET_S) is True
    assert ray.get(waiting, timeout=GET_S) == 5


# ---------------------------------------------------------------------- generators and refs
def test_async_generators_stream_their_items(ray: ModuleType) -> None:
    @ray.remote
    class Source:
        async def numbers(self, count: int) -> AsyncIterator[int]:
            for number in range(count):
                await asyncio.sleep(0)
                yield number

        def plain(self, count: int) -> Any:
            yield from range(count)

    source = Source.remote()
    first, second = source.numbers.remote(20), source.numbers.remote(5)
    assert [ray.get(ref) for ref in first] == list(range(20))
    assert [ray.get(ref) for ref in second] == list(range(5))
    assert [ray.get(ref) for ref in source.plain.remote(4)] == [0, 1, 2, 3]


def test_refs_can_be_awaited_gathered_and_waited_for_inside(ray: ModuleType) -> None:
    @ray.remote
    def double(number: int) -> int:
        return number * 2

    @ray.remote
    def fail() -> None:
        raise OSError("no disk")

    @ray.remote
    class Client:
        async def one(self) -> int:
            return int(await double.remote(4))

        async def many(self) -> list[int]:
            return list(await asyncio.gather(*[double.remote(number) for number in range(20)]))

        async def refs(self, box: list[Any]) -> int:
            return int(await box[0])

        async def bad(self) -> str:
            try:
                await fail.remote()
            except OSError as error:
                return type(error).__name__
            return "nothing"

        async def slow_one(self) -> str:
            done, _ = await asyncio.wait([asyncio.ensure_future(double.remote(1).as_future())], timeout=GET_S)
            return str(done.pop().result())

    client = Client.remote()
    assert ray.get(client.one.remote(), timeout=GET_S) == 8
    assert ray.get(client.many.remote(), timeout=GET_S) == [2 * number for number in range(20)]
    assert ray.get(client.refs.remote([double.remote(3)]), timeout=GET_S) == 6
    assert "OSError" in ray.get(client.bad.remote(), timeout=GET_S)
    assert ray.get(client.slow_one.remote(), timeout=GET_S) == "2"


def test_the_driver_can_await_refs_in_a_loop_of_its_own(ray: ModuleType) -> None:
    barrier = make_barrier(ray).remote()

    async def main() -> list[Any]:
        return await asyncio.gather(*[barrier.ping.remote() for _ in range(50)])

    assert asyncio.run(main()) == ["pong"] * 50


# ---------------------------------------------------------------------- errors and ends
def test_exceptions_of_coroutines_reach_the_caller(ray: ModuleType) -> None:
    @ray.remote
    class Bad:
        async def fail(self) -> None:
            await asyncio.sleep(0)
            raise KeyError("missing")

        async def timeout(self) -> None:
            await asyncio.wait_for(asyncio.Event().wait(), 0.01)

        async def ok(self) -> int:
            return 1

    bad = Bad.remote()
    with pytest.raises(KeyError) as caught:
        ray.get(bad.fail.remote(), timeout=GET_S)
    assert isinstance(caught.value, RayTaskError)
    with pytest.raises(asyncio.TimeoutError):
        ray.get(bad.timeout.remote(), timeout=GET_S)
    assert ray.get(bad.ok.remote()) == 1


def test_exit_actor_in_a_coroutine_fails_what_else_does_not_end_in_time(ray_session: Any) -> None:
    from sundog.actor import exit_actor

    ray = ray_session(num_cpus=1, _system_config={"actor_graceful_shutdown_timeout_ms": 200})

    @ray.remote(max_restarts=2)
    class Leaver:
        def __init__(self) -> None:
            self.begun = asyncio.Event()

        async def stay(self) -> None:
            self.begun.set()
            await asyncio.Event().wait()

        async def leave(self) -> None:
            await self.begun.wait()
            exit_actor()

    leaver = Leaver.remote()
    staying, leaving = leaver.stay.remote(), leaver.leave.remote()
    for ref in (leaving, staying, leaver.stay.remote()):
        with pytest.raises(ActorDiedError, match="exit_actor"):
            ray.get(ref, timeout=GET_S)


def test_exit_actor_in_a_task_that_a_coroutine_started_unwinds_both(ray: ModuleType) -> None:
    from sundog.actor import exit_actor
    from sundog.exceptions import AsyncioActorExit

    @ray.remote
    class Notes:
        def __init__(self) -> None:
            self.kept: list[str] = []

        def keep(self, note: str) -> None:
            self.kept.append(note)

        def all(self) -> list[str]:
            return self.kept

    @ray.remote
    class Leaver:
        async def leave(self, notes: Any) -> None:
            try:
                await asyncio.gather(self.inner())
            except AsyncioActorExit:
                await notes.keep.remote("unwound")
                raise

        async def inner(self) -> None:
            exit_actor()

    notes = Notes.remote()
    with pytest.raises(ActorDiedError, match=r"exit_actor\(\) was called"):
        ray.get(Leaver.remote().leave.remote(notes), timeout=GET_S)
    assert ray.get(notes.all.remote(), timeout=GET_S) == ["unwound"]


def test_calls_in_hand_finish_before_the_last_handles_end_ends_the_actor(ray: ModuleType) -> None:
    @ray.remote
    class Slow:
        async def work(self, turns: int) -> int:
            for _ in range(turns):
                await asyncio.sleep(0)
            return turns

    slow = Slow.remote()
    refs = [slow.work.remote(turns) for turns in range(0, 200, 10)]
    del slow
    assert ray.get(refs, timeout=GET_S) == list(range(0, 200, 10))


def test_a_crash_of_an_async_actor_fails_all_that_runs_there_and_a_restart_tries_it_again(
    ray: ModuleType,
) -> None:
    @ray.remote(max_restarts=1, max_task_retries=1)
    class Crashing:
        async def attempt(self) -> int:
            context = sundog.get_runtime_context()
            if not context.was_current_actor_reconstructed:
                await asyncio.Event().wait()
            return context.get_attempt_number()

        async def crash(self) -> None:
            if not sundog.get_runtime_context().was_current_actor_reconstructed:
                os.kill(os.getpid(), signal.SIGKILL)

    crashing = Crashing.remote()
    refs = [crashing.attempt.remote() for _ in range(10)]
    crashing.crash.remote()
    assert ray.get(refs, timeout=GET_S) == [1] * 10


def test_an_async_generator_that_is_to_give_one_result_is_an_error(ray: ModuleType) -> None:
    @ray.remote
    class Source:
        async def numbers(self) -> Any:
            yield 1

    with pytest.raises(TypeError, match="numbers"):
        ray.get(Source.remote().numbers.options(num_returns=1).remote(), timeout=GET_S)


# ---------------------------------------------------------------------- cancelling
def test_a_running_coroutine_is_cancelled_where_it_awaits(ray: ModuleType) -> None:
    @ray.remote
    class Waiter:
        def __init__(self) -> None:
            self.cleaned: list[str] = []
            self.begun = asyncio.Event()

        async def hold(self) -> None:
            self.begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cleaned.append("yes")
                raise

        async def has_begun(self) -> bool:
            return await self.begun.wait()

        async def report(self) -> list[str]:
            return self.cleaned

    waiter = Waiter.remote()
    ref = waiter.hold.remote()
    ray.get(waiter.has_begun.remote(), timeout=GET_S)
    ray.cancel(ref)
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=GET_S)
    assert ray.get(waiter.report.remote(), timeout=GET_S) == ["yes"]
    with pytest.raises(ValueError, match="force"):
        ray.cancel(waiter.hold.remote(), force=True)


def test_a_coroutine_that_answers_its_cancel_was_cancelled_all_the_same(ray: ModuleType) -> None:
    @ray.remote
    class Stubborn:
        def __init__(self) -> None:
            self.begun = asyncio.Queue[str]()

        async def hold(self, how: str) -> str:
            self.begun.put_nowait(how)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if how == "raises":
                    raise KeyError(how) from None
            return how

        async def has_begun(self) -> str:
            return await self.begun.get()

    stubborn = Stubborn.remote()
    for how in ("raises", "answers"):
        ref = stubborn.hold.remote(how)
        assert ray.get(stubborn.has_begun.remote(), timeout=GET_S) == how
        ray.cancel(ref)
        with pytest.raises(TaskCancelledError):
            ray.get(ref, timeout=GET_S)


def test_coroutines_that_wait_for_their_turn_are_cancelled_unrun(ray: ModuleType) -> None:
    @ray.remote(max_concurrency=1)
    class One:
        def __init__(self) -> None:
            self.gate = asyncio.Event()
            self.ran: list[int] = []

        async def work(self, number: int) -> int:
            self.ran.append(number)
            if number == 0:
                await self.gate.wait()
            return number

        async def all(self) -> list[int]:
            return self.ran

    one = One.remote()
    first, *others = [one.work.remote(number) for number in range(6)]
    for ref in others[:3]:
        ray.cancel(ref)
    for ref in others[:3]:
        with pytest.raises(TaskCancelledError):
            ray.get(ref, timeout=GET_S)
    ray.cancel(first)
    with pytest.raises(TaskCancelledError):
        ray.get(first, timeout=GET_S)
    assert ray.get(others[3:], timeout=GET_S) == [4, 5]
    assert set(ray.get(one.all.remote())) <= {0, 4, 5}


def test_a_call_cancelled_right_after_it_was_made_never_hangs(ray: ModuleType) -> None:
    @ray.remote
    class Quick:
        async def hold(self) -> None:
            await asyncio.Event().wait()

        async def ping(self) -> int:
            return 1

    quick = Quick.remote()
    ray.get(quick.ping.remote(), timeout=GET_S)
    for _ in range(20):
        ref = quick.hold.remote()
        ray.cancel(ref)
        with pytest.raises(TaskCancelledError):
            ray.get(ref, timeout=GET_S)
    assert ray.get(quick.ping.remote(), timeout=GET_S) == 1


# ---------------------------------------------------------------------- context
def test_each_coroutine_sees_its_own_runtime_context(ray: ModuleType) -> None:
    @ray.remote
    class Contexts:
        async def ids(self) -> list[str | None]:
            found = []
            for _ in range(3):
                found.append(sundog.get_runtime_context().get_task_id())
                await asyncio.sleep(0)
            return found

        async def actor(self) -> tuple[str | None, Any]:
            context = sundog.get_runtime_context()
            return context.get_actor_id(), context.current_actor

    contexts = Contexts.remote()
    refs = [contexts.ids.remote() for _ in range(20)]
    for ref, found in zip(refs, ray.get(refs, timeout=GET_S), strict=True):
        assert found == [ref.task_id().hex()] * 3
    actor_id, handle = ray.get(contexts.actor.remote())
    assert actor_id == contexts._actor_id.hex()
    assert handle == contexts
