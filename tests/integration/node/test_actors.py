"""Handles of actors, how actors end, and what they hold: the life of an actor around its calls."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog.exceptions import ActorDiedError, ActorUnavailableError
from sundog.wire.requests import ListRows
from tests.integration.counters import make_counter
from tests.integration.gates import await_file, await_true

GET_S = 120


# ---------------------------------------------------------------------- handles
def test_handles_pass_through_tasks_actors_and_containers_and_back(ray: ModuleType) -> None:
    counter = make_counter(ray).remote()

    @ray.remote
    def bump(handle: Any) -> int:
        return int(sundog.get(handle.add.remote()))

    @ray.remote
    def echo(box: dict[str, Any]) -> Any:
        return box["handle"]

    @ray.remote
    class Holder:
        def __init__(self, handle: Any) -> None:
            self.handle = handle

        def bump(self) -> int:
            return int(sundog.get(self.handle.add.remote()))

        def give(self) -> Any:
            return self.handle

    assert ray.get(bump.remote(counter), timeout=GET_S) == 1
    back = ray.get(echo.remote({"handle": counter}), timeout=GET_S)
    assert back == counter and hash(back) == hash(counter)
    holder = Holder.remote(ray.put(counter))
    assert ray.get(holder.bump.remote(), timeout=GET_S) == 2
    given = ray.get(holder.give.remote())
    del counter, back
    assert ray.get(given.add.remote(), timeout=GET_S) == 3


def test_an_actor_made_in_a_task_lives_while_its_returned_handle_does(ray: ModuleType) -> None:
    cls = make_counter(ray)

    @ray.remote
    def make() -> Any:
        return cls.remote(100)

    handle = ray.get(make.remote(), timeout=GET_S)
    assert ray.get([handle.add.remote(), handle.add.remote()], timeout=GET_S) == [101, 102]


def test_an_actor_can_pass_on_a_handle_to_itself(ray: ModuleType) -> None:
    @ray.remote
    class Selfish:
        def __init__(self) -> None:
            self.calls = 0

        def me(self) -> Any:
            return sundog.get_runtime_context().current_actor

        def touch(self) -> int:
            self.calls += 1
            return self.calls

    actor = Selfish.remote()
    me = ray.get(actor.me.remote(), timeout=GET_S)
    assert me == actor
    assert ray.get(me.touch.remote(), timeout=GET_S) == 1


def test_an_actor_ends_when_its_last_handle_goes(ray: ModuleType) -> None:
    cls = make_counter(ray)
    counter = cls.remote()
    pid = ray.get(counter.pid.remote(), timeout=GET_S)
    other = counter
    del counter
    assert ray.get(other.add.remote()) == 1
    del other
    await_true(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the actor")
    assert ray.get(cls.remote().add.remote(), timeout=GET_S) == 1


def test_calls_made_before_the_last_handle_went_are_finished_first(ray: ModuleType, tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    @ray.remote
    class Writer:
        def __init__(self) -> None:
            self.pid = os.getpid()

        def hold(self) -> int:
            await_file(gate)
            return self.pid

        def write(self, name: str) -> str:
            (tmp_path / name).touch()
            return name

    writer = Writer.remote()
    held = writer.hold.remote()
    refs = [writer.write.remote(f"n{index}") for index in range(200)]
    writer.write.remote("forgotten")
    del writer
    gate.touch()
    assert ray.get(refs, timeout=GET_S) == [f"n{index}" for index in range(200)]
    pid = ray.get(held)
    await_true(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the actor")
    assert (tmp_path / "forgotten").exists()


def test_a_handle_that_only_a_task_holds_keeps_the_actor(ray: ModuleType, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    counter = make_counter(ray).remote(5)

    @ray.remote
    def later(handle: Any) -> int:
        await_file(gate)
        return int(sundog.get(handle.add.remote()))

    ref = later.remote(counter)
    del counter
    gate.touch()
    assert ray.get(ref, timeout=GET_S) == 6


# ---------------------------------------------------------------------- ends
def test_exit_actor_ends_the_actor_after_the_calls_before_it(ray: ModuleType) -> None:
    from sundog.actor import exit_actor

    @ray.remote(max_restarts=3)
    class Mortal:
        def work(self, number: int) -> int:
            return number

        def leave(self) -> None:
            exit_actor()

    mortal = Mortal.remote()
    before = [mortal.work.remote(number) for number in range(100)]
    leaving = mortal.leave.remote()
    after = [mortal.work.remote(number) for number in range(100)]
    assert ray.get(before, timeout=GET_S) == list(range(100))
    with pytest.raises(ActorDiedError, match="exit_actor"):
        ray.get(leaving, timeout=GET_S)
    for ref in after:
        with pytest.raises(ActorDiedError):
            ray.get(ref, timeout=GET_S)
    with pytest.raises(ActorDiedError, match="exit_actor"):
        ray.get(mortal.work.remote(1), timeout=GET_S)


def test_sys_exit_with_success_ends_the_actor_for_good(ray: ModuleType) -> None:
    @ray.remote(max_restarts=3)
    class Quitter:
        def quit(self) -> None:
            sys.exit()

        def ok(self) -> int:
            return 1

    quitter = Quitter.remote()
    with pytest.raises(ActorDiedError, match=r"sys\.exit"):
        ray.get(quitter.quit.remote(), timeout=GET_S)
    with pytest.raises(ActorDiedError):
        ray.get(quitter.ok.remote(), timeout=GET_S)


def test_sys_exit_with_an_error_is_a_crash_from_which_the_actor_restarts(ray: ModuleType) -> None:
    @ray.remote(max_restarts=1)
    class Quitter:
        def quit(self, code: Any) -> None:
            sys.exit(code)

        def ok(self) -> int:
            return 1

    quitter = Quitter.remote()
    with pytest.raises(ActorUnavailableError):
        ray.get(quitter.quit.remote(3), timeout=GET_S)
    assert ray.get(quitter.ok.options(max_task_retries=-1).remote(), timeout=GET_S) == 1
    with pytest.raises(ActorDiedError) as caught:
        ray.get(quitter.quit.remote("out of luck"), timeout=GET_S)
    assert caught.value.exit_code == 1


def test_a_killed_actor_fails_its_calls_and_frees_its_process(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote
    class Stuck:
        def pid(self) -> int:
            return os.getpid()

        def hold(self) -> None:
            await_file(tmp_path / "never")

    stuck = Stuck.remote()
    pid = ray.get(stuck.pid.remote(), timeout=GET_S)
    held = stuck.hold.remote()
    ray.kill(stuck)
    with pytest.raises(ActorDiedError, match="kill"):
        ray.get(held, timeout=GET_S)
    with pytest.raises(ActorDiedError, match="kill"):
        ray.get(stuck.pid.remote(), timeout=GET_S)
    await_true(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the actor")
    ray.kill(stuck)  # a second time does no harm


def test_os_exit_in_a_method_names_the_exit_code(ray: ModuleType) -> None:
    @ray.remote
    class Crasher:
        def crash(self) -> None:
            os._exit(13)

    with pytest.raises(ActorDiedError) as caught:
        ray.get(Crasher.remote().crash.remote(), timeout=GET_S)
    assert caught.value.exit_code == 13


# ---------------------------------------------------------------------- resources
def test_actors_hold_what_they_ask_for_and_nothing_by_default(
    ray_session: Callable[..., ModuleType],
) -> None:
    ray = ray_session(num_cpus=2)
    cls = make_counter(ray)
    idle = [cls.remote() for _ in range(6)]
    assert ray.get([actor.add.remote() for actor in idle], timeout=GET_S) == [1] * 6
    assert ray.available_resources()["CPU"] == 2
    greedy = cls.options(num_cpus=2).remote()
    assert ray.get(greedy.add.remote(), timeout=GET_S) == 1
    assert "CPU" not in ray.available_resources()
    waiting = cls.options(num_cpus=1).remote()
    ref = waiting.add.remote()
    assert ray.wait([ref], timeout=0.1) == ([], [ref])
    ray.kill(greedy)
    assert ray.get(ref, timeout=GET_S) == 1
    assert ray.available_resources()["CPU"] == 1
    assert ray.get(
        waiting.__ray_call__.remote(lambda _: sundog.get_runtime_context().get_assigned_resources())
    ) == {"CPU": 1}


def test_many_actors_come_and_go(ray: ModuleType) -> None:
    cls = make_counter(ray)
    for _ in range(3):
        actors = [cls.remote(index) for index in range(10)]
        assert ray.get([actor.add.remote() for actor in actors], timeout=GET_S) == list(range(1, 11))
        pids = ray.get([actor.pid.remote() for actor in actors])
        del actors
        await_true(lambda pids=pids: not any(os.path.exists(f"/proc/{pid}") for pid in pids), "their end")


@pytest.mark.parametrize("kind", ["plain", "threaded", "asyncio"])
def test_an_actor_whose_last_handle_goes_during_its_constructor_ends_after_it(
    ray: ModuleType, tmp_path: Path, kind: str
) -> None:
    begun, gate = tmp_path / "begun", tmp_path / "gate"

    class Slow:
        def __init__(self) -> None:
            begun.touch()
            await_file(gate)

    class SlowAsync(Slow):
        async def call(self) -> None:
            pass

    def alive() -> list[Any]:
        return [row for row in sundog.api.control(ListRows("actors"))[0] if row["state"] != "DEAD"]

    def told_to_end() -> bool:
        return any(row["state"] == "stopping" for row in sundog.api.control(ListRows("workers"))[0])

    options = {"max_concurrency": 2} if kind == "threaded" else {"num_cpus": 0}
    handle = ray.remote(**options)(SlowAsync if kind == "asyncio" else Slow).remote()
    await_file(begun)
    del handle
    await_true(told_to_end, "the word to end")
    gate.touch()
    await_true(lambda: not alive(), "its end")
