"""Actors with threads: max_concurrency, concurrency groups, and what goes on in them at once."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog.exceptions import ActorDiedError, TaskCancelledError
from tests.integration.gates import await_file, await_true

GET_S = 120


def test_max_concurrency_calls_run_at_once_and_no_more(ray: ModuleType) -> None:
    @ray.remote(max_concurrency=4)
    class Pool:
        def __init__(self) -> None:
            self.barrier = threading.Barrier(4)
            self.lock = threading.Lock()
            self.running = self.most = 0

        def meet(self) -> int:
            with self.lock:
                self.running += 1
                self.most = max(self.most, self.running)
            self.barrier.wait(GET_S)
            with self.lock:
                self.running -= 1
            return self.most

    pool = Pool.remote()
    assert max(ray.get([pool.meet.remote() for _ in range(16)], timeout=GET_S)) == 4


def test_a_call_can_wait_for_another_call_of_the_same_actor(ray: ModuleType) -> None:
    @ray.remote(max_concurrency=2)
    class Talking:
        def __init__(self) -> None:
            self.event = threading.Event()

        def wait(self) -> bool:
            return self.event.wait(GET_S)

        def set(self) -> None:
            self.event.set()

    talking = Talking.remote()
    waiting = talking.wait.remote()
    ray.get(talking.set.remote(), timeout=GET_S)
    assert ray.get(waiting, timeout=GET_S) is True


def test_calls_that_used_to_be_quick_can_wait_for_each_other(ray: ModuleType) -> None:
    @ray.remote(max_concurrency=8)
    class Meeting:
        def __init__(self) -> None:
            self.barrier = threading.Barrier(8)

        def step(self, meet: bool) -> None:
            if meet:
                self.barrier.wait(GET_S)

    meeting = Meeting.remote()
    for _ in range(3):
        ray.get([meeting.step.remote(False) for _ in range(300)], timeout=GET_S)
        ray.get([meeting.step.remote(True) for _ in range(16)], timeout=GET_S)


def test_quick_calls_go_on_beside_one_of_their_kind_that_blocks(ray: ModuleType) -> None:
    @ray.remote(max_concurrency=2)
    class Door:
        def __init__(self) -> None:
            self.event = threading.Event()
            self.seen: list[int] = []

        def call(self, number: int) -> bool:
            self.seen.append(number)
            return self.event.wait(GET_S) if number < 0 else True

        def open(self) -> list[int]:
            self.event.set()
            return self.seen

    door = Door.remote()
    ray.get([door.call.remote(number) for number in range(300)], timeout=GET_S)
    blocked = door.call.remote(-1)
    ray.get([door.call.remote(number) for number in range(300, 600)], timeout=GET_S)
    ready, _ = ray.wait([blocked], timeout=0)
    assert not ready
    seen = ray.get(door.open.remote(), timeout=GET_S)
    assert ray.get(blocked, timeout=GET_S) is True
    assert sorted(seen) == list(range(-1, 600))


def make_grouped(ray: ModuleType) -> Any:
    @ray.remote(concurrency_groups={"io": 2, "compute": 4})
    class Grouped:
        def __init__(self) -> None:
            self.gate = threading.Event()

        @sundog.method(concurrency_group="io")
        def io(self) -> str:
            return threading.current_thread().name

        @sundog.method(concurrency_group="compute")
        def hold(self) -> str:
            self.gate.wait(GET_S)
            return threading.current_thread().name

        @sundog.method(concurrency_group="compute")
        def meet(self, barrier_of: int) -> int:
            self.barrier = getattr(self, "barrier", None) or threading.Barrier(barrier_of)
            return self.barrier.wait(GET_S)

        def plain(self) -> str:
            return threading.current_thread().name

        def open(self) -> None:
            self.gate.set()

    return Grouped.remote()


def test_a_full_group_does_not_hold_up_the_others(ray: ModuleType) -> None:
    grouped = make_grouped(ray)
    held = [grouped.hold.remote() for _ in range(8)]
    io = ray.get([grouped.io.remote() for _ in range(10)], timeout=GET_S)
    plain = ray.get([grouped.plain.remote() for _ in range(10)], timeout=GET_S)
    moved = ray.get(grouped.plain.options(concurrency_group="io").remote(), timeout=GET_S)
    assert all("io" in name for name in [*io, moved])
    assert 1 <= len(set(io)) <= 2
    assert len(set(plain)) == 1, "the default group of an actor with groups has one thread"
    ray.get(grouped.open.remote(), timeout=GET_S)
    assert len(set(ray.get(held, timeout=GET_S))) <= 4


def test_a_group_runs_as_many_calls_at_once_as_it_has_threads(ray: ModuleType) -> None:
    grouped = make_grouped(ray)
    ray.get(grouped.plain.remote(), timeout=GET_S)
    assert sorted(ray.get([grouped.meet.remote(4) for _ in range(4)], timeout=GET_S)) == [0, 1, 2, 3]


def test_an_unknown_group_is_an_error_of_the_call(ray: ModuleType) -> None:
    grouped = make_grouped(ray)
    with pytest.raises(ValueError, match=r"'disk'.*'compute', 'io'"):
        ray.get(grouped.plain.options(concurrency_group="disk").remote(), timeout=GET_S)
    assert "default" in ray.get(grouped.plain.remote(), timeout=GET_S)


def test_an_unknown_group_is_an_error_on_an_actor_without_groups_too(ray: ModuleType) -> None:
    @ray.remote
    class Plain:
        def work(self) -> int:
            return 1

    plain = Plain.remote()
    with pytest.raises(ValueError, match="no concurrency group 'disk'; it has none"):
        ray.get(plain.work.options(concurrency_group="disk").remote(), timeout=GET_S)
    assert ray.get(plain.work.remote(), timeout=GET_S) == 1


def test_a_method_decorated_with_an_unknown_group_is_refused_with_its_class() -> None:
    class Plain:
        @sundog.method(concurrency_group="nowhere")
        def lost(self) -> int:
            return 2

    with pytest.raises(AssertionError, match=r"Plain\.lost.*no concurrency group 'nowhere'"):
        sundog.remote(Plain)


def test_threads_get_put_and_call_at_the_same_time(ray: ModuleType) -> None:
    @ray.remote
    def double(number: int) -> int:
        return number * 2

    @ray.remote(max_concurrency=8)
    class Busy:
        def work(self, number: int) -> int:
            refs = [double.remote(each) for each in range(number)]
            return int(sum(sundog.get(refs)) + sundog.get(sundog.put(number)))

    busy = Busy.remote()
    assert ray.get([busy.work.remote(number) for number in range(24)], timeout=GET_S) == [
        number * (number - 1) + number for number in range(24)
    ]


def test_each_thread_sees_its_own_runtime_context(ray: ModuleType) -> None:
    @ray.remote(max_concurrency=4)
    class Contexts:
        def __init__(self) -> None:
            self.barrier = threading.Barrier(4)

        def task_id(self) -> str | None:
            self.barrier.wait(GET_S)
            return sundog.get_runtime_context().get_task_id()

    contexts = Contexts.remote()
    refs = [contexts.task_id.remote() for _ in range(4)]
    assert ray.get(refs, timeout=GET_S) == [ref.task_id().hex() for ref in refs]


def test_generators_of_a_threaded_actor_run_side_by_side(ray: ModuleType) -> None:
    @ray.remote(max_concurrency=3)
    class Source:
        def __init__(self) -> None:
            self.barrier = threading.Barrier(3)

        def numbers(self, count: int) -> Any:
            for number in range(count):
                self.barrier.wait(GET_S)
                yield number

    source = Source.remote()
    generators = [source.numbers.remote(5) for _ in range(3)]
    assert [[ray.get(ref) for ref in generator] for generator in generators] == [[0, 1, 2, 3, 4]] * 3


def test_a_call_that_waits_for_a_thread_can_be_cancelled(ray: ModuleType, tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    @ray.remote(concurrency_groups={"one": 1})
    class One:
        @sundog.method(concurrency_group="one")
        def hold(self) -> str:
            (tmp_path / "begun").touch()
            await_file(gate)
            return "held"

        @sundog.method(concurrency_group="one")
        def mark(self, name: str) -> str:
            (tmp_path / name).touch()
            return name

    one = One.remote()
    held = one.hold.remote()
    marks = [one.mark.remote("a"), one.mark.remote("b")]
    await_true((tmp_path / "begun").exists, "the first call")
    ray.cancel(marks[0])
    with pytest.raises(TaskCancelledError):
        ray.get(marks[0], timeout=GET_S)
    gate.touch()
    assert ray.get([held, marks[1]], timeout=GET_S) == ["held", "b"]
    assert not (tmp_path / "a").exists()


def test_a_call_in_a_thread_sees_that_it_is_cancelled_and_ends_in_its_own_way(
    ray: ModuleType, tmp_path: Path
) -> None:
    @ray.remote(max_concurrency=2)
    class Watchful:
        def watch(self, name: str) -> str:
            (tmp_path / name).touch()
            await_true(sundog.get_runtime_context().is_canceled, "the cancel")
            (tmp_path / f"{name}-saw").touch()
            if name == "raises":
                raise KeyError(name)
            return "cleaned up"

    watchful = Watchful.remote()
    refs = {name: watchful.watch.remote(name) for name in ("answers", "raises")}
    for name, ref in refs.items():
        await_true((tmp_path / name).exists, "the call")
        ray.cancel(ref)
    for name, ref in refs.items():
        with pytest.raises(KeyError if name == "raises" else TaskCancelledError):
            ray.get(ref, timeout=GET_S)
        assert (tmp_path / f"{name}-saw").exists()


def test_a_generator_in_a_thread_that_waits_for_its_reader_ends_when_cancelled(ray: ModuleType) -> None:
    @ray.remote(max_concurrency=2)
    class Source:
        @sundog.method(num_returns="streaming", _generator_backpressure_num_objects=1)
        def numbers(self) -> Any:
            yield from range(1000)

    items = Source.remote().numbers.remote()
    assert ray.get(next(items), timeout=GET_S) == 0
    ray.cancel(items)
    ray.wait([items.completed()], timeout=GET_S)
    with pytest.raises(TaskCancelledError):
        ray.get(list(items), timeout=GET_S)


def test_exit_actor_in_a_thread_ends_the_actor_though_other_calls_do_not_end(ray_session: Any) -> None:
    from sundog.actor import exit_actor

    ray = ray_session(num_cpus=1, _system_config={"actor_graceful_shutdown_timeout_ms": 200})

    @ray.remote(max_concurrency=2)
    class Leaver:
        def __init__(self) -> None:
            self.begun = threading.Event()

        def stay(self) -> None:
            self.begun.set()
            threading.Event().wait(GET_S)

        def leave(self) -> None:
            self.begun.wait(GET_S)
            exit_actor()

        def pid(self) -> int:
            return os.getpid()

    leaver = Leaver.remote()
    pid = ray.get(leaver.pid.remote(), timeout=GET_S)
    staying, leaving = leaver.stay.remote(), leaver.leave.remote()
    for ref in (leaving, staying):
        with pytest.raises(ActorDiedError, match="exit_actor"):
            ray.get(ref, timeout=GET_S)
    await_true(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the actor")


def test_calls_in_hand_finish_before_the_last_handles_end_ends_the_actor(ray: ModuleType) -> None:
    @ray.remote(max_concurrency=3)
    class Pool:
        def work(self, number: int) -> int:
            return number

    pool = Pool.remote()
    refs = [pool.work.remote(number) for number in range(100)]
    del pool
    assert ray.get(refs, timeout=GET_S) == list(range(100))


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_an_actor_that_cannot_answer_a_call_ends_instead_of_leaving_it_unanswered(
    ray: ModuleType, kind: str
) -> None:
    def no_way(*_: object) -> None:
        raise OSError("no room for the reply")

    class Threads:
        def fail(self) -> None:
            from sundog.worker import process

            process._executor.reply_error = no_way  # type: ignore[union-attr, method-assign]
            raise ValueError("to be told")

    class Loop(Threads):
        async def nothing(self) -> None:
            return None

    actor = ray.remote(max_concurrency=2)(Threads if kind == "threads" else Loop).remote()
    with pytest.raises(ActorDiedError):
        ray.get(actor.fail.remote(), timeout=120)
