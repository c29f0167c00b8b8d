"""Why objects are alive in this process: the way from a ref to the variable, attribute or frame that holds it.

Walks backwards through `gc.get_referrers`, a bounded number of steps, and calls no code of the user's: it compares by
identity and never asks for a `repr`. The collector does not know arrays of numpy, so the holders of an array over an
object's bytes are looked for among all containers. Runs in a thread made for the look; keeps nothing.

A way ends at a variable of a running function, a module's variable, or an attribute of a class; else where the search
was given up.
"""

from __future__ import annotations

import gc
import re
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from types import (
    CellType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any

from sundog.owner.stacks import PACKAGE_DIR
from sundog.profilers import loaded
from sundog.refs import ObjectRef, is_made
from sundog.wire.looks import Retention

_DEPTH_MAX = 12
_PATHS_MAX = 3
_STEPS_MAX = 2_000
_LIMIT_S = 3.0
_WIDTH_MAX = 32
_BASES_MAX = 8
# a path from an object to its holder ends at these modules
_INNER_PARTS = ("sundog.owner", "sundog.worker", "sundog.store", "sundog.engines")
_ACTOR = "attribute actor of a Executor"
_ACTORS = "the actor itself"
_SCALARS = (str, bytes, int, float, bool, type(None))


def explain(names: Iterable[str], exported: dict[str, object], actor: object = None) -> list[Retention]:
    """The ways by which this process holds objects.

    Args:
        names: Ids of objects in hexadecimal.
        exported: Of those whose bytes are read in place: what exports the bytes.
        actor: The actor of this process. What holds it was made before the fork, and the garbage collector does not
            look there for holders.
    """
    wanted = dict.fromkeys(names)
    everything = gc.get_objects()  # taken before this search creates containers of its own
    search = _HolderSearch(actor)
    holders: dict[str, list[object]] = {name: [] for name in wanted}
    for each in everything:
        if is_made(each) and each._id.hex() in holders:
            holders[each._id.hex()].append(each)
    arrays = _arrays_over(everything, {name: exported[name] for name in wanted if name in exported})
    search.ignore([everything, exported, *holders.values()])
    search.ignore([pair for found in arrays.values() for _, pair in found])
    found = []
    for name in wanted:
        ways = [search.way(ref, "ObjectRef") for ref in holders[name][:_PATHS_MAX]]
        ways += [search.way_from(array, holder) for array, holder in arrays.get(name, [])[:_PATHS_MAX]]
        told = [way for way in ways if way is not None]
        found.append(Retention(name, tuple(dict.fromkeys(told)), bool(told) or not ways))
    search.close()
    everything.clear()
    return found


class _HolderSearch:
    """One walk, with what the variables of running functions hold."""

    def __init__(self, actor: object) -> None:
        self._ends_at = (
            time.thread_time() + _LIMIT_S
        )  # processor time: a time in which this thread did not run costs nothing
        self._steps = 0
        self._frames = _running_variables()
        if actor is not None:
            self._frames.setdefault(id(actor), (actor, _ACTORS))
        self._own: set[int] = {id(self._frames), id(self.__dict__)}

    def ignore(self, own: list[object]) -> None:
        """These containers belong to the search, and hold nothing for the program."""
        self._own.update(id(each) for each in own)
        self._own.add(id(own))

    def close(self) -> None:
        """Let go of everybody's variables."""
        self._frames.clear()

    def way(self, target: object, what: str) -> tuple[str, ...] | None:
        """The shortest way from `target` to a root; None if none was found in time."""
        return self._walk([(target, (what,))])

    def way_from(self, array: str, holder: str | tuple[object, object]) -> tuple[str, ...] | None:
        """The same for an array that `holder` holds."""
        if isinstance(holder, str):
            return (array, holder)  # the holder is a variable of a running function
        value, container = holder
        end, text = _edge(container, value)
        if end:
            return (array, text)
        return self._walk([(container, (array, text))])

    def _walk(self, queue: list[tuple[object, tuple[str, ...]]]) -> tuple[str, ...] | None:
        seen = {id(queue)}
        while queue:
            target, way = queue.pop(0)
            named = self._frames.get(id(target))
            if named is not None and named[0] is target:
                return (*way, named[1])
            self._steps += 1
            if len(way) > _DEPTH_MAX or self._steps > _STEPS_MAX or time.thread_time() > self._ends_at:
                return None
            for holder in gc.get_referrers(target)[:_WIDTH_MAX]:
                if id(holder) in seen or id(holder) in self._own or _is_ours(holder, target, way):
                    continue
                seen.add(id(holder))
                end, text = _edge(holder, target)
                further = _joined(way, text)
                if end or further[-1] == _ACTORS:
                    return further
                queue.append((holder, further))
            del target
        return None


def _running_variables() -> dict[int, tuple[object, str]]:
    """What the variables of all running functions hold, but those of sundog and of the thread that looks."""
    found: dict[int, tuple[object, str]] = {}
    frames = sys._current_frames()
    frames.pop(threading.get_ident(), None)
    for innermost in list(frames.values()):
        frame: FrameType | None = innermost
        while frame is not None:
            code = frame.f_code
            if not code.co_filename.startswith(PACKAGE_DIR) and frame.f_locals is not frame.f_globals:
                place = f"{code.co_qualname}() ({code.co_filename}:{frame.f_lineno})"
                for name, value in list(frame.f_locals.items()):
                    if type(value) not in _SCALARS:
                        found.setdefault(id(value), (value, f"variable {name} of {place}"))
            frame = frame.f_back
    frames.clear()
    return found


def _is_ours(holder: object, target: object, way: tuple[str, ...]) -> bool:
    """Whether a referrer is part of the search itself, or a frame (whose variables are known)."""
    if isinstance(holder, FrameType):
        return True
    if type(holder) is tuple and len(holder) == 2 and holder[0] is target:
        return type(holder[1]) is tuple or (type(holder[1]) is str and holder[1].startswith("variable "))
    return False


_MARK = object()
_ATTRIBUTE = re.compile(r"\['(\w+)'\] of a dict of \d+")


def _joined(way: tuple[str, ...], text: str) -> tuple[str, ...]:
    """Add one step; the dict of an object is described as an attribute of the object."""
    found = _ATTRIBUTE.fullmatch(way[-1]) if text.startswith(_OWN_DICT) else None
    if found is not None:
        joined = f"attribute {found[1]} of {text.removeprefix(_OWN_DICT)}"
        return (*way[:-1], _ACTORS if joined == _ACTOR else joined)
    return (*way, text.removeprefix(_OWN_DICT))


_OWN_DICT = "the attributes of "


# ---------------------------------------------------------------------- one step
def _edge(holder: Any, target: object) -> tuple[bool, str]:
    """How `holder` holds `target`, in words; and whether the way ends there."""
    kind = type(holder)
    if kind is dict:
        return _dict_edge(holder, target)
    if kind in (list, tuple) or kind.__name__ == "deque":
        index = next((number for number, each in enumerate(holder) if each is target), -1)
        return False, f"{kind.__name__}[{index}] of {len(holder)}"
    if isinstance(holder, ModuleType):
        return True, f"module {holder.__name__}"
    if isinstance(holder, type):
        name = next((key for key, value in vars(holder).items() if value is target), "")
        held = f"attribute {name} of " if name else _OWN_DICT
        return True, f"{held}class {holder.__qualname__}"
    if isinstance(holder, CellType):
        return False, "a closure"
    if isinstance(holder, FunctionType):
        return (
            False,
            f"function {holder.__qualname__} ({holder.__code__.co_filename}:{holder.__code__.co_firstlineno})",
        )
    if isinstance(holder, (CoroutineType, GeneratorType)):
        return _suspended_edge(holder, target)
    if kind in (set, frozenset):
        return False, f"{kind.__name__} of {len(holder)}"
    text = _instance_edge(holder, target)
    if text == _ACTOR:
        return True, _ACTORS
    return kind.__module__.startswith(_INNER_PARTS), text


def _dict_edge(holder: dict[object, object], target: object) -> tuple[bool, str]:
    key = next((key for key, value in list(holder.items()) if value is target), _MARK)
    module = sys.modules.get(str(holder.get("__name__"))) if "__builtins__" in holder else None
    if "__builtins__" in holder or module is not None:
        name = holder.get("__name__", "?")
        return True, f"variable {key} of module {name}"
    if key is _MARK:
        return False, f"a key of a dict of {len(holder)}"
    shown = repr(key)[:60] if type(key) in (str, int, bytes, float) else f"a key of type {type(key).__name__}"
    return False, f"[{shown}] of a dict of {len(holder)}"


def _suspended_edge(
    holder: CoroutineType[object, None, object] | GeneratorType[object, None, object], target: object
) -> tuple[bool, str]:
    what = "coroutine" if isinstance(holder, CoroutineType) else "generator"
    frame: FrameType | None = holder.cr_frame if isinstance(holder, CoroutineType) else holder.gi_frame
    if frame is None:
        return False, f"{what} {holder.__qualname__}"
    name = next((key for key, value in list(frame.f_locals.items()) if value is target), "?")
    place = f"{holder.__qualname__} ({frame.f_code.co_filename}:{frame.f_lineno})"
    return True, f"variable {name} of the suspended {what} {place}"


def _instance_edge(holder: object, target: object) -> str:
    name = type(holder).__qualname__
    try:
        attributes = object.__getattribute__(holder, "__dict__")
    except AttributeError:
        attributes = {}
    if type(attributes) is dict:
        for key, value in list(attributes.items()):
            if value is target:
                return f"attribute {key} of a {name}"
        if attributes is target:
            return f"{_OWN_DICT}a {name}"
    for base in type(holder).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            member = base.__dict__.get(slot)
            if isinstance(member, MemberDescriptorType) and _slot(member, holder) is target:
                return f"attribute {slot} of a {name}"
    return f"a {name}"


def _slot(member: MemberDescriptorType, holder: object) -> object:
    try:
        return member.__get__(holder)
    except AttributeError:
        return _MARK


# ---------------------------------------------------------------------- arrays
def _arrays_over(
    everything: list[object], exported: dict[str, object]
) -> dict[str, list[tuple[str, str | tuple[object, object]]]]:
    """For each object: arrays over its bytes with what holds them, a variable in words or (value, container)."""
    found: dict[str, list[tuple[str, str | tuple[object, object]]]] = {}
    numpy = loaded("numpy")
    if not exported or numpy is None:
        return found
    names = {id(exporter): name for name, exporter in exported.items()}
    for value, text in _running_variables().values():
        if isinstance(value, numpy.ndarray) and (name := _over(value, names)):
            found.setdefault(name, []).append((_array_text(value), text))
    deadline = time.monotonic() + _LIMIT_S
    for container in everything:
        if time.monotonic() > deadline:
            break
        if type(container) in (ObjectRef, FrameType):
            continue
        for value in _values(container):
            if isinstance(value, numpy.ndarray) and (name := _over(value, names)):
                found.setdefault(name, []).append((_array_text(value), (value, container)))
    return found


def _values(container: object) -> Iterator[object]:
    try:
        yield from gc.get_referents(container)
    except RuntimeError:
        return


def _over(array: object, names: dict[int, str]) -> str:
    """The object over whose bytes an array lies; "" if over none of these."""
    base = array
    for _ in range(_BASES_MAX):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
        if base is None:
            return ""
        if id(base) in names:
            return names[id(base)]
    return ""


def _array_text(array: Any) -> str:
    return f"array of shape {array.shape}, {array.dtype}"
