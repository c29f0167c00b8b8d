"""Actors on their way: what the node is told, and how long the constructor's arguments are held."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog.engines.creation import Creations, lives_on
from sundog.engines.local import LocalEngine
from sundog.exceptions import ActorAlreadyExistsError
from sundog.handle_data import ClassMembers, HandleData
from sundog.options import ActorOptions
from sundog.owner import context
from sundog.wire.control import ActorCreated, ActorDead, ActorRegister
from sundog.wire.requests import RegisterNamed
from tests.owner.fakes import OTHER
from tests.owner.whole import FakeNode, whole_owner


class Shop:
    def __init__(self, *_given: object) -> None: ...

    def buy(self) -> None: ...


class AsyncShop:
    async def buy(self) -> None: ...


class Scene:
    """A driver that creates actors."""

    def __init__(self, owner: Any, node: FakeNode) -> None:
        self.owner, self.node = owner, node
        self.creations: Creations = LocalEngine(owner, is_driver=True).creations
        self.asked: list[RegisterNamed] = []
        self.data: HandleData | None = None

    def create(self, cls: type = Shop, *args: object, **options: Any) -> tuple[bytes, bool]:
        chosen = ActorOptions(**options)
        members = ClassMembers(cls.__name__, cls.__qualname__, {}, frozenset(), {})
        self.data = HandleData.of(members, chosen)
        return self.creations.create(cls, cls.__name__, chosen, self.data, args, {})

    def told(self) -> list[tuple[Any, ...]]:
        """What the node has heard, but for what is not about actors."""
        return [each for each in self.node.heard() if each[0].startswith("actor")]

    def answers(self, answer: object) -> None:
        """What the node says to a name."""

        def request(question: RegisterNamed) -> object:
            self.asked.append(question)
            if isinstance(answer, BaseException):
                raise answer
            return question.actor_id if answer is None else answer

        self.owner.control.request = request


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with whole_owner(tmp_path) as (owner, node):
        yield Scene(owner, node)


def test_an_actor_is_registered_and_started_at_once_when_it_waits_for_nothing(scene: Scene) -> None:
    actor_id, is_new = scene.create(Shop, 1)
    (register, start) = scene.told()
    assert is_new and register[:2] == ("actor_register", actor_id) and start[:2] == ("actor_start", actor_id)
    row = register[2]
    assert (row["class_name"], row["name"], row["detached"], row["max_restarts"]) == ("Shop", "", False, 0)
    assert "test_creation.py" in row["call_site"]  # in the user's program, not in sundog
    assert scene.owner.actors.scope_id(actor_id) in scene.owner.actors.scopes


@pytest.mark.parametrize(
    ("cls", "options", "concurrent", "out_of_order"),
    [
        (Shop, {}, False, False),
        (Shop, {"max_concurrency": 3}, True, True),
        (Shop, {"concurrency_groups": {"io": 2}}, True, False),
        (Shop, {"allow_out_of_order_execution": True}, False, True),
        (AsyncShop, {}, True, True),
    ],
)
def test_handles_know_whether_calls_run_at_the_same_time_and_may_overtake_each_other(
    scene: Scene, cls: type, options: Any, concurrent: bool, out_of_order: bool
) -> None:
    scene.create(cls, **options)
    assert scene.data is not None
    assert (scene.data.concurrent, scene.data.out_of_order) == (concurrent, out_of_order)


def test_options_that_contradict_each_other_are_refused_before_the_node_hears_of_them(scene: Scene) -> None:
    with pytest.raises(ValueError, match=r"asyncio actor AsyncShop run at the same time.*leave allow_out_of"):
        scene.create(AsyncShop, allow_out_of_order_execution=False)
    with pytest.raises(ValueError, match="needs a name="):
        scene.create(get_if_exists=True)
    assert scene.told() == []


def test_a_name_is_asked_for_first_and_the_actor_is_registered_with_it(scene: Scene) -> None:
    scene.answers(None)
    actor_id, is_new = scene.create(name="corner", namespace="town")
    (question,) = scene.asked
    assert is_new and (question.actor_id, question.name, question.namespace) == (actor_id, "corner", "town")
    assert [each[0] for each in scene.told()] == ["actor_start"]


def test_an_actor_that_has_the_name_already_is_found_and_none_is_made(scene: Scene) -> None:
    scene.answers(b"o" * 16)
    assert scene.create(Shop, 1, name="corner", get_if_exists=True) == (b"o" * 16, False)
    assert scene.told() == [] and scene.creations._holds == {}


def test_a_name_that_is_taken_is_an_error_and_nothing_is_left(scene: Scene) -> None:
    scene.answers(ActorAlreadyExistsError("corner is taken"))
    with pytest.raises(ActorAlreadyExistsError, match="corner is taken"):
        scene.create(Shop, 1, name="corner")
    (kill,) = scene.told()  # a signal may have interrupted the question after the node took it
    assert kill[0] == "actor_kill" and kill[1] == scene.asked[0].actor_id
    assert scene.creations._holds == {} and scene.owner.actors.scopes == set()


class Holds:
    """Which of the constructor's arguments are given up."""

    def __init__(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        self.dropped: list[bytes] = []
        monkeypatch.setattr(scene.owner.refs, "drop", self.dropped.append)


@pytest.mark.parametrize(("restarts", "kept"), [(0, False), (2, True), (-1, True)])
def test_arguments_are_held_until_the_actor_is_up_or_until_it_is_dead_if_it_may_restart(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, restarts: int, kept: bool
) -> None:
    actor_id, _ = scene.create(max_restarts=restarts)
    holds = Holds(scene, monkeypatch)
    scene.creations._holds[actor_id] = ([b"argument"], restarts != 0)
    scene.creations.created(ActorCreated(actor_id, OTHER, []))
    assert holds.dropped == ([] if kept else [b"argument"])
    scene.creations.dead(ActorDead(actor_id, False))
    assert holds.dropped == [b"argument"] and scene.creations._holds == {}


def test_a_dead_actor_keeps_its_name_while_handles_are_held_if_the_node_says_so(scene: Scene) -> None:
    scopes = scene.owner.actors.scopes
    for keeps_name in (True, False):
        actor_id, _ = scene.create()
        scene.creations.dead(ActorDead(actor_id, keeps_name))
        assert (scene.owner.actors.scope_id(actor_id) in scopes) is keeps_name


def test_an_argument_that_failed_fails_the_actor(scene: Scene) -> None:
    from sundog.engines.creation import _WaitingConstructor
    from sundog.owner.rows import Fn, Task

    task = Task(b"a" * 16, Fn(0, "Shop.__init__"), ("args",), 0.0)
    waiter = _WaitingConstructor(scene.creations, task)
    waiter.start(task)
    waiter.fail(task, b"error")
    assert scene.told() == [
        ("actor_start", b"a" * 16, ("args",), None),
        ("actor_fail", b"a" * 16, b"error"),
    ]


@pytest.mark.parametrize(
    ("lifetime", "by_default", "lives"),
    [
        ("detached", False, True),
        ("non_detached", True, False),
        (None, True, True),
        (None, False, False),
    ],
)
def test_an_actor_outlives_its_program_if_it_says_so_or_its_job_does(
    monkeypatch: pytest.MonkeyPatch, lifetime: str | None, by_default: bool, lives: bool
) -> None:
    monkeypatch.setattr(context.facts, "detached_by_default", by_default)
    assert lives_on(ActorOptions(lifetime=lifetime)) is lives


def test_a_detached_actor_does_not_end_with_its_handles(scene: Scene) -> None:
    scene.create(lifetime="detached")
    assert scene.told()[0][2]["detached"] and scene.owner.actors.scopes == set()


def test_the_node_hears_which_modules_an_actor_needs_besides_those_of_all_workers(scene: Scene) -> None:
    from sundog.util.queue import _QueueActor

    for cls in (Shop, AsyncShop, _QueueActor):
        scene.create(cls)
    needed = [each[2]["imports"] for each in scene.told() if each[0] == ActorRegister.kind]
    assert needed[0] == []
    assert "asyncio" in needed[1] and not any("test" in name for name in needed[1])
    assert needed[2] == [*needed[1], "sundog.util.queue"]
