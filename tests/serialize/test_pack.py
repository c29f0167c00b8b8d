"""Values to bytes and back: short bytes and functions of modules; arrays of numbers, whose pickle is remembered."""

from __future__ import annotations

import pickle
import posixpath
import string
import sys
from typing import Any

import numpy as np
import pytest

from sundog.serialize import pack as packing
from sundog.serialize.pack import deregister_serializer, pack, pack_function, register_serializer, unpack

_INLINE_MAX = 100 << 10
_COUNT = 20_000  # numbers in an array that is large enough for a segment


class Image(np.ndarray):
    """An array of the user's own."""


def _there_and_back(value: Any) -> Any:
    meta, buffers, inner = pack(value, _INLINE_MAX)
    assert inner is None
    return unpack(meta, buffers)


@pytest.fixture(autouse=True)
def nothing_remembered() -> Any:
    packing._arrays.clear()
    packing._streams.clear()
    yield
    packing._arrays.clear()
    packing._streams.clear()


def test_arrays_of_one_shape_and_dtype_share_a_stream_and_keep_their_own_bytes() -> None:
    first, second = np.arange(_COUNT, dtype="f8"), np.arange(_COUNT, dtype="f8") * 2
    packed = [pack(each, _INLINE_MAX) for each in (first, second)]
    assert packed[0][0] is packed[1][0] and packed[0][1] and packed[1][1]
    for each, (meta, buffers, _) in zip((first, second), packed, strict=True):
        found = unpack(meta, buffers)
        assert type(found) is np.ndarray and found.dtype == each.dtype and np.array_equal(found, each)


def test_a_remembered_stream_is_what_pickle_says_of_the_array() -> None:
    for array in (np.ones((200, 100)), np.ones((200, 100), "i2").repeat(4, 0), np.zeros((9, 9, 999), bool)):
        written = packing._dump(array, [], [])
        assert pack(array, _INLINE_MAX)[0] == pack(array, _INLINE_MAX)[0] == written
        assert np.array_equal(_there_and_back(array), array) and _there_and_back(array).shape == array.shape


def test_read_only_buffers_give_read_only_arrays_whether_remembered_or_not() -> None:
    array = np.ones(_COUNT)
    for _ in range(2):
        meta, buffers, _inner = pack(array, _INLINE_MAX)
        assert buffers is not None
        found = unpack(meta, [memoryview(bytes(buffers[0]))])
        assert not found.flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            found.flags.writeable = True


@pytest.mark.parametrize(
    "other",
    [
        np.asfortranarray(np.arange(_COUNT, dtype="f8").reshape(100, 200)),
        np.arange(2 * _COUNT, dtype="f8").reshape(200, 200)[::2],
        np.arange(_COUNT, dtype="f8").reshape(100, 200).astype(">f8"),
        np.arange(_COUNT, dtype="i8").reshape(100, 200),
        np.arange(_COUNT).astype("M8[ns]").reshape(100, 200),
        np.array([f"{n}" for n in range(_COUNT)], dtype=object).reshape(100, 200),
        np.arange(_COUNT, dtype="f8").reshape(100, 200).view(Image),
    ],
    ids=["column order", "strided", "byte order", "integers", "times", "objects", "a subclass"],
)
def test_an_array_of_a_remembered_shape_is_not_mistaken_for_another_kind(other: Any) -> None:
    plain = np.ones((100, 200))
    _there_and_back(plain)
    for _ in range(2):
        found = _there_and_back(other)
        assert type(found) is type(other) and found.dtype == other.dtype and np.array_equal(found, other)
        assert np.array_equal(_there_and_back(plain), plain)


def test_metadata_of_a_dtype_is_kept_though_the_dtypes_are_equal() -> None:
    dtype = np.dtype("f8", metadata={"unit": "m"})
    _there_and_back(np.ones(_COUNT))
    for _ in range(2):
        assert _there_and_back(np.ones(_COUNT, dtype)).dtype.metadata == {"unit": "m"}
    assert _there_and_back(np.ones(_COUNT)).dtype.metadata is None


def test_a_serializer_for_arrays_is_used_for_remembered_ones_too() -> None:
    array = np.ones(_COUNT)
    _there_and_back(array)
    register_serializer(np.ndarray, serializer=lambda each: each.tolist(), deserializer=tuple)
    try:
        assert _there_and_back(array) == tuple(array.tolist())
    finally:
        deregister_serializer(np.ndarray)
    assert np.array_equal(_there_and_back(array), array)


def test_only_so_many_shapes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_ARRAYS_MAX", 3)
    for extra in range(10):
        array = np.ones(_COUNT + extra)
        assert np.array_equal(_there_and_back(array), array)
        assert len(packing._arrays) <= 3 and len(packing._streams) <= 3


@pytest.mark.parametrize("length", [0, 1, 2, 127, 128, 255, 256, 257, 5000])
def test_short_bytes_are_read_as_they_were(length: int) -> None:
    value = bytes(range(256)) * 20
    meta, buffers, inner = pack(value[:length], _INLINE_MAX)
    assert (buffers, inner) == (None, None)
    assert unpack(meta, None) == pickle.loads(meta) == value[:length]


def _local() -> Any:
    def made_here() -> int:
        return 7

    return made_here


@pytest.mark.parametrize(
    "function",
    [posixpath.basename, string.Template, len, _local(), lambda: 7, string.Template("$a").substitute],
)
def test_what_has_a_name_in_its_module_is_pickled_by_it(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob, _ = pack_function(function)  # by cloudpickle, which is loaded here
    monkeypatch.delitem(sys.modules, "cloudpickle", raising=False)
    other, _ = pack_function(function)
    named = function in (posixpath.basename, string.Template)
    assert (packing._by_name(function) is not None) is named
    assert type(pickle.loads(other)) is type(pickle.loads(blob))
    if named:
        assert pickle.loads(other) is pickle.loads(blob) is function


def test_a_function_that_its_module_does_not_have_is_not_pickled_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(posixpath, "basename", lambda path: path)
    assert packing._by_name(posixpath.split) is not None
    assert packing._by_name(posixpath.basename) is None
    monkeypatch.setattr(_local, "__module__", "__main__")
    assert packing._by_name(_local) is None


def test_the_state_of_an_asgi_app_can_be_read_again() -> None:
    datastructures = pytest.importorskip("starlette.datastructures")
    state = unpack(pack(datastructures.State({"a": 1}), 1 << 20)[0], None)
    assert state.a == 1


@pytest.mark.parametrize("value", ["short", b"short", ["short"]])
def test_a_limit_for_what_travels_in_replies_holds_for_short_values_too(value: Any) -> None:
    meta, buffers, _ = pack(value, 0)
    assert meta == b"" and buffers
    assert pack(value, 100 << 10)[1] is None
