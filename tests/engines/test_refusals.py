"""What the node cannot do: which tasks fail, which wait with a warning, and the words of both."""

from __future__ import annotations

from typing import Any

import pytest

from sundog import notices
from sundog.engines.refusals import Refusals
from sundog.exceptions import RuntimeEnvSetupError, TaskPlacementGroupRemoved, TaskUnschedulableError
from sundog.owner.rows import Fn, Shape, Task
from sundog.state.lease_spec import GROUP_REMOVED, LeaseSpec
from sundog.wire.control import ActorInfeasible, EnvFailed, LeaseInfeasible
from tests.owner.fakes import FakeDeliveries, make_owner


class FakeDispatch:
    """One shape of demand."""

    def __init__(self, shape: Shape) -> None:
        self.shapes = [shape]
        self.shapes_by_key = {shape.key: shape}


class Deliveries(FakeDeliveries):
    """Deliveries whose thread may not be there."""

    able = True

    def can_bring(self) -> bool:
        return self.able


class World:
    """Refusals of an owner with two waiting tasks of one shape."""

    def __init__(self, strategy: tuple[object, ...] = ("default",)) -> None:
        self.shape = Shape(7, LeaseSpec(resources=(("GPU", 1.0),), env_key="env", strategy=strategy), {})
        self.shape.wanted = 2
        self.shape.queue.extend(Task(bytes([number]) * 16, Fn(1, "train"), None, 0.0) for number in (1, 2))
        self.owner = make_owner()
        self.owner.dispatch, self.owner.deliveries = FakeDispatch(self.shape), Deliveries()
        self.refusals = Refusals(self.owner)

    def infeasible(self, reason: str, key: int = 7) -> None:
        self.refusals.task(LeaseInfeasible(key, {"GPU": 1.0}, reason))

    def errors(self) -> list[Any]:
        return [error for _, error in self.owner.replies.failed]


def test_a_request_that_a_larger_cluster_could_meet_waits_with_a_warning() -> None:
    world = World()
    world.infeasible("no node has a GPU")
    assert world.errors() == [] and len(world.shape.queue) == 2
    [(call, text)] = world.owner.deliveries.brought
    assert call is notices.warn and text.startswith(
        "train asks for {'GPU': 1.0}, which no node of this session has"
    )
    assert "(no node has a GPU). It stays pending until such a node joins. See: sundog status" in text


@pytest.mark.parametrize(
    ("strategy", "reason", "kind", "words"),
    [
        (("default",), GROUP_REMOVED, TaskPlacementGroupRemoved, "its placement group was removed"),
        (
            ("node", b"n", False, ""),
            "the node is gone",
            TaskUnschedulableError,
            "can never be placed where its",
        ),
    ],
)
def test_what_can_never_be_placed_fails_and_is_asked_for_no_longer(
    strategy: tuple[object, ...], reason: str, kind: type, words: str
) -> None:
    world = World(strategy)
    world.infeasible(reason)
    assert [type(error) for error in world.errors()] == [kind, kind] and words in str(world.errors()[0])
    assert world.shape.wanted == 0 and world.owner.control.wants == [(7, 0)] and not world.shape.queue


def test_a_want_that_was_withdrawn_meanwhile_is_no_news() -> None:
    world = World()
    world.infeasible("no node has a GPU", key=99)
    assert world.owner.deliveries.brought == [] and world.errors() == []


def test_a_broken_environment_fails_its_tasks_with_the_evidence() -> None:
    world = World()
    world.refusals.environment(EnvFailed("another", "pip failed", {}))
    assert world.errors() == []
    world.refusals.environment(EnvFailed("env", "pip failed", {"exit_code": 1}))
    first = world.errors()[0]
    assert isinstance(first, RuntimeEnvSetupError) and len(world.errors()) == 2
    assert "The runtime environment of train" in str(first) and "could not be set up: pip failed" in str(
        first
    )
    assert first.exit_code == 1  # type: ignore[attr-defined]


def test_an_actor_that_fits_nowhere_is_warned_of_by_its_class() -> None:
    world = World()
    world.refusals.actor(ActorInfeasible("Model", {"CPU": 99.0}, "the largest node has 4"))
    assert world.owner.deliveries.brought[0][1].startswith("Model asks for {'CPU': 99.0}")


def test_a_shortage_is_told_once_also_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(notices, "warn", told.append)
    world = World()
    world.owner.deliveries.able = False
    for _ in range(2):
        world.refusals.warn_once("threads", "no thread can be started")
    world.owner.actors.on_shortage("no descriptor is left")
    assert told == ["no thread can be started", "no descriptor is left"]
