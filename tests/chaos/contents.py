"""Values that can be recognised: what every object of a random program holds, computed from its mark alone.

Pure; the model and the bodies of tasks both use it, so a value that was mixed up, torn or freed under its reader
differs from what the model computes. Small values are bytes and travel in messages; large ones are arrays that
are read from shared memory without a copy.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import numpy as np

SMALL, LARGE, HUGE = 40, 180_000, 2_500_000
# Just where a value no longer travels in a message: as bytes, and as an array.
EDGES = (100 * 1024 - 64, 64 * 1024 - 64)
_ARRAYS = (range(60_000, 70_000), range(120_000, 1 << 40))
# What stands at both ends of every content. No fill and no pickle looks like it.
_ENDS = re.compile(rb"<([!-;=?-~]{30})>")


def content(mark: str, size: int) -> Any:
    """The value of an object: its mark at both ends, a fill that depends on the mark, and its size."""
    ends = b"<%b>" % mark.encode().ljust(30, b".")
    fill = hashlib.blake2b(ends, digest_size=1).digest()
    if not any(size in each for each in _ARRAYS):
        return ends + fill * size + ends
    value = np.full(size + 64, fill[0], dtype=np.uint8)
    value[:32] = value[-32:] = np.frombuffer(ends, dtype=np.uint8)
    return value


def marks_in(data: bytes) -> set[bytes]:
    """The contents of which an end stands somewhere in a file, by their marks."""
    return set(_ENDS.findall(data))


def mark_of(value: Any) -> bytes:
    """The mark of a content; nothing for any other value."""
    if not isinstance(value, bytes | np.ndarray):
        return b""
    found = _ENDS.match(bytes(value[:32]))
    return found[1] if found else b""


def digest(value: Any) -> str:
    """A short name for a value, the same wherever it is computed."""
    return hashlib.blake2b(memoryview(value), digest_size=6).hexdigest()


def mixed(mark: str, values: list[Any]) -> str:
    """The mark of what a task makes of the values it was given: other values or another order give another mark."""
    return hashlib.blake2b("/".join([mark, *map(digest, values)]).encode(), digest_size=12).hexdigest()


def same(found: Any, expected: Any) -> bool:
    """Whether two values agree in kind and in every byte."""
    if isinstance(expected, np.ndarray):
        return isinstance(found, np.ndarray) and bool(np.array_equal(found, expected))
    return bool(type(found) is type(expected) and found == expected)


def described(value: Any) -> str:
    """A value in few words, for a report."""
    if isinstance(value, np.ndarray):
        return f"array of {value.size}: {bytes(value[:32])!r}…{bytes(value[-32:])!r}"
    return repr(value) if len(repr(value)) < 120 else repr(value)[:120] + "…"


def difference(found: Any, expected: Any) -> str:
    """Where two arrays of one size differ, and what stands there; nothing for other values."""
    if (
        not isinstance(found, np.ndarray)
        or not isinstance(expected, np.ndarray)
        or found.shape != expected.shape
    ):
        return ""
    places = np.flatnonzero(found != expected)
    if not places.size:
        return "no byte differs any more"
    first, last = int(places[0]), int(places[-1])
    there = np.unique(found[places])[:8].tolist()
    return f"{places.size} bytes differ, from {first} to {last}, and are {there}"
