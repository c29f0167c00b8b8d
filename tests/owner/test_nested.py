"""Refs inside objects that are read again and again: births and deaths must come out even."""

from __future__ import annotations

import itertools
import pickle
import threading
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

import pytest

from sundog import refs
from sundog.owner.nested import Nested
from sundog.refs import ObjectRef
from sundog.serialize.pack import pack

_OUTER = b"outer".ljust(20, b".")
_COUNT = 12
_worlds = itertools.count()


class World:
    """An owner without a session, which has one object with refs inside."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ops: deque[Any] = deque()
        self.lock = threading.RLock()
        self.ready: dict[bytes, Any] = {}
        monkeypatch.setattr(refs, "_note", self.ops.append)
        monkeypatch.setattr(refs, "hooks", self)
        self.nested = Nested(self.ops, self.lock, self.ready)
        # Of its own: what another test leaves to the garbage collector may die in the middle of this one.
        self.prefix = next(_worlds).to_bytes(4, "little")

    def ids(self, first: int = 1, count: int = _COUNT) -> list[bytes]:
        return [self.prefix + number.to_bytes(16, "little") for number in range(first, first + count)]

    def store(self, value: Any) -> None:
        meta, _, inner = pack(value, 1 << 30)
        self.ready[_OUTER] = (0, meta, None, inner, None)

    def read(self) -> Any:
        return self.nested.load(_OUTER, self.ready[_OUTER], None)

    def free(self) -> None:
        del self.ready[_OUTER]
        self.nested.forget(_OUTER)

    def counted(self) -> int:
        """How often a birth or death was told of."""
        return sum((op[0] if isinstance(op, tuple) else op).startswith(self.prefix) for op in self.ops)

    def held(self) -> dict[bytes, int]:
        """Births minus deaths so far, of each object that does not come out even."""
        counts: Counter[bytes] = Counter()
        for op in self.ops:
            if isinstance(op, tuple):
                counts.update(op)
            else:
                counts[op] -= 1
        return {oid: count for oid, count in counts.items() if count and oid.startswith(self.prefix)}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    yield World(monkeypatch)
    monkeypatch.undo()


def test_what_is_read_once_holds_nothing_afterwards(world: World) -> None:
    world.store([ObjectRef(oid) for oid in world.ids()])
    world.ops.clear()
    assert [ref.binary() for ref in world.read()] == world.ids()
    assert world.held() == {}


def test_from_the_second_reading_on_the_same_refs_are_handed_out_and_nothing_is_counted(world: World) -> None:
    world.store([ObjectRef(oid) for oid in world.ids()])
    world.ops.clear()
    world.read()
    second = world.read()
    counted = world.counted()
    third = world.read()
    assert all(one is other for one, other in zip(second, third, strict=True)) and third is not second
    del second, third
    assert [ref.binary() for ref in world.read()] == world.ids()
    assert world.counted() == counted and world.held() == dict.fromkeys(world.ids(), 1)


def test_kept_refs_go_with_their_object_but_for_those_that_the_user_has(world: World) -> None:
    world.store({"deep": [ObjectRef(oid) for oid in world.ids()]})
    world.ops.clear()
    for _ in range(3):
        last = world.read()["deep"][-1]
    world.free()
    assert world.nested.shed and world.held() == {world.ids()[-1]: 1}
    del last
    assert world.held() == {}


def test_two_refs_to_one_object_come_out_even(world: World) -> None:
    world.store([ObjectRef(oid) for oid in world.ids() + world.ids()[:3]])
    world.ops.clear()
    for _ in range(4):
        assert [ref.binary() for ref in world.read()] == world.ids() + world.ids()[:3]
    world.free()
    assert world.held() == {}


class ByHand:
    """Pickles its refs itself, and rebuilds them twice, or not at all."""

    def __init__(self, times: int, found: Any) -> None:
        self.times, self.found = times, found

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild_by_hand, (self.times, pickle.dumps(self.found))


def rebuild_by_hand(times: int, blob: bytes) -> ByHand:
    return ByHand(times, [pickle.loads(blob) for _ in range(times)])


@pytest.mark.parametrize("times", [0, 1, 2])
def test_refs_that_a_value_rebuilds_by_itself_come_out_even(world: World, times: int) -> None:
    more = world.ids(1000, 3)
    world.store([ByHand(times, [ObjectRef(oid) for oid in more]), *(ObjectRef(oid) for oid in world.ids())])
    world.ops.clear()
    for _ in range(4):
        found = world.read()
        assert [[ref.binary() for ref in each] for each in found[0].found] == [more] * times
        assert [ref.binary() for ref in found[1:]] == world.ids()
    del found
    world.free()
    assert world.held() == {}


class Brittle:
    def __reduce__(self) -> tuple[Any, ...]:
        return break_down, ()


def break_down() -> None:
    raise ValueError("cannot be read")


def test_a_value_that_cannot_be_unpickled_holds_nothing(world: World) -> None:
    half = _COUNT // 2
    made: list[Any] = [ObjectRef(oid) for oid in world.ids()]
    world.store([*made[:half], Brittle(), *made[half:]])
    del made
    world.ops.clear()
    for _ in range(3):
        with pytest.raises(ValueError, match="cannot be read") as raised:
            world.read()
        assert world.held() == {}, f"{raised.value!r} keeps refs"


def test_another_copy_of_the_object_is_not_given_the_refs_of_the_lost_one(world: World) -> None:
    world.store([ObjectRef(oid) for oid in world.ids()])
    for _ in range(3):
        world.read()
    world.store([ObjectRef(oid) for oid in reversed(world.ids())])
    for _ in range(3):
        assert [ref.binary() for ref in world.read()] == world.ids()[::-1]


def test_nothing_is_kept_for_an_object_that_is_freed_while_it_is_read(world: World) -> None:
    world.store([ObjectRef(oid) for oid in world.ids()])
    world.ops.clear()
    found = world.ready[_OUTER]
    world.read()
    world.free()
    world.nested.load(_OUTER, found, None)
    assert world.held() == {} and not world.nested._kept


def test_where_a_ref_was_made_is_known_at_every_reading(world: World) -> None:
    code = test_where_a_ref_was_made_is_known_at_every_reading.__code__
    world.store([ObjectRef(oid, code, 0) for oid in world.ids()])
    for _ in range(3):
        assert {ref.call_site().split(":")[0] for ref in world.read()} == {__file__}
