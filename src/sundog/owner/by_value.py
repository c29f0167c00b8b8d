"""Large values that a program passes by value again and again: told once, with the place of the call.

Owns the count of such values, by identity, and of large functions, by name. A value is looked at only when it is
copied to shared memory anyway, so small arguments never come here. Refuses to keep a value alive: only those that can
be referred to weakly are watched, for the address of a list that is gone may be another list's. Runs in the process
that submits, on the calling thread.
"""

from __future__ import annotations

import os
import sys

# Imported from C: `weakref` itself would take a millisecond of every start.
from _weakref import ref
from collections.abc import Collection, Sequence
from itertools import count, islice
from typing import Any, Protocol, cast
from zlib import crc32

from sundog import notices

# Below this a copy costs less than a tenth of a millisecond.
LARGE_BYTES = 1 << 20
# The first submission of a function of this size gives a warning. The threshold is Ray's.
HUGE_FUNCTION_BYTES = 10_000_000
TIMES = 3
_WATCHED_MAX = 256
_LOOK_INSIDE_MAX = 16
_PART_BYTES = 1024
_SAMPLES, _FEW_SAMPLES = 16, 4  # places of a value that are looked at
_SAMPLE = 64  # bytes, letters or numbers at each
_MOST_OF = 0.9  # a value with this share of a container's bytes is what the container is passed for
_DEPTH = 2  # containers nested deeper are not examined
_HELD_MAX = 64  # the size of a longer container is estimated from its length
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class _Array(Protocol):
    """What is asked of an array of numbers."""

    shape: tuple[int, ...]
    dtype: object

    def __getitem__(self, where: tuple[slice, ...]) -> _Array: ...

    def tobytes(self) -> bytes:
        """Its items, copied."""
        ...


_values: dict[int, list[Any]] = {}  # id(value) -> [weak reference, {function: count}]
_functions: dict[str, int] = {}
_told: set[str] = set()
_numbers: dict[int, tuple[ref[object], int]] = {}  # id(value) -> weak reference, its number
_counter = count(1)


def note_arguments(name: str, args: tuple[object, ...], kwargs: dict[str, Any], size_bytes: int) -> None:
    """Record that arguments of so many bytes were copied for a call of a function."""
    if size_bytes < LARGE_BYTES:
        return
    for value in (*args, *kwargs.values()):
        if type(value) in (list, tuple) and len(value) <= _LOOK_INSIDE_MAX:
            for inner in value:
                _note(name, inner, size_bytes)
        elif type(value) is dict and len(value) <= _LOOK_INSIDE_MAX:
            for inner in value.values():
                _note(name, inner, size_bytes)
        else:
            _note(name, value, size_bytes)


def _note(name: str, value: object, total_bytes: int) -> None:
    size = getattr(value, "nbytes", total_bytes)
    if not isinstance(size, int) or size < LARGE_BYTES:
        return
    key = id(value)
    found = _values.get(key)
    if found is None or found[0]() is not value:
        if len(_values) >= _WATCHED_MAX:
            return
        try:
            _values[key] = [ref(value, lambda _: _values.pop(key, None)), {name: 1}]
        except TypeError:
            pass
        return
    count = found[1][name] = found[1].get(name, 0) + 1
    if count != TIMES or name in _told:
        return
    _told.add(name)
    kind = type(value)
    notices.warn(
        f"The same {kind.__module__.partition('.')[0]}.{kind.__qualname__} of {size / 2**20:.1f} MiB was passed by "
        f"value to {name} {TIMES} times ({_place()}): each call copies it. Store it once and pass the ref: "
        "ref = sundog.put(value)."
    )


def note_function(name: str, size_bytes: int) -> None:
    """Record that a function or class of so many bytes, with its captured values, was pickled."""
    if size_bytes < LARGE_BYTES:
        return
    count = _functions[name] = _functions.get(name, 0) + 1
    if name in _told or (count < TIMES and size_bytes < HUGE_FUNCTION_BYTES):
        return
    _told.add(name)
    often = f" and was defined {count} times" if count > 1 else ""
    notices.warn(
        f"{name} has {size_bytes / 2**20:.1f} MiB with what it captured from around it{often} ({_place()}): each "
        "definition is copied to every worker that runs it. Store large values once and pass the ref as an argument: "
        "ref = sundog.put(value)."
    )


