"""Values to bytes: pickle 5 with out-of-band buffers, cloudpickle only where plain pickle cannot or must not.

Owns the choice of pickler and what stays in-band. Refuses to know where the bytes go. Runs on the
submitting thread of every process; it is on the hot path.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import sys
from collections.abc import Callable, Iterable
from pickle import PickleBuffer, dumps
from sys import modules
from types import FunctionType
from typing import Any, TypeVar

from sundog.profilers import load, loaded
from sundog.refs import ObjectRef, collectors

# Values of these exact types hold no ref, no buffer and nothing of __main__.
SIMPLE: frozenset[type] = frozenset({int, float, str, bytes, bool, type(None)})
# Buffers below this travel with the pickle stream: a segment costs more than the copy.
BUFFER_MIN_BYTES = 64 << 10
# From this size on, as in Ray, an array is read at an address that is aligned for vector instructions.
ALIGNED_MIN_BYTES = 2048
_ALIGNMENT = 64
_THAWED_MAX = 4  # small buffers that are searched for in the stream; more than this are stored beside it
T = TypeVar("T")
S = TypeVar("S")

_BYTES, _BYTEARRAY = pickle.BINBYTES8, pickle.BYTEARRAY8
NONE = dumps(None, 5)
# The header of a stream that holds only up to 255 bytes: the pickler needs three times as long to write it.
_SHORT_BYTES = [pickle.PROTO + b"\5" + pickle.SHORT_BINBYTES + bytes([length]) for length in range(256)]

_REFS = ObjectRef.__module__

# Pickle streams of numeric arrays whose bytes are stored beside them. Numpy needs longer to describe an array
# of 100 KB than to copy its bytes, and the description is the same for every array of that dtype and shape.
_arrays: dict[
    tuple[str, tuple[int, ...]], tuple[object, bytes]
] = {}  # kind of number, shape -> dtype, stream
_streams: dict[bytes, tuple[Callable[..., Any], object, object]] = {}  # stream -> frombuffer, dtype, shape
_ARRAYS_MAX = 1024
_STREAM_MAX_BYTES = 256  # longer streams are not looked up, because hashing them takes time
_array_type: object = None  # numpy's array type, set when the first array was packed

Buffers = list[memoryview]
Packed = tuple[bytes, Buffers | None, list[bytes] | None]


def pack(value: Any, inline_max: int) -> Packed:
    """Pickle `value`.

    Returns:
        The pickle stream, the buffers that should go to shared memory (None if all of it is in the
        stream; when the stream itself is too long it is the first buffer and the stream is empty),
        and the ids of the refs inside (None if there are none).
    """
    kind = type(value)
    if kind in SIMPLE:
        if value is None:
            return NONE, None, None
        if kind is bytes and len(value) < 256 and inline_max > 300:
            return _SHORT_BYTES[len(value)] + value + b".", None, None
        if (kind is not str and kind is not bytes) or len(value) < BUFFER_MIN_BYTES < inline_max:
            return dumps(value, 5), None, None
    elif kind is _array_type:
        dtype = value.dtype
        known = _arrays.get((dtype.char, value.shape))
        if (
            known is not None
            and known[0] is dtype
            and value.flags.c_contiguous
            and kind not in copyreg.dispatch_table
        ):
            return known[1], [PickleBuffer(value).raw()], None
    outer = collectors.sent
    sent = collectors.sent = []
    buffers: Buffers = []
    try:
        meta = _dump(value, buffers, sent)
    finally:
        collectors.sent = outer
    if len(buffers) == 1 and kind.__name__ == "ndarray":
        _remember_array(value, meta)
    if len(meta) > inline_max:
        buffers.insert(0, memoryview(meta))
        meta = b""
    return meta, buffers or None, sent or None


def _remember_array(value: Any, meta: bytes) -> None:
    """Keep the stream of an array for others like it, if shape and dtype are all that it says."""
    global _array_type
    kind = type(value)
    numpy = loaded("numpy")
    if numpy is None or kind is not numpy.ndarray or kind in copyreg.dispatch_table:
        return
    dtype = value.dtype
    # By identity: two dtypes are equal even if only one of them carries metadata.
    if dtype is numpy.dtype(dtype.char) and not dtype.hasobject and value.flags.c_contiguous:
        if len(_streams) >= _ARRAYS_MAX:
            _arrays.clear()
            _streams.clear()
        _arrays[dtype.char, value.shape] = dtype, meta
        _streams[meta] = numpy.frombuffer, dtype, value.shape
        _array_type = kind


def _dump(value: object, buffers: Buffers, sent: list[bytes], thawed_max: int = _THAWED_MAX) -> bytes:
    """The stream of a value; buffers for shared memory are added to `buffers`, the others are in the stream."""
    if not _taught and _STARLETTE in modules and loaded(_STARLETTE) is not None:
        _teach_starlette()
    thawed: Buffers = []  # small buffers that the pickler writes as bytearrays

    def sort(buffer: PickleBuffer) -> bool:
        try:
            raw = buffer.raw()
        except BufferError:  # not contiguous: only the pickler can copy it
            return True
        if raw.nbytes < ALIGNED_MIN_BYTES:
            if raw.readonly:
                return True
            if len(thawed) < thawed_max:
                thawed.append(raw)
                return True
        buffers.append(raw)
        return False

    try:
        meta = dumps(value, 5, buffer_callback=sort)
        # A reference to the submitter's __main__ would silently find another module in the worker.
        if b"__main__" not in meta:
            if thawed or buffers:
                return _finish(value, meta, thawed, buffers, sent)
            return meta
    except Exception:
        pass
    thawed.clear()
    buffers.clear()
    sent.clear()
    meta = load("cloudpickle").dumps(value, 5, buffer_callback=sort)
    return _finish(value, meta, thawed, buffers, sent)


def _finish(value: object, stream: bytes, thawed: Buffers, buffers: Buffers, sent: list[bytes]) -> bytes:
    """Make a small array read-only for its readers, as a large one is.

    Else a program that works on small data would fail on large. An array over bytes is such an array, and the pickler
    writes bytes as it writes bytearrays, but for the first byte.
    """
    if thawed:
        places = _places_of(thawed, stream)
        if places is None:
            buffers.clear()
            sent.clear()
            return _dump(value, buffers, sent, 0)
        for place in places:
            stream = stream[:place] + _BYTES + stream[place + 1 :]
    for raw in buffers:
        if raw.nbytes < BUFFER_MIN_BYTES:
            return _with_parts(stream, buffers)
    return stream


def _places_of(thawed: Buffers, stream: bytes) -> list[int] | None:
    """Where a stream has these buffers as bytearrays; None if that is not certain, for others look the same."""
    written = [_BYTEARRAY + raw.nbytes.to_bytes(8, "little") + raw.tobytes() for raw in thawed]
    places = []
    for each in {*written}:
        found = 0
        at = stream.find(each)
        while at >= 0:
            places.append(at)
            found += 1
            at = stream.find(each, at + 1)
        if found != written.count(each):
            return None
    return places


def _with_parts(stream: bytes, buffers: Buffers) -> bytes:
    """A stream that has small buffers beside the value's own; only the large ones are left in `buffers`."""
    parts = [PickleBuffer(raw) if raw.nbytes >= BUFFER_MIN_BYTES else raw.tobytes() for raw in buffers]
    buffers.clear()
    return dumps(_Parts(stream, parts), 5, buffer_callback=lambda buffer: buffers.append(buffer.raw()))


