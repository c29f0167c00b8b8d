"""Named and detached actors: names, namespaces, several drivers on one session."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog.engines import sessions
from sundog.exceptions import ActorAlreadyExistsError, ActorDiedError
from sundog.util import list_named_actors
from tests.integration import drivers
from tests.integration.gates import await_true

GET_S = 120


def make_counter(ray: ModuleType) -> Any:
    class Counter:
        def __init__(self, start: int = 0) -> None:
            self.value = start

        def add(self) -> int:
            self.value += 1
            return self.value

        def pid(self) -> int:
            return os.getpid()

    return ray.remote(Counter)


@pytest.fixture
def head(leak_check: Path) -> Iterator[sessions.SessionInfo]:
    """A session that outlives its drivers, as `sundog start --head` makes it."""
    info = sessions.start_head(num_cpus=2)
    yield info
    sessions.stop_session(info)


# ---------------------------------------------------------------------- names
def test_an_actor_is_found_by_its_name_from_drivers_tasks_and_actors(ray: ModuleType) -> None:
    counter = make_counter(ray).options(name="the counter").remote(5)

    @ray.remote
    def bump() -> int:
        return int(sundog.get(sundog.get_actor("the counter").add.remote()))

    found = ray.get_actor("the counter")
    assert found == counter
    assert ray.get(found.add.remote(), timeout=GET_S) == 6
    assert ray.get(bump.remote(), timeout=GET_S) == 7
    assert ray.get(counter.__ray_call__.remote(lambda _: sundog.get_runtime_context().get_actor_name())) == (
        "the counter"
    )
    assert list_named_actors() == ["the counter"]


def test_a_handle_found_by_name_does_not_keep_the_actor(ray: ModuleType) -> None:
    counter = make_counter(ray).options(name="short").remote()
    found = ray.get_actor("short")
    pid = ray.get(found.pid.remote(), timeout=GET_S)
    del counter
    await_true(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the actor")
    with pytest.raises(ActorDiedError, match="scope"):
        ray.get(found.add.remote(), timeout=GET_S)


def test_a_name_is_taken_until_its_actor_is_killed(ray: ModuleType) -> None:
    cls = make_counter(ray).options(name="one")
    first = cls.remote()
    with pytest.raises(ActorAlreadyExistsError, match="one") as caught:
        cls.remote()
    assert isinstance(caught.value, ValueError)
    ray.kill(first)
    await_true(lambda: not list_named_actors(), "the name is free")
    second = cls.remote(10)
    assert ray.get(second.add.remote(), timeout=GET_S) == 11
    assert ray.get_actor("one") == second


def test_a_name_that_is_not_found_is_told_beside_those_of_live_actors_only(ray: ModuleType) -> None:
    counter = make_counter(ray)
    gone = counter.options(name="gone").remote()
    kept = counter.options(name="kept").remote()
    assert ray.get([gone.add.remote(), kept.add.remote()], timeout=GET_S) == [1, 1]
    ray.kill(gone)
    with pytest.raises(ValueError, match=r"named 'gone' .* Names: \['kept'\]"):
        ray.get_actor("gone")


def kill_process(ray: ModuleType, actor: Any) -> None:
    os.kill(ray.get(actor.pid.remote(), timeout=GET_S), signal.SIGKILL)
    with pytest.raises(ActorDiedError):
        ray.get(actor.pid.remote(), timeout=GET_S)


def can_be_made(cls: Any) -> bool:
    try:
        cls.remote()
    except ActorAlreadyExistsError:
        return False
    return True


def test_an_actor_that_crashed_keeps_its_name_while_a_handle_is_held(ray: ModuleType) -> None:
    cls = make_counter(ray).options(name="slot")
    first = cls.remote()
    kill_process(ray, first)
    assert ray.get_actor("slot") == first
    assert cls.options(get_if_exists=True).remote() == first
    assert list_named_actors() == []
    with pytest.raises(ActorAlreadyExistsError, match="is dead, but a program still has handles to it"):
        cls.remote()
    del first
    await_true(lambda: can_be_made(cls), "the name to be free")


def test_a_handle_held_by_another_process_keeps_the_name_of_a_dead_actor(ray: ModuleType) -> None:
    @ray.remote
    class Keeper:
        def keep(self, kept: list[Any]) -> None:
            self.kept = kept

    cls = make_counter(ray).options(name="slot")
    keeper, first = Keeper.remote(), cls.remote()
    ray.get(keeper.keep.remote([first]), timeout=GET_S)
    kill_process(ray, first)
    del first
    assert not can_be_made(cls)
    ray.get(keeper.keep.remote([]), timeout=GET_S)
    await_true(lambda: can_be_made(cls), "the name to be free")


def test_a_kill_frees_the_name_of_an_actor_that_is_dead_already(ray: ModuleType) -> None:
    cls = make_counter(ray).options(name="slot")
    first = cls.remote()
    kill_process(ray, first)
    ray.kill(first)
    assert ray.get(cls.remote().add.remote(), timeout=GET_S) == 1


def test_a_detached_actor_that_crashed_gives_back_its_name(ray: ModuleType) -> None:
    cls = make_counter(ray).options(name="slot", lifetime="detached")
    first = cls.remote()
    kill_process(ray, first)
    assert cls.remote() != first


def test_an_actor_whose_constructor_failed_keeps_its_name_while_a_handle_is_held(ray: ModuleType) -> None:
    @ray.remote
    class Broken:
        def __init__(self) -> None:
            raise ValueError("bad")

        def work(self) -> None:
            return None

    broken = Broken.options(name="slot").remote()
    with pytest.raises(ActorDiedError, match="bad"):
        ray.get(broken.work.remote(), timeout=GET_S)
    assert ray.get_actor("slot") == broken
    cls = make_counter(ray).options(name="slot")
    assert not can_be_made(cls)
    del broken
    await_true(lambda: can_be_made(cls), "the name to be free")


def test_get_if_exists_makes_one_actor_and_then_finds_it(ray: ModuleType) -> None:
    cls = make_counter(ray).options(name="shared", get_if_exists=True)
    first = cls.remote(100)
    second = cls.remote(500)
    assert first == second
    assert ray.get([first.add.remote(), second.add.remote()], timeout=GET_S) == [101, 102]

    @ray.remote
    def join() -> int:
        return int(sundog.get(cls.remote(900).add.remote()))

    assert sorted(ray.get([join.remote() for _ in range(4)], timeout=GET_S)) == [103, 104, 105, 106]


def test_wrong_names_and_lifetimes_are_refused(ray: ModuleType) -> None:
    cls = make_counter(ray)
    with pytest.raises(ValueError, match="get_if_exists"):
        cls.options(get_if_exists=True).remote()
    with pytest.raises(ValueError, match="name cannot be an empty string"):
        cls.options(name="").remote()
    with pytest.raises(TypeError, match="name"):
        cls.options(name=3).remote()
    with pytest.raises(ValueError, match="detached"):
        cls.options(lifetime="eternal").remote()
    with pytest.raises(ValueError, match="no live actor"):
        ray.get_actor("nobody")
    with pytest.raises(ValueError, match="namespace"):
        ray.get_actor("nobody", namespace="")
    with pytest.raises(ValueError, match="name"):
        ray.get_actor("")
    with pytest.raises(TypeError, match="name=3"):
        ray.get_actor(3)
    with pytest.raises(TypeError, match="namespace=3"):
        ray.get_actor("nobody", namespace=3)


# ---------------------------------------------------------------------- namespaces
def test_names_live_in_namespaces(ray_session: Callable[..., ModuleType]) -> None:
    ray = ray_session(num_cpus=4, namespace="home")
    cls = make_counter(ray)
    here = cls.options(name="n").remote(0)
    there = cls.options(name="n", namespace="away").remote(100)
    assert ray.get([here.add.remote(), there.add.remote()], timeout=GET_S) == [1, 101]
    assert ray.get_actor("n") == here
    assert ray.get_actor("n", namespace="away") == there
    assert ray.get_runtime_context().namespace == "home"
    assert list_named_actors() == ["n"]
    everyone = sorted(list_named_actors(all_namespaces=True), key=lambda each: str(each["namespace"]))
    assert everyone == [{"name": "n", "namespace": "away"}, {"name": "n", "namespace": "home"}]

    @ray.remote
    def namespace() -> tuple[str, int]:
        found = sundog.get_actor("n")
        return sundog.get_runtime_context().namespace, sundog.get(found.add.remote())

    assert ray.get(namespace.remote(), timeout=GET_S) == ("home", 2)


# ---------------------------------------------------------------------- detached actors and several drivers
def test_a_detached_actor_outlives_its_handles(ray: ModuleType) -> None:
    make_counter(ray).options(name="stays", lifetime="detached").remote(3)
    found = ray.get_actor("stays")
    assert ray.get(found.add.remote(), timeout=GET_S) == 4
    del found
    assert ray.get(ray.get_actor("stays").add.remote(), timeout=GET_S) == 5
    ray.kill(ray.get_actor("stays"))
    await_true(lambda: not list_named_actors(), "the name is free")


def test_a_detached_actor_outlives_the_worker_that_made_it(ray: ModuleType) -> None:
    cls = make_counter(ray)

    @ray.remote(max_retries=0)
    def make_and_die() -> None:
        handle = cls.options(name="orphan", lifetime="detached").remote(7)
        sundog.get(handle.add.remote())
        os._exit(1)

    with pytest.raises(sundog.exceptions.WorkerCrashedError):
        ray.get(make_and_die.remote(), timeout=GET_S)
    assert ray.get(ray.get_actor("orphan").add.remote(), timeout=GET_S) == 9


PROGRAM = """
import os, sys
ray.init(address={address!r}, namespace="team")