def likeness(args: tuple[object, ...], kwargs: dict[str, object]) -> float:
    """A number that is the same if the largest argument is passed again, and most likely another for others.

    Made of where the data of an array are and of some of its bytes. Of a container, of those that it holds: a container
    that is made for one call has the address of the one before it, so its own address tells nothing. The other
    arguments, and the small values beside a large one in a container, may differ from call to call.
    """
    largest, most = None, _PART_BYTES - 1
    for value in (*args, *kwargs.values()):
        size = _size_of(value, _DEPTH)
        if size > most:
            largest, most = value, size
    if largest is None:
        return 0.0
    try:
        return float(crc32(_part_of(largest, _DEPTH + 1)))
    except Exception:  # as in `_size_of`
        return float(crc32(f"{id(largest)} {most}".encode()))


def _size_of(value: object, depth: int) -> int:
    """About how many bytes a value has: of arrays exactly, of containers and objects by what they hold."""
    try:
        size = getattr(value, "nbytes", None)
        if isinstance(size, int):
            return size
        if isinstance(value, str | bytes | bytearray):
            return len(value)
        held: Collection[object]
        if isinstance(value, dict):
            held = value.values()
        elif isinstance(value, list | tuple | set | frozenset):
            held = value
        elif hasattr(value, "__len__"):
            return 8 * len(value)
        else:
            held = getattr(value, "__dict__", {}).values()
        size = 8 * len(held)
        if depth and len(held) <= _HELD_MAX:
            size += sum(_size_of(each, depth - 1) for each in held)
        return size
    except Exception:  # the class is the user's, and its code may raise
        return 0


def _part_of(value: object, depth: int, samples: int = _SAMPLES) -> bytes:
    """What tells a value from others: where an array is and some of its bytes, some letters of a text, of a container
    what tells those that it holds.
    """
    if isinstance(value, str | bytes | bytearray | memoryview):
        return _some_of(value, samples)
    if value is None or isinstance(value, int | float | complex):
        return repr(value).encode()
    place = getattr(value, "__array_interface__", None)
    if isinstance(place, dict) and "data" in place:
        told = f"{place['data'][0]} {place.get('shape')} {place.get('strides')} {place.get('typestr')}"
        owner = value  # of the memory: of a part of an array, that array
        while isinstance(getattr(owner, "base", None), type(value)):
            owner = owner.base  # type: ignore[attr-defined]
        return f"{_number_of(owner)} {told}".encode() + _some_items(cast("_Array", value))
    held = _held_by(value)
    if held is None or not depth:
        return f"{type(value).__qualname__} {_number_of(value)}".encode()
    sizes = [_size_of(each, 1) for each in held] if len(held) <= _LOOK_INSIDE_MAX else []
    if sizes and max(sizes) >= max(_PART_BYTES, _MOST_OF * sum(sizes)):
        return _part_of(held[sizes.index(max(sizes))], depth - 1)  # what is beside it may differ
    step = max(1, len(held) // samples)
    parts = [_part_of(each, depth - 1, _FEW_SAMPLES) for each in held[::step]]
    return b" ".join([str(len(held)).encode(), *parts])


def _some_of(text: str | bytes | bytearray | memoryview, samples: int) -> bytes:
    """Some places of a text or of bytes, with their number."""
    step = max(1, len(text) // samples)
    parts = [text[at : at + _SAMPLE] for at in range(0, len(text), step)]
    plain = [each.encode(errors="replace") if isinstance(each, str) else bytes(each) for each in parts]
    return b" ".join([str(len(text)).encode(), *plain])


def _some_items(array: _Array) -> bytes:
    """Bytes of some places of an array of numbers. Of objects it would be addresses."""
    if not array.shape or getattr(array.dtype, "hasobject", False):
        return b""
    rest = [slice(size // 2, size // 2 + _FEW_SAMPLES) for size in array.shape[1:]]
    rows = range(0, array.shape[0], max(1, array.shape[0] // _SAMPLES))
    return b"".join(array[(slice(row, row + 1), *rest)].tobytes() for row in rows)


def _held_by(value: object) -> Sequence[object] | None:
    """A sequence of what a container or a plain object of the program holds; None of others."""
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, dict | set | frozenset):
        own = value.values() if isinstance(value, dict) else value
        return list(own if len(own) <= _HELD_MAX else islice(own, _SAMPLES))
    if hasattr(value, "__len__") or hasattr(value, "__array__"):
        return None  # of a library: a table, a tensor
    return list(getattr(value, "__dict__", {}).values()) or None


def _number_of(value: object) -> int:
    """A number for an object, as long as it lives: its address may be that of another after that."""
    key = id(value)
    found = _numbers.get(key)
    if found is not None and found[0]() is value:
        return found[1]
    number = next(_counter)
    if len(_numbers) < _WATCHED_MAX:
        try:
            _numbers[key] = (ref(value, lambda _: _numbers.pop(key, None)), number)
        except TypeError:
            return key
    return number


def _place() -> str:
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