class _Parts:
    __slots__ = ("parts", "stream")

    def __init__(self, stream: bytes, parts: list[PickleBuffer | bytes]) -> None:
        self.stream = stream
        self.parts = parts

    def __reduce__(self) -> tuple[object, ...]:
        return (load_parts, (self.stream, self.parts))


def load_parts(stream: bytes, parts: list[object]) -> object:
    """What `_with_parts` wrote."""
    if b"numpy" in stream:
        parts = [
            _aligned(part) if type(part) is bytes and len(part) >= ALIGNED_MIN_BYTES else part
            for part in parts
        ]
    return pickle.loads(stream, buffers=parts)


def _aligned(part: bytes) -> object:
    """A read-only copy of a buffer at a multiple of 64."""
    import numpy

    room = numpy.empty(len(part) + _ALIGNMENT - 1, numpy.uint8)
    start = -room.__array_interface__["data"][0] % _ALIGNMENT
    copy = room[start : start + len(part)]
    copy[:] = numpy.frombuffer(part, numpy.uint8)
    copy.flags.writeable = False
    return copy


def pack_function(function: object) -> tuple[bytes, list[bytes]]:
    """Pickle a function or class by value where needed; also returns the refs captured in it."""
    outer = collectors.sent
    sent = collectors.sent = []
    try:
        blob = None if "cloudpickle" in sys.modules else _by_name(function) or _by_code(function)
        if blob is None:
            blob = load("cloudpickle").dumps(function, 5)
    finally:
        collectors.sent = outer
    return blob, sent