@ray.remote
class Counter:
    def __init__(self):
        self.value = 0
    def add(self):
        self.value += 1
        return self.value

"""


def test_a_detached_actor_is_shared_by_drivers_one_after_the_other(head: sessions.SessionInfo) -> None:
    program = PROGRAM.format(address=head.path)
    first = drivers.run(
        program
        + """
counter = Counter.options(name="c", lifetime="detached").remote()
mortal = Counter.options(name="m").remote()
print(ray.get([counter.add.remote(), mortal.add.remote()]))
"""
    )
    assert first == ["[1, 1]"]
    second = drivers.run(
        program
        + """
from sundog.util import list_named_actors
print(list_named_actors(), ray.get(ray.get_actor("c").add.remote()))
ray.kill(ray.get_actor("c"))
try:
    ray.get(ray.get_actor("c").add.remote(), timeout=120)
except (ValueError, ray.exceptions.ActorDiedError):
    print("dead")
"""
    )
    assert second == ["['c'] 2", "dead"]


def test_a_detached_actor_has_tasks_actors_and_restarts_after_its_driver_has_left(
    head: sessions.SessionInfo,
) -> None:
    join = f"ray.init(address={head.path!r}, namespace='n')\n"
    made = drivers.run(
        join
        + """
import os

@ray.remote
def seven():
    return 7

