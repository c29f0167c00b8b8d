"""Corners of Ray's behaviour: classes that name themselves, constructors inside the loop, rows of dead actors."""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog.engines import heads
from sundog.exceptions import ActorDiedError, RaySystemError, RayTaskError

GET_S = 60


def outcome(ray: ModuleType, ref: Any) -> Any:
    """What a ref holds: its value, or its error."""
    try:
        return ray.get(ref, timeout=GET_S)
    except (RayTaskError, ActorDiedError) as error:
        return error


def test_a_class_whose_methods_name_the_class_itself_makes_actors_everywhere(ray: ModuleType) -> None:
    @ray.remote(num_cpus=0)
    class Parent:
        """Has children of its own kind."""

        def child(self, name: str) -> Any:
            self.made = Parent.remote()
            return self.made.greet.remote(name)

        def hand_out(self) -> Any:
            self.made = Parent.options(num_cpus=0).remote()
            return self.made

        def greet(self, name: str, sign: str = "!") -> str:
            return name + sign

    @ray.remote
    def make() -> Any:
        return Parent.remote()

    parent = Parent.remote()
    assert ray.get(ray.get(parent.child.remote("a"), timeout=GET_S), timeout=GET_S) == "a!"
    handed = ray.get(parent.hand_out.remote(), timeout=GET_S)
    assert ray.get(handed.greet.remote("b", sign="?"), timeout=GET_S) == "b?"
    assert ray.get(ray.get(make.remote(), timeout=GET_S).greet.remote("c"), timeout=GET_S) == "c!"


def test_the_constructor_of_an_asyncio_actor_runs_inside_its_loop(ray: ModuleType) -> None:
    class Ticking:
        def __init__(self, fails: str = "") -> None:
            self.loop = asyncio.get_running_loop()
            self.ticked = asyncio.Event()
            self.task = asyncio.create_task(self.tick())
            if fails == "raise":
                raise ValueError("no")
            if fails == "exit":
                sundog.actor.exit_actor()

        async def tick(self) -> None:
            self.ticked.set()

        async def wait(self) -> bool:
            await self.ticked.wait()
            return self.loop is asyncio.get_running_loop()

    one = ray.remote(num_cpus=0)(Ticking)
    grouped = ray.remote(num_cpus=0, concurrency_groups={"io": 2})(Ticking)
    assert outcome(ray, one.remote().wait.remote()) is True
    assert outcome(ray, grouped.remote().wait.remote()) is True
    raised = outcome(ray, one.remote("raise").wait.remote())
    assert isinstance(raised, ActorDiedError) and "ValueError: no" in str(raised)
    left = outcome(ray, one.remote("exit").wait.remote())
    assert isinstance(left, ActorDiedError) and "exit_actor() was called" in str(left)


def test_a_dead_actor_is_listed_with_the_node_that_it_was_on(ray: ModuleType) -> None:
    @ray.remote(num_cpus=0)
    class Brief:
        def leave(self) -> None:
            sundog.actor.exit_actor()

    brief = Brief.remote()
    assert isinstance(outcome(ray, brief.leave.remote()), ActorDiedError)
    row = ray.util.state.get_actor(brief._actor_id.hex())
    assert row.state == "DEAD" and row.node_id == ray.get_runtime_context().get_node_id()


def test_a_program_that_asks_for_a_dashboard_runs_without_its_packages(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(heads, "NEEDED", ("a_package_that_is_not_there",))
    with sundog.init(num_cpus=1, include_dashboard=True):
        assert sundog.get(sundog.put(1)) == 1
    assert any(
        "not installed: a_package_that_is_not_there" in record.getMessage() for record in caplog.records
    )


def test_a_program_that_forbids_it_is_not_connected_by_its_first_verb(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_ENABLE_AUTO_CONNECT", "0")
    for verb in (lambda: sundog.put(1), lambda: sundog.remote(len).remote("a")):
        with pytest.raises(RaySystemError, match=r"sundog\.init\(\)"):
            verb()
    assert not sundog.is_initialized()
