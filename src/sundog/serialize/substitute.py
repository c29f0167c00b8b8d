"""Replace objects of one kind wherever they are in a value: in containers, and in attributes of other objects.

Owns the walk. Lists, tuples and dicts are walked by hand; any other object goes through pickle, which knows how
each type is taken apart and put together. Refs are never pickled here: a ref that is pickled by hand keeps its
object permanently. Runs on any thread; does no I/O.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle

from sundog.refs import ObjectRef

_PLAIN = (str, bytes, int, float, bool, type(None), complex)


def substitute(value: Any, kinds: tuple[type, ...], replace: Callable[[Any], object]) -> Any:
    """`value` with every instance of `kinds` in it replaced by what `replace` returns for it.

    A value without such an instance comes back as it is, not as a copy. An object that cannot be pickled is taken
    to have none in it.
    """
    if isinstance(value, kinds):
        return replace(value)
    if isinstance(value, (*_PLAIN, ObjectRef)):
        return value
    if type(value) in (list, tuple, set):
        walked = [substitute(each, kinds, replace) for each in value]
        same = all(new is old for new, old in zip(walked, value))
        return value if same else type(value)(walked)
    if type(value) is dict:
        pairs = {key: substitute(each, kinds, replace) for key, each in value.items()}
        return value if all(pairs[key] is value[key] for key in value) else pairs
    return _through_pickle(value, kinds, replace)


def _through_pickle(value: object, kinds: tuple[type, ...], replace: Callable[[object], object]) -> object:
    kept: list[object] = []
    found = False

    class Taker(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, each: object) -> int | None:
            nonlocal found
            if isinstance(each, kinds):
                found = True
            elif not isinstance(each, ObjectRef):
                return None
            kept.append(each)
            return len(kept) - 1

    buffer = io.BytesIO()
    try:
        Taker(buffer).dump(value)
    except Exception:
        return value
    if not found:
        return value

    class Giver(pickle.Unpickler):
        def persistent_load(self, index: int) -> object:
            each = kept[index]
            return replace(each) if isinstance(each, kinds) else each

    buffer.seek(0)
    return Giver(buffer).load()
