"""Waiting without a session: a fake reactor brings what is waited for, or does not."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from sundog.exceptions import DeadlockError, GetTimeoutError
from sundog.owner.getting import Getting
from sundog.owner.rows import SENT, Fn, Task
from sundog.wire.lanes import OK
from tests.owner.fakes import FakeReactor, make_owner, new_id


class Reading(FakeReactor):
    """A reactor whose leader reads what the test says: each entry is one round."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds: list[Callable[[], None]] = []

    def lead(
        self, done: Callable[[], bool], deadline: float | None, on_block: Callable[[], None] | None
    ) -> bool | None:
        while not done():
            if not self.rounds:
                return False
            if on_block is not None:
                block, on_block = on_block, None
                block()
            self.rounds.pop(0)()
        return True

    def lead_one(
        self, ready: Any, oid: bytes, on_block: Callable[[], None] | None, block_after_s: float = 0.0
    ) -> bool:
        return bool(self.lead(lambda: oid in ready, None, on_block))

    def pump(self) -> None:
        if self.rounds:
            self.rounds.pop(0)()

    def wait_in(self, block: Callable[..., Any], *args: Any) -> None:
        block(*args)


class FakeWaits:
    """Long waits: noted at once, and part of a deadlock if the test says so."""

    def __init__(self, patience_s: float | None) -> None:
        self.patience_s = patience_s
        self.noted: list[Any] = []
        self.links: list[dict[str, Any]] | None = None

    def note(self, target: Any, _since_s: float) -> Any:
        waits = self

        class Long:
            links = waits.links
            gate = None

            def error(self) -> DeadlockError:
                return DeadlockError("It would never end.", cycle=[])

        self.noted.append(target())
        return Long()

    def forget(self, _wait: Any) -> None:
        self.noted.append("forgotten")


class World:
    """A `Getting` among fakes."""

    def __init__(self, patience_s: float | None = None) -> None:
        self.owner = make_owner()
        self.reactor = self.owner.reactor = Reading()
        self.owner.long_waits = FakeWaits(patience_s)
        self.owner.objects.around.made.update(self.ids(9))
        self.getting = Getting(self.owner, self.owner.peers)
        self.getting.long_waits = self.owner.long_waits

    def ids(self, count: int) -> list[bytes]:
        if not hasattr(self, "_ids"):
            self._ids = [new_id() for _ in range(9)]
        return self._ids[:count]

    def comes(self, oid: bytes, value: Any) -> None:
        """In the next round an object is there."""
        import pickle

        self.reactor.rounds.append(
            lambda: self.owner.objects.store(oid, (OK, pickle.dumps(value), None, None, None))
        )

    def fails(self, oid: bytes, error: Exception) -> None:
        self.reactor.rounds.append(lambda: self.owner.objects.fail_object(oid, error))


def test_one_object_is_read_when_it_comes() -> None:
    world = World()
    [oid] = world.ids(1)
    world.comes(oid, 5)
    assert world.getting.get_one(oid, None) == 5


def test_many_are_given_in_order_and_the_first_that_fails_ends_the_wait() -> None:
    world = World()
    first, second, third = world.ids(3)
    world.comes(second, 2)
    world.comes(first, 1)
    assert world.getting.get_many([first, second], None) == [1, 2]
    world.fails(third, KeyError("k"))
    with pytest.raises(KeyError):
        world.getting.get_many([first, third, new_id()], None)


def test_a_timeout_names_what_is_missing() -> None:
    world = World()
    first, second = world.ids(2)
    world.comes(first, 1)
    with pytest.raises(GetTimeoutError, match="1 of 2 objects were not ready") as late:
        world.getting.get_many([first, second], 0.0)
    assert second.hex() in str(late.value)


