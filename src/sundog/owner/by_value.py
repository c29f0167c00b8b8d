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
from collections.abc import Collection
from typing import Any
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
_DEPTH = 2  # containers nested deeper are not examined
_HELD_MAX = 64  # the size of a longer container is estimated from its length
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_values: dict[int, list[Any]] = {}  # id(value) -> [weak reference, {function: count}]
_functions: dict[str, int] = {}
_told: set[str] = set()


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

    Made of which object it is (an address may be used again) and of a few of its bytes or items (two arrays may begin
    alike): both are the same only for a value that is passed again. The other arguments may differ from call to call.
    """
    largest, most = None, _PART_BYTES - 1
    for value in (*args, *kwargs.values()):
        size = _size_of(value, _DEPTH)
        if size > most:
            largest, most = value, size
    if largest is None:
        return 0.0
    return float(crc32(_part_of(largest), crc32(f"{id(largest)} {most}".encode())))


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


def _part_of(value: Any) -> bytes:
    """A few bytes of a value, or the ids of its first and last items; nothing if the value is not simple."""
    if type(value) in (list, tuple):
        return f"{id(value[0])} {id(value[len(value) // 2])} {id(value[-1])}".encode()
    try:
        view = memoryview(value).cast("B")
    except (TypeError, ValueError, BufferError):
        return b""
    return (
        bytes(view[:_PART_BYTES]) + bytes(view[len(view) // 2 :][:_PART_BYTES]) + bytes(view[-_PART_BYTES:])
    )


def _place() -> str:
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