@ray.remote
class Eight:
    def give(self):
        return 8

@ray.remote(max_restarts=1, max_task_retries=1)
class Parent:
    def numbers(self):
        return ray.get([seven.remote(), Eight.remote().give.remote()])

    def pid(self):
        return os.getpid()

parent = Parent.options(name="parent", lifetime="detached").remote()
print(ray.get(parent.pid.remote()))
"""
    )
    later = drivers.run(
        join
        + """
parent = ray.get_actor("parent")
print(ray.get(parent.numbers.remote(), timeout=120))
import os, signal
os.kill(PID, signal.SIGKILL)
print(ray.get(parent.pid.remote(), timeout=120) != PID, ray.get(parent.numbers.remote(), timeout=120))
ray.kill(parent)
""".replace("PID", made[0])
    )
    assert later == ["[7, 8]", "True [7, 8]"]


def test_two_drivers_share_a_detached_actor_at_the_same_time(
    head: sessions.SessionInfo, ray_session: Callable[..., ModuleType]
) -> None:
    ray = ray_session(address=head.path, namespace="team")
    counter = make_counter(ray).options(name="c", lifetime="detached").remote()
    assert ray.get(counter.add.remote(), timeout=GET_S) == 1
    with drivers.running(
        PROGRAM.format(address=head.path)
        + """
