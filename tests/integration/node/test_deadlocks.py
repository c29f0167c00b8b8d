"""Cycles of waits raise in the get that closed them, with the cycle; honest waits, however long, do not."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sundog.exceptions import DeadlockError, GetTimeoutError
from tests.integration.gates import await_file

Start = Callable[..., ModuleType]
SOON = {"deadlock_check_s": 0.1}
"""Looks at a get after a tenth of a second: honest waits of these tests last longer than that, too."""
HONEST_S = 0.9
"""How long they last: a search, its confirmation and another one come by meanwhile."""


@pytest.fixture
def ray(ray_session: Start) -> ModuleType:
    """A sundog that looks for deadlocks early."""
    return ray_session(num_cpus=4, resources={"lock": 1, "seat": 2}, _system_config=SOON)


def ring_of_actors(ray: ModuleType, size: int, **options: Any) -> Any:
    """Actors that each ask the next one; the last asks the first."""

    @ray.remote(num_cpus=0, **options)
    class Asker:
        def follow(self, following: Any) -> None:
            self.following = following

        def ask(self, hops: int) -> int:
            if hops == 0:
                return 0
            return 1 + int(ray.get(self.following.ask.remote(hops - 1)))

    actors = [Asker.remote() for _ in range(size)]
    ray.get([each.follow.remote(actors[(number + 1) % size]) for number, each in enumerate(actors)])
    return actors[0]


# ---------------------------------------------------------------------- actors
@pytest.mark.parametrize("size", [1, 2, 3])
def test_actors_that_wait_for_each_other_raise_with_the_cycle_and_the_stacks(
    ray: ModuleType, size: int
) -> None:
    first = ring_of_actors(ray, size)
    with pytest.raises(DeadlockError) as caught:
        ray.get(first.ask.remote(size))
    error = caught.value.cause
    assert len(error.cycle) == size
    assert {link["name"] for link in error.cycle} == {"Asker.ask()"}
    assert len({link["pid"] for link in error.cycle}) == size
    for link in error.cycle:
        assert [frame[2] for frame in link["stack"]][-1] == "ask"
    assert "runs one call at a time" in str(error)
    # The circle is broken: the actors are there for calls that make none.
    assert ray.get(first.ask.remote(size - 1)) == size - 1


def test_the_same_ring_is_no_deadlock_for_actors_with_two_threads(ray: ModuleType) -> None:
    first = ring_of_actors(ray, 2, max_concurrency=2)
    assert ray.get(first.ask.remote(3)) == 3
    with pytest.raises(DeadlockError) as caught:
        ray.get(first.ask.remote(4))
    assert "runs 2 calls at a time" in str(caught.value)


def test_a_coroutine_that_blocks_its_loop_for_its_own_actor_raises(ray: ModuleType) -> None:
    @ray.remote
    class Loop:
        async def ask(self, me: Any) -> int:
            return int(ray.get(me.answer.remote()))

        async def patient(self, me: Any) -> int:
            return int(await me.answer.remote())

        async def answer(self) -> int:
            return 42

    loop = Loop.remote()
    assert ray.get(loop.patient.remote(loop)) == 42
    with pytest.raises(DeadlockError):
        ray.get(loop.ask.remote(loop))
    assert ray.get(loop.answer.remote()) == 42


def test_a_constructor_that_waits_for_its_own_actor_fails_with_the_deadlock(ray: ModuleType) -> None:
    @ray.remote
    class Early:
        def __init__(self) -> None:
            ray.get(ray.get_runtime_context().current_actor.hello.remote())

        def hello(self) -> None: ...

    with pytest.raises(ray.exceptions.ActorDiedError, match="would never end"):
        ray.get(Early.remote().hello.remote())


# ---------------------------------------------------------------------- arguments, wait, generators
def test_a_cycle_through_arguments_and_a_task_between_is_found(ray: ModuleType) -> None:
    @ray.remote
    def passes_on(value: int) -> int:
        return value

    @ray.remote
    class Me:
        def ask(self, me: Any) -> Any:
            ready, _ = ray.wait([passes_on.remote(me.answer.remote())])
            return ready

        def answer(self) -> int:
            return 1

    me = Me.remote()
    with pytest.raises(DeadlockError) as caught:
        ray.get(me.ask.remote(me))
    assert "passes_on() waits for its argument, the result of Me.answer()" in str(caught.value)


def test_a_generator_that_never_yields_because_of_who_reads_it_is_found(ray: ModuleType) -> None:
    @ray.remote
    class Me:
        def ask(self, me: Any) -> Any:
            return next(me.numbers.remote())

        def numbers(self) -> Any:
            yield 1

    me = Me.remote()
    with pytest.raises(DeadlockError):
        ray.get(me.ask.remote(me))


# ---------------------------------------------------------------------- resources
def test_a_task_that_waits_for_one_that_needs_what_it_holds_raises(ray: ModuleType) -> None:
    @ray.remote(resources={"lock": 1})
    def inner() -> int:
        return 1

    @ray.remote(resources={"lock": 1}, max_retries=0)
    def outer() -> int:
        return int(ray.get(inner.remote()))

    with pytest.raises(DeadlockError) as caught:
        ray.get(outer.remote())
    assert "it needs 1 lock" in str(caught.value)
    assert ray.get(inner.remote()) == 1


def test_two_tasks_that_each_hold_what_the_other_waits_for_lose_one_and_end(
    ray: ModuleType, tmp_path: Path
) -> None:
    @ray.remote(resources={"seat": 2})
    def both_seats() -> int:
        return 1

    @ray.remote(resources={"seat": 1}, max_retries=0)
    def one_seat(number: int) -> int:
        (tmp_path / str(number)).touch()
        await_file(tmp_path / str(1 - number))
        return int(ray.get(both_seats.remote()))

    outcomes = []
    for ref in [one_seat.remote(0), one_seat.remote(1)]:
        try:
            outcomes.append(ray.get(ref))
        except DeadlockError:
            outcomes.append(-1)
    assert -1 in outcomes
    assert ray.get(both_seats.remote()) == 1


def test_placement_groups_and_idle_actors_that_nobody_can_remove_any_more_are_found(ray: ModuleType) -> None:
    from sundog.util.placement_group import placement_group, remove_placement_group

    @ray.remote(resources={"lock": 1})
    class Keeper:
        def hello(self) -> None: ...

    @ray.remote(resources={"lock": 1})
    def needs_it() -> None: ...

    keeper = Keeper.remote()
    ray.get(keeper.hello.remote())
    with pytest.raises(DeadlockError) as caught:
        ray.get(needs_it.remote())
    assert "nothing of this session runs that could give it back" in str(caught.value)
    assert (
        caught.value.cycle[0]["stack"][-1][2]
        == "test_placement_groups_and_idle_actors_that_nobody_can_remove_any_more_are_found"
    )
    first = placement_group([{"CPU": 3}])
    ray.get(first.ready())
    with pytest.raises(DeadlockError, match="placement group"):
        ray.get(placement_group([{"CPU": 2}]).ready())
    remove_placement_group(first)


# ---------------------------------------------------------------------- what is no deadlock
def test_a_get_with_a_timeout_ends_by_its_timeout(ray: ModuleType) -> None:
    @ray.remote
    class Me:
        def ask(self, me: Any) -> str:
            try:
                ray.get(me.answer.remote(), timeout=HONEST_S)
            except GetTimeoutError:
                return "timeout"
            return "?"

        def answer(self) -> None: ...

    me = Me.remote()
    assert ray.get(me.ask.remote(me)) == "timeout"


def test_an_idle_actor_that_another_thread_of_the_driver_will_kill_is_waited_for(ray: ModuleType) -> None:
    @ray.remote(resources={"lock": 1})
    class Keeper:
        def hello(self) -> None: ...

    @ray.remote(resources={"lock": 1})
    def needs_it() -> int:
        return 1

    keeper = Keeper.remote()
    ray.get(keeper.hello.remote())
    killer = threading.Timer(HONEST_S, ray.kill, (keeper,))
    killer.start()
    assert ray.get(needs_it.remote()) == 1
    killer.join()


def test_a_deep_tree_of_tasks_that_wait_for_a_slow_leaf_is_no_deadlock(ray: ModuleType) -> None:
    @ray.remote(num_cpus=1)
    def tree(depth: int) -> int:
        if depth == 0:
            time.sleep(HONEST_S)
            return 1
        return sum(ray.get([tree.remote(depth - 1), tree.remote(depth - 1)]))

    assert ray.get(tree.remote(3)) == 8


def test_the_check_can_be_switched_off(ray_session: Start) -> None:
    ray = ray_session(num_cpus=2, _system_config={**SOON, "enable_deadlock_check": False})
    first = ring_of_actors(ray, 2)
    with pytest.raises(GetTimeoutError):
        ray.get(first.ask.remote(2), timeout=HONEST_S)
