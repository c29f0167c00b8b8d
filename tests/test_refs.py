"""Refs without a runtime: equality, where they were made, what pickling tells, and that counts are only noted."""

from __future__ import annotations

import gc
import pickle
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from sundog import refs
from sundog.refs import ObjectRef

OID = bytes(20)


class Runtime:
    """A runtime that only takes notes."""

    def __init__(self) -> None:
        self.ops: deque[bytes | tuple[bytes, ...]] = deque()
        self.pinned: list[bytes] = []

    def future_of(self, oid: bytes) -> Any:
        raise AssertionError("nobody awaits here")

    def await_of(self, oid: bytes) -> Any:
        raise AssertionError("nobody awaits here")

    def pin_forever(self, oid: bytes) -> None:
        self.pinned.append(oid)

    def job_id(self) -> bytes:
        return bytes(4)


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    before, made = refs.hooks, Runtime()
    refs.plug(made)
    yield made
    refs.plug(None if isinstance(before, refs._NoRuntime) else before)


def test_two_refs_to_one_object_are_equal_and_others_are_not() -> None:
    one, same, other = ObjectRef[int](OID, None), ObjectRef[int](OID, None), ObjectRef[int](b"x" * 20, None)

    assert one == same and hash(one) == hash(same)
    assert one != other and one != OID
    assert one.hex() == OID.hex() in repr(one)


def test_the_death_of_a_ref_is_noted_and_nothing_else(runtime: Runtime) -> None:
    ref = ObjectRef[int](OID, None)
    assert not runtime.ops
    del ref

    assert list(runtime.ops) == [OID]


def test_a_ref_made_by_hand_counts_like_one_that_was_unpickled(runtime: Runtime) -> None:
    ref = ObjectRef[int](OID)

    assert list(runtime.ops) == [(OID,)]
    assert ref.binary() == OID
    with pytest.raises(ValueError, match="length"):
        ObjectRef(b"no id")


def test_pickling_tells_the_collector_and_pins_where_there_is_none(runtime: Runtime) -> None:
    ref = ObjectRef[int](OID, None)
    sent: list[bytes] = []
    refs.collectors.sent = sent
    try:
        pickled = pickle.dumps(ref)
    finally:
        refs.collectors.sent = None
    assert (sent, runtime.pinned) == ([OID], [])

    pickle.dumps(ref)
    assert runtime.pinned == [OID]

    received: list[bytes] = []
    refs.collectors.received = received
    try:
        assert pickle.loads(pickled) == ref
    finally:
        refs.collectors.received = None
    assert received == [OID] and (OID,) in runtime.ops


def test_a_ref_says_where_it_was_made_also_after_a_journey(runtime: Runtime) -> None:
    def made() -> ObjectRef[int]:
        frame = sys._getframe()
        return ObjectRef(OID, frame.f_code, frame.f_lasti)

    ref = made()

    assert "test_refs.py:" in ref.call_site() and ref.call_site().endswith("made")
    assert pickle.loads(pickle.dumps(ref)).call_site() == ref.call_site()
    assert refs.creation_sites([OID.hex()]) == {OID.hex(): ref.call_site()}
    assert ObjectRef[int](OID, None).call_site() == ""


def test_a_ref_whose_constructor_has_not_ended_is_passed_over(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", errors.append)
    begun, unbegun = ObjectRef.__new__(ObjectRef), ObjectRef.__new__(ObjectRef)
    assert gc.is_tracked(begun)
    begun._id = oid = b"b" * 20
    assert refs.creation_sites([oid.hex()]) == {}
    del begun, unbegun
    assert list(runtime.ops) == [oid] and not errors, "they are dropped without a word"


def test_a_ref_cannot_be_iterated_or_awaited_without_a_session() -> None:
    with pytest.raises(TypeError, match="not iterable"):
        list(ObjectRef[int](OID, None))
    with pytest.raises(RuntimeError, match=r"sundog\.init"):
        ObjectRef[int](OID, None).future()


def test_the_nil_ref_names_nothing_and_random_refs_differ() -> None:
    assert ObjectRef.nil().is_nil() and not ObjectRef.from_random().is_nil()
    assert ObjectRef.from_random() != ObjectRef.from_random()
    assert len(ObjectRef.from_random().binary()) == ObjectRef.size()
