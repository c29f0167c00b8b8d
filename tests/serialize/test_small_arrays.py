"""Small arrays travel in the pickle stream, and nobody who reads one can write to it."""

from __future__ import annotations

import pickle
import random
from typing import Any

import numpy as np
import pytest

from sundog import refs
from sundog.ids import OBJECT_BYTES
from sundog.serialize.pack import pack, unpack, unpack_with

_INLINE_MAX = 1 << 20
_LARGE = np.arange(20_000, dtype="f8")


class Local:
    """Pickled by value: cloudpickle's part."""

    def __init__(self, array: Any) -> None:
        self.array = array


Local.__module__ = "__main__"


def arrays_in(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [array for each in value for array in arrays_in(each)]
    return []


def check(value: Any) -> Any:
    meta, buffers, _ = pack(value, _INLINE_MAX)
    found = unpack(meta, buffers and [memoryview(bytes(each)) for each in buffers])
    was, now = arrays_in(value), arrays_in(found)
    assert len(was) == len(now)
    for before, after in zip(was, now, strict=True):
        assert before.dtype == after.dtype and before.shape == after.shape and np.array_equal(before, after)
        assert not after.flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            after.flags.writeable = True
    return found


@pytest.mark.parametrize(
    "value",
    [
        np.arange(3),
        np.zeros(()),
        np.empty((0, 5)),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.zeros(3, dtype=[("a", "i4"), ("b", "f8")]),
        np.array(["a", "bc"]),
        [np.zeros(3), np.zeros(3)],
        [np.empty(0), np.empty(0), np.ones(1)],
        [np.full(4, index) for index in range(50)],
        [np.zeros(4) for _ in range(50)],
        {"large": _LARGE, "small": np.arange(4), "more": [_LARGE, np.arange(5)] * 3},
        [*[np.full(4, index) for index in range(9)], _LARGE, *[np.full(4, index) for index in range(9)]],
    ],
    ids=lambda value: f"{type(value).__name__} {len(arrays_in(value))}",
)
def test_no_array_can_be_written_to_however_small(value: Any) -> None:
    check(value)


def test_the_writers_own_array_stays_writable() -> None:
    array = np.arange(3)
    check(array)
    array[0] = 9
    assert array.flags.writeable


def test_an_array_that_was_read_can_be_sent_on() -> None:
    check([check(np.arange(3)), np.arange(3)])


def test_bytearrays_stay_what_they_are() -> None:
    value = [bytearray(b"abc"), np.arange(3), bytearray(np.arange(3).tobytes())]
    found = check(value)
    assert found[0] == value[0] and type(found[0]) is bytearray
    assert found[2] == value[2] and type(found[2]) is bytearray


@pytest.mark.parametrize("count", [1, 2, 7])
def test_bytes_that_look_like_a_pickled_array_are_not_touched(count: int) -> None:
    array = np.arange(5)
    looks_alike = pickle.dumps([array] * count, 5)
    for value in (
        [looks_alike, array],
        [array, looks_alike],
        [looks_alike, looks_alike, array, array.copy()],
    ):
        found = check(value)
        assert [each for each in found if type(each) is bytes] == [
            each for each in value if type(each) is bytes
        ]


def test_what_only_cloudpickle_can_pickle_is_no_different() -> None:
    meta, buffers, _ = pack([Local(np.arange(4)), [Local(np.ones(2)) for _ in range(9)]], _INLINE_MAX)
    first, rest = unpack(meta, buffers)
    assert first.array.tolist() == [0, 1, 2, 3] and not first.array.flags.writeable
    assert not any(each.array.flags.writeable for each in rest)


@pytest.mark.parametrize("count", [1, 20])
def test_refs_beside_small_arrays_are_built_as_their_reader_wants(count: int) -> None:
    oid = bytes(range(OBJECT_BYTES))
    value = [refs.ObjectRef(oid, None), *[np.full(3, index) for index in range(count)]]
    meta, buffers, inner = pack(value, _INLINE_MAX)
    assert inner == [oid]
    built: list[bytes] = []

    def build(each: bytes, site: str | None = None) -> str:
        built.append(each)
        return "here"

    found: Any = unpack_with(meta, buffers, build)
    assert built == [oid] and found[0] == "here"
    assert not any(array.flags.writeable for array in found[1:])


@pytest.mark.parametrize("seed", range(60))
def test_any_mixture_arrives_as_it_was(seed: int) -> None:
    dice = random.Random(seed)
    some = [np.arange(dice.randrange(6)).astype(dice.choice(["i1", "f4", "u2"])) for _ in range(3)]

    def make(depth: int) -> Any:
        kind = dice.randrange(8 if depth else 5)
        if kind == 0:
            return dice.choice(some)
        if kind == 1:
            return dice.choice(some).copy()
        if kind == 2:
            return pickle.dumps(dice.choice(some), 5)
        if kind == 3:
            return bytearray(dice.choice(some).tobytes())
        if kind == 4:
            return _LARGE[: dice.choice([9_000, 20_000])]
        return [make(depth - 1) for _ in range(dice.randrange(7))]

    value = make(3)
    found = check(value)
    assert repr(found) == repr(value)