def test_wait_gives_as_many_as_are_asked_for_in_the_order_given() -> None:
    world = World()
    first, second, third = oids = world.ids(3)
    world.comes(third, 3)
    world.comes(second, 2)
    world.comes(first, 1)
    assert world.getting.wait(oids, 2, None) == [second, third]
    assert world.getting.wait(oids, 3, None) == oids


def test_a_wait_for_the_first_of_a_few_registers_nowhere_and_of_many_does() -> None:
    world = World()
    first, second = few = world.ids(2)
    waiting: list[int] = []
    world.reactor.rounds.append(lambda: waiting.append(len(world.owner.waiters)))
    world.comes(second, 2)
    assert world.getting.wait(few, 1, None) == [second]
    many = [first, *(new_id() for _ in range(40))]
    world.owner.objects.around.made.update(many)
    world.reactor.rounds.append(lambda: waiting.append(len(world.owner.waiters)))
    world.comes(first, 1)
    assert world.getting.wait(many, 1, None) == [first]
    assert waiting == [0, 41] and world.owner.waiters == {}


def test_a_worker_that_waits_for_a_call_lends_its_cpu_later_than_one_that_waits_for_a_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    delays: list[float] = []
    lead_one = world.reactor.lead_one

    def noting(ready: Any, oid: bytes, on_block: Any, block_after_s: float = 0.0) -> bool:
        delays.append(block_after_s)
        return lead_one(ready, oid, on_block, block_after_s)

    monkeypatch.setattr(world.reactor, "lead_one", noting)
    steps: list[str] = []
    world.owner.before_block = lambda: steps.append("lent")
    world.owner.after_block = lambda: steps.append("taken")
    for oid, actor in zip(world.ids(2), (None, object()), strict=True):
        task = world.owner.table[oid[:16]] = Task(oid[:16], Fn(1, "f"), None, 0.0)
        task.actor, task.state = cast(Any, actor), SENT
        world.comes(oid, 1)
        assert world.getting.wait([oid], 1, None) == [oid]
    assert delays[0] == 0.0 < delays[1] and steps == ["lent", "taken"] * 2


def test_a_wait_for_the_first_of_a_few_that_lasts_is_noted_too() -> None:
    world = World(patience_s=0.0)
    world.owner.long_waits.links = [{"name": "f"}]
    with pytest.raises(DeadlockError):
        world.getting.wait(world.ids(2), 1, None)
    assert world.owner.long_waits.noted == [("wait", 1, tuple(world.ids(2))), "forgotten"]


def test_wait_without_time_looks_once_and_leaves_nobody_waiting() -> None:
    world = World()
    first, second = world.ids(2)
    world.comes(first, 1)
    assert world.getting.wait([first, second], 2, 0) == [first]
    assert world.getting.wait([first, second], 2, 0.0) == [first] and world.owner.waiters == {}


def test_a_worker_lends_its_cpu_while_it_is_blocked_and_takes_it_again() -> None:
    world = World()
    [oid] = world.ids(1)
    steps: list[str] = []
    world.owner.before_block = lambda: steps.append("lent")
    world.owner.after_block = lambda: steps.append("taken")
    world.comes(oid, 1)
    assert world.getting.get_many([oid], None) == [1]
    assert steps == ["lent", "taken"]


def test_a_wait_that_lasts_is_noted_and_raises_if_it_is_part_of_a_deadlock() -> None:
    world = World(patience_s=0.0)
    [oid] = world.ids(1)
    world.owner.long_waits.links = [{"name": "f"}]
    with pytest.raises(DeadlockError):
        world.getting.await_objects([oid])
    assert world.owner.long_waits.noted == [("get", 1, (oid,)), "forgotten"]


def test_what_ended_the_session_is_raised_by_every_wait() -> None:
    world = World()
    world.owner.closed = RuntimeError("over")
    with pytest.raises(RuntimeError, match="over"):
        world.getting.get_one(world.ids(1)[0], None)
    with pytest.raises(RuntimeError, match="over"):
        world.getting.wait(world.ids(1), 1, time.monotonic())
