"""`wait` on refs and generators together."""

from __future__ import annotations

from typing import Any

from sundog.generator import ObjectRefGenerator
from sundog.owner.rows import Fn, Task
from sundog.owner.streams import Streams
from sundog.refs import ObjectRef
from sundog.waiting import split, wait_mixed
from sundog.wire.lanes import OK
from tests.owner.fakes import make_owner, new_id


class FakeGetting:
    """Waits by calling what the test brings, until enough is ready."""

    def __init__(self) -> None:
        self.rounds: list[Any] = []

    def block_until(self, done: Any, _key: bytes, _timeout_s: float | None) -> bool:
        while not done():
            if not self.rounds:
                return False
            self.rounds.pop(0)()
        return True


class FakeEngine:
    """An engine with an owner."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner


class World:
    """An owner with refs and one generator."""

    def __init__(self) -> None:
        self.owner = make_owner()
        self.owner.getting = FakeGetting()
        self.owner.reactor.leader = True  # another thread reads
        self.owner.streams = Streams(self.owner, self.owner.peers, self.owner.getting)
        self.task = Task(self.owner.ids.task(), Fn(1, "count"), None, 0.0)
        self.owner.streams.open(self.task)
        self.generator: Any = ObjectRefGenerator.__new__(ObjectRefGenerator)
        self.generator._task_id = self.task.id
        self.owner.objects.around.comes = lambda _oid: True
        self.refs: list[ObjectRef[object]] = [ObjectRef(new_id(), None) for _ in range(2)]

    def store(self, number: int) -> None:
        self.owner.refs.hold_new(self.refs[number].binary())
        self.owner.objects.store(self.refs[number].binary(), (OK, b"", None, None, None))

    def yields(self) -> None:
        stream = self.owner.streams.of(self.task)
        stream.arrived += 1
        self.owner.streams._wake(stream)

    def wait(self, count: int, timeout_s: float | None = None) -> tuple[list[Any], list[Any]]:
        engine: Any = FakeEngine(self.owner)
        return wait_mixed(engine, [self.refs[0], self.generator, self.refs[1]], count, timeout_s)


def test_a_generator_is_ready_when_its_next_item_would_not_block() -> None:
    world = World()
    world.owner.getting.rounds = [world.yields]
    ready, rest = world.wait(1)
    assert ready == [world.generator] and rest == world.refs


def test_ready_ones_come_in_the_order_given_and_no_more_than_asked_for() -> None:
    world = World()
    world.owner.getting.rounds = [lambda: world.store(1), world.yields, lambda: world.store(0)]
    ready, rest = world.wait(2)
    assert ready == [world.generator, world.refs[1]] and rest == [world.refs[0]]
    world.store(0)
    assert world.wait(1) == ([world.refs[0]], [world.generator, world.refs[1]])


def test_a_look_without_waiting_says_what_is_there() -> None:
    world = World()
    world.store(1)
    assert world.wait(3, 0) == ([world.refs[1]], [world.refs[0], world.generator])


def test_a_wait_leaves_nothing_behind_in_what_was_not_ready() -> None:
    world = World()
    world.owner.getting.rounds = [lambda: world.store(1)]
    world.wait(1)
    assert world.owner.waiters == {} and world.owner.streams.of(world.task).wakers == []


def test_refs_are_split_by_what_is_ready_in_their_order() -> None:
    assert split(["a", "b", "c"], [b"1", b"2", b"3"], {b"3", b"1"}) == (["a", "c"], ["b"])