def _by_name(function: object) -> bytes | None:
    """The pickle of a function or class that its module has under its name; None of any other.

    cloudpickle gives the same, and takes 30 ms to import, in the middle of a start. No program can have told
    cloudpickle to pickle that module by value before it was imported.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if type(function) not in (type, FunctionType) or module in (None, "__main__") or "." in name:
        return None
    return dumps(function, 5) if getattr(sys.modules.get(module), name, None) is function else None


def _by_code(function: object) -> bytes | None:
    """The pickle of a plain function of the script, made without cloudpickle; None of all else."""
    if type(function) is not FunctionType or function.__module__ != "__main__":
        return None
    blob: bytes | None = load("sundog.serialize.by_code").pickled(function)
    return blob


def unpack(meta: bytes, buffers: Buffers | None) -> Any:
    """The value of what `pack` returned (read-only buffers give read-only arrays)."""
    if buffers is None:
        return pickle.loads(meta)
    if meta:
        if len(meta) <= _STREAM_MAX_BYTES and len(buffers) == 1:
            known = _streams.get(meta)
            if known is not None:
                return known[0](buffers[0], known[1]).reshape(known[2])
        return pickle.loads(meta, buffers=buffers)
    return pickle.loads(buffers[0], buffers=buffers[1:])


class _Reader(pickle.Unpickler):
    """Rebuilds refs in its caller's way."""

    def __init__(
        self, meta: bytes | memoryview, buffers: Iterable[object] | None, rebuild: Callable[..., object]
    ) -> None:
        super().__init__(io.BytesIO(meta), buffers=buffers)
        self._rebuild = rebuild

    def find_class(self, module: str, name: str, /) -> object:
        if name == "rebuild" and module == _REFS:
            return self._rebuild
        if name == "load_parts" and module == __name__:
            return self._load_parts
        return super().find_class(module, name)

    def _load_parts(self, stream: bytes, parts: list[object]) -> object:
        return _Reader(stream, parts, self._rebuild).load()


def unpack_with(meta: bytes, buffers: Buffers | None, rebuild: Callable[..., object]) -> object:
    """As `unpack`, for a value whose refs are counted already: `rebuild(id, site)` gives each of them.

    An object of thousands of refs would otherwise spend most of its time on telling of each.
    """
    if not meta and buffers:
        return _Reader(buffers[0], buffers[1:], rebuild).load()
    return _Reader(meta, buffers, rebuild).load()


class Slot:
    """Stands in pickled arguments where a top-level ref was; the worker puts the value there."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def __reduce__(self) -> tuple[object, ...]:
        return (Slot, (self.index,))


# The streams of arguments that are refs alone, by their number: nothing has to be pickled for them, or unpickled.
SLOTS_ALONE = tuple([pickle.dumps(tuple([Slot(index) for index in range(count)]), 5) for count in range(5)])

_STARLETTE = "starlette.datastructures"
_taught = False


def _teach_starlette() -> None:
    """Starlette's `State`, which every FastAPI app has, recurses without end when it is loaded as other objects are."""
    global _taught
    _taught = True
    state = getattr(modules[_STARLETTE], "State", None)
    if state is not None and state not in copyreg.dispatch_table:
        copyreg.pickle(state, lambda each: (state, (dict(each._state),)))


_custom: dict[type, Any] = {}


def _restore(deserializer: Callable[[S], T], state: S) -> T:
    return deserializer(state)


def register_serializer(
    cls: type[T], *, serializer: Callable[[T], S], deserializer: Callable[[S], object]
) -> None:
    """Pickle instances of `cls` through `serializer`, and rebuild them through `deserializer`."""

    def reduce(instance: T) -> tuple[Callable[..., object], tuple[object, ...]]:
        return _restore, (deserializer, serializer(instance))

    _custom.setdefault(cls, copyreg.dispatch_table.get(cls))
    copyreg.dispatch_table[cls] = reduce


def deregister_serializer(cls: type) -> None:
    """Undo `register_serializer`; no effect if there is none."""
    if cls not in _custom:
        return
    before = _custom.pop(cls)
    if before is None:
        copyreg.dispatch_table.pop(cls, None)
    else:
        copyreg.dispatch_table[cls] = before