found = ray.get_actor("c")
print(ray.get(found.add.remote()))
input()
big = ray.put(bytes(300_000))
print(ray.get(found.add.remote()), flush=True)
os.kill(os.getpid(), 9)
"""
    ) as other:
        assert other.line() == "2"
        assert ray.get(counter.add.remote(), timeout=GET_S) == 3
        other.go_on()
        assert other.line() == "4"
        other.end()
    assert ray.get(counter.add.remote(), timeout=GET_S) == 5
    assert list_named_actors() == ["c"]


def test_an_actor_that_is_not_detached_ends_with_its_driver(
    head: sessions.SessionInfo, ray_session: Callable[..., ModuleType]
) -> None:
    ray = ray_session(address=head.path, namespace="team")
    with drivers.running(
        PROGRAM.format(address=head.path)
        + """
counter = Counter.options(name="c").remote()
ray.get(counter.add.remote())
print("up")
input()
"""
    ) as other:
        assert other.line() == "up"
        found = ray.get_actor("c")
        assert ray.get(found.add.remote(), timeout=GET_S) == 2
        other.kill()
    with pytest.raises(ActorDiedError, match=r"created it is gone|job ended"):
        while True:  # it may answer for a moment: the node hears of the death when the kernel says so
            ray.get(found.add.remote(), timeout=GET_S)
    await_true(lambda: not list_named_actors(), "the name is free")


def test_drivers_without_a_namespace_do_not_see_each_others_names(
    head: sessions.SessionInfo, ray_session: Callable[..., ModuleType]
) -> None:
    ray = ray_session(address=head.path)
    counter = make_counter(ray).options(name="mine").remote()
    assert ray.get(counter.add.remote(), timeout=GET_S) == 1
    assert drivers.run(
        f"""
ray.init(address={head.path!r})
try:
    ray.get_actor("mine")
except ValueError:
    print("hidden")
"""
    ) == ["hidden"]


def test_what_a_detached_actor_has_started_goes_on_when_the_program_ends(
    head: sessions.SessionInfo, tmp_path: Path
) -> None:
    gate, runs = tmp_path / "gate", tmp_path / "runs"
    program = """
        import os, sys, time
        ray.init(address=sys.argv[1], namespace="n")

        @ray.remote(num_cpus=0)
        def put():
            return ray.put("put by a task")

        @ray.remote(num_cpus=0)
        def child(gate, runs):
            with open(runs, "a") as file:
                file.write("x")
            while not os.path.exists(gate):
                time.sleep(0.01)
            return "done"

        @ray.remote(num_cpus=0)
        class Helper:
            def pid(self):
                return os.getpid()

        @ray.remote(num_cpus=0)
        class Holder:
            def begin(self, gate, runs):
                self.helper, self.made, self.child = Helper.remote(), put.remote(), child.remote(gate, runs)
                ray.get(self.made)
                return ray.get(self.helper.pid.remote())

            def ends(self):
                return ray.get(ray.get(self.made)), ray.get(self.child), ray.get(self.helper.pid.remote())

        holder = Holder.options(name="holder", lifetime="detached").remote()
        print(ray.get(holder.begin.remote(*sys.argv[2:])))
        while not os.path.exists(sys.argv[3]):
            time.sleep(0.01)
    """
    with drivers.running(program, head.address, str(gate), str(runs)) as driver:
        helper = int(driver.line())
        assert driver.process.wait(GET_S) == 0
    sundog.init(address=head.address, namespace="n")
    try:
        gate.write_text("")
        holder = sundog.get_actor("holder")
        assert sundog.get(holder.ends.remote(), timeout=GET_S) == ("put by a task", "done", helper)
        assert runs.read_text() == "x"
    finally:
        sundog.shutdown()
