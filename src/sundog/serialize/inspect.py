"""Finding the member that keeps a value from being pickled, and saying what to do about it.

Owns: the search through a value's members, and the text of the error. Refuses: pickling for real; every
attempt here is thrown away, and refs met on the way are neither counted nor pinned. Runs on the thread that
tried to send the value, only after that failed, so it may be slow, but not without limit: depth, members and
seconds are bounded, and what is found by then is reported. ::

    value that fails ──► its members that fail ──► theirs ──► ... ──► one that fails though no member does
"""

from __future__ import annotations

import dis
import functools
import sys
import time
import types
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TextIO

from sundog.refs import collectors

__all__ = ["FailureTuple", "explain", "inspect_serializability"]

_DEPTH_MAX = 30  # members of members; deeper than any structure a person wrote
_SEARCH_MAX_S = 3.0  # processor time of this thread: time in which the thread did not run does not count
_MEMBERS_MAX = 100_000  # of one value
_ONE_BY_ONE_MAX = 64  # with more members, one culprit is found by bisection instead of all by trying each
_CULPRITS_MAX = 8
_CLASS_INTERNALS = frozenset({"__dict__", "__weakref__", "_abc_impl", "__doc__", "__module__"})


class FailureTuple:
    """One member that cannot be pickled.

    Attributes:
        obj: the member.
        path: the names that lead to it from the value that was inspected.
        parent: what holds it; None if it is the value itself.
    """

    def __init__(self, obj: object, path: tuple[str, ...], parent: object) -> None:
        self.obj = obj
        self.path = path
        self.parent = parent

    @property
    def name(self) -> str:
        """The last name of the path."""
        return self.path[-1] if self.path else "unknown"

    def __repr__(self) -> str:
        return f"FailureTuple({' -> '.join(self.path) or 'unknown'}: {_show(self.obj)})"


@dataclass(frozen=True, slots=True, eq=False)
class _Member:
    """A value on the way to a culprit, and how to name it."""

    value: Any
    label: str  # one step: lock, [2], ['key']
    expression: str  # the whole way in Python: args[2].config['lock']
    origin: str = ""  # which closure or global of which function it came from, if any
    holder: _Member | None = None
    depth: int = 0

    def inside(self, value: object, label: str, suffix: str) -> _Member:
        return _Member(value, label, self.expression + suffix, self.origin, self, self.depth + 1)

    def captured(self, value: object, name: str, origin: str) -> _Member:
        way = f" (reached through {self.expression})" if self.holder is not None else ""
        return _Member(value, name, name, origin + way, self, self.depth + 1)

    def labels(self) -> tuple[str, ...]:
        own = (self.label,) if self.label else ()
        return own if self.holder is None else self.holder.labels() + own

    def describe(self) -> str:
        if not self.origin:
            return self.expression
        captive = self.origin.partition("`")[2].partition("`")[0]
        return self.origin if captive == self.expression else f"`{self.expression}`, inside {self.origin}"


@dataclass(slots=True)
class _Search:
    """A breadth-first search, so that the culprit nearest to the surface is named first."""

    depth_max: int
    deadline: float = field(default_factory=lambda: time.thread_time() + _SEARCH_MAX_S)
    culprits: list[tuple[_Member, BaseException]] = field(default_factory=list)

    def run(self, root: _Member, error: BaseException) -> None:
        queue: deque[tuple[_Member, BaseException]] = deque([(root, error)])
        # Ids stay unique because `queue` and the holders keep every value that is listed here alive.
        seen, alive = {id(root.value)}, [root]
        while queue and len(self.culprits) < _CULPRITS_MAX:
            member, trouble = queue.popleft()
            inner = self.failing(member) if member.depth < self.depth_max else []
            if not inner:
                self.culprits.append((member, trouble))
            for found in inner:
                # A member that was seen before, as in a cycle, is searched only once.
                if id(found[0].value) not in seen:
                    seen.add(id(found[0].value))
                    alive.append(found[0])
                    queue.append(found)

    def failing(self, member: _Member) -> list[tuple[_Member, Exception]]:
        members = list(islice(_members(member), _MEMBERS_MAX))
        while len(members) > _ONE_BY_ONE_MAX and not self.expired():
            half = members[: len(members) // 2]
            members = half if _attempt([m.value for m in half]) else members[len(half) :]
        found = []
        for candidate in members:
            if self.expired():
                break
            if (trouble := _attempt(candidate.value)) is not None:
                found.append((candidate, trouble))
        return found

    def expired(self) -> bool:
        return time.thread_time() > self.deadline


def _attempt(value: object) -> Exception | None:
    """Why `value` cannot be pickled; None if it can."""
    import cloudpickle  # late: this module is imported by programs that never fail

    try:
        with _uncounted_refs():
            cloudpickle.dumps(value)
    except Exception as trouble:  # reducers are user code and may raise anything
        return trouble
    return None


@contextmanager
def _uncounted_refs() -> Iterator[None]:
    outer = collectors.sent
    collectors.sent = []
    try:
        yield
    finally:
        collectors.sent = outer


def _members(member: _Member) -> Iterator[_Member]:
    """What pickle would go on to pickle inside of a value."""
    value = member.value
    if isinstance(value, types.FunctionType):
        yield from _function_members(member, value)
    elif isinstance(value, types.MethodType):
        yield member.inside(value.__self__, "__self__", ".__self__")
        yield member.inside(value.__func__, "__func__", ".__func__")
    elif isinstance(value, functools.partial):
        for name in ("func", "args", "keywords"):
            yield member.inside(getattr(value, name), name, f".{name}")
    elif isinstance(value, property):
        for name in ("fget", "fset", "fdel"):
            yield member.inside(getattr(value, name), name, f".{name}")
    elif isinstance(value, (staticmethod, classmethod)):
        yield member.inside(value.__func__, "__func__", "")
    elif isinstance(value, type):
        for name, attribute in list(vars(value).items()):
            if name not in _CLASS_INTERNALS:
                yield member.inside(attribute, name, f".{name}")
    elif type(value) in (list, tuple, deque):
        for position, item in enumerate(value):
            yield member.inside(item, f"[{position}]", f"[{position}]")
    elif type(value) in (set, frozenset):
        for item in value:
            yield member.inside(item, "element", f".<element {_show(item)}>")
    elif type(value) is dict:
        yield from _dict_members(member, value.items())
    else:
        yield from _object_members(member)


def _dict_members(member: _Member, items: Iterable[tuple[object, object]]) -> Iterator[_Member]:
    for key, item in items:
        shown = _show(key)
        yield member.inside(item, f"[{shown}]", f"[{shown}]")
        yield member.inside(key, f"key {shown}", f".<key {shown}>")


def _function_members(member: _Member, function: types.FunctionType) -> Iterator[_Member]:
    name, code = function.__qualname__.rpartition("<locals>.")[2], function.__code__
    uses = _lines_of_use(code)
    for variable, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:
            continue  # not assigned yet
        where = f"{code.co_filename}:{uses.get(variable, code.co_firstlineno)}"
        origin = f"closure variable `{variable}` of function {name}, captured at {where}"
        yield member.captured(value, variable, origin)
    for variable, line in uses.items():
        if variable in function.__globals__ and variable not in code.co_freevars:
            origin = f"global `{variable}`, used by function {name} at {code.co_filename}:{line}"
            yield member.captured(function.__globals__[variable], variable, origin)
    arguments = code.co_varnames[: code.co_argcount]
    defaults = dict(zip(arguments[::-1], (function.__defaults__ or ())[::-1], strict=False))
    for variable, value in (defaults | (function.__kwdefaults__ or {})).items():
        where = f"{code.co_filename}:{code.co_firstlineno}"
        yield member.captured(
            value, variable, f"default of argument `{variable}` of function {name}, at {where}"
        )
    for attribute, value in function.__dict__.items():
        yield member.inside(value, attribute, f".{attribute}")


def _lines_of_use(code: types.CodeType) -> dict[str, int]:
    """The line on which a function, or one inside of it, first reads each global or closure variable."""
    lines: dict[str, int] = {}
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_NAME"):
            line = instruction.positions.lineno if instruction.positions else None
            lines.setdefault(instruction.argval, line or code.co_firstlineno)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            for name, line in _lines_of_use(constant).items():
                lines.setdefault(name, line)
    return lines


def _object_members(member: _Member) -> Iterator[_Member]:
    """The parts into which an object's ``__reduce_ex__`` takes it, so that ``__getstate__`` is honoured."""
    try:
        with _uncounted_refs():
            parts = member.value.__reduce_ex__(4)
    except Exception:
        return  # the value refuses pickling itself: it is the culprit, and not one of its members
    if not isinstance(parts, tuple):
        return
    args, state, items, pairs = (*parts[1:5], None, None, None)[:4]
    for position, item in enumerate(args or ()):
        if not isinstance(item, type):
            yield member.inside(item, f"argument {position}", f".<constructor argument {position}>")
    for attributes in state if type(state) is tuple and len(state) == 2 else (state,):
        if isinstance(attributes, dict):
            for name, value in attributes.items():
                yield member.inside(value, str(name), f".{name}")
        elif attributes is not None:
            yield member.inside(attributes, "state", ".__getstate__()")
    for position, item in enumerate(items or ()):
        yield member.inside(item, f"[{position}]", f"[{position}]")
    yield from _dict_members(member, pairs or ())


def inspect_serializability(
    base_obj: object, name: str | None = None, depth: int = 3, print_file: TextIO | None = None
) -> tuple[bool, set[FailureTuple]]:
    """Find out whether a value can be sent to a task, and if not, which of its members are to blame.

    Args:
        base_obj: the value, function or class.
        name: what to call it in the report.
        depth: how many members of members to look into.
        print_file: where the report goes; standard output if left out.

    Returns:
        Whether it can be pickled, and the members that cannot.

    >>> inspect_serializability([1, 2], name="numbers")
    numbers can be pickled.
    (True, set())
    """
    out = print_file or sys.stdout
    shown = name or _show(base_obj)
    error = _attempt(base_obj)
    if error is None:
        print(f"{shown} can be pickled.", file=out)
        return True, set()
    search = _Search(depth_max=depth)
    search.run(_Member(base_obj, name or "", name or "value"), error)
    print(f"{shown} cannot be pickled: {error}", file=out)
    for member, trouble in search.culprits:
        print(
            f"  {member.describe()} is {_kind(member.value)}: {trouble}\n    {_advice(member.value)}",
            file=out,
        )
    return False, {
        FailureTuple(member.value, member.labels(), member.holder.value if member.holder else None)
        for member, _ in search.culprits
    }


def explain(obj: object, error: BaseException, *, what: str, root: str | None = None) -> str:
    """The message for a value that could not be pickled: the member at fault, why, and what to do.

    Args:
        obj: what was to be pickled.
        error: what pickling it raised.
        what: what it is to the user: "argument of train()", "result of task 3f…", "args".
        root: the name its members are shown under; `what` if that is a name, else "value".

    >>> import _thread
    >>> print(explain([0, {"lock": _thread.allocate_lock()}], TypeError("no"), what="args").splitlines()[0])
    Cannot pickle args: args[1]['lock'] is a _thread.lock (cannot pickle '_thread.lock' object).
    """
    root = root or (what if what.isidentifier() else "value")
    if isinstance(obj, types.FunctionType):
        root = f"function {obj.__name__}"
    headline = f"Cannot pickle {what}, {_kind(obj)}: {error}"
    if isinstance(error, RecursionError) or "recursion" in str(error):
        return f"{headline}\nIt is nested too deeply: send it in a flatter form, such as a list of its nodes."
    search = _Search(depth_max=_DEPTH_MAX)
    try:
        search.run(_Member(obj, "", root), error)
    except Exception as failure:  # user code runs in this search; the original error is the one to report
        return f"{headline} (the search for the member at fault ended with {failure!r})"
    if not search.culprits:
        return f"{headline}\nEach of its members can be pickled by itself; the whole cannot."
    (culprit, reason), *others = search.culprits
    lines = [f"Cannot pickle {what}: {culprit.describe()} is {_kind(culprit.value)} ({reason})."]
    if search.expired():
        lines.append(f"The search ended after {_SEARCH_MAX_S} s: the cause may be a member of it.")
    lines.append(_advice(culprit.value))
    lines += [f"Nor can {member.describe()} be pickled, {_kind(member.value)}." for member, _ in others[:3]]
    lines.append("To look closer: sundog.util.inspect_serializability(value, depth=10)")
    return "\n".join(lines)


_PER_PROCESS = (
    "It belongs to this process. Create it inside the task, or keep it in an actor that tasks call."
)
_ADVICE: dict[str, str] = {
    "_thread": _PER_PROCESS,
    "threading": _PER_PROCESS,
    "multiprocessing": _PER_PROCESS,
    "asyncio": _PER_PROCESS,
    "concurrent": _PER_PROCESS,
    "_io": "An open file belongs to this process. Send its path, and open it inside the task.",
    "socket": "A connection belongs to this process. Send its address, and connect inside the task.",
    "ssl": "A connection belongs to this process. Send its address, and connect inside the task.",
    "sqlite3": "A connection belongs to this process. Send the database's path, and connect inside the task.",
    "weakref": "A weak reference means nothing in another process. Send what it refers to.",
}


def _advice(value: object) -> str:
    kind = type(value)
    if isinstance(value, (types.GeneratorType, types.AsyncGeneratorType)):
        return "A generator cannot leave its process. Send list(...) of it, or make it inside the task."
    if isinstance(value, types.CoroutineType):
        return "A coroutine cannot leave its process. Await it first, and send its result."
    if isinstance(value, (types.TracebackType, types.FrameType)):
        return "Stack frames cannot leave their process. Send traceback.format_exc() instead."
    known = _ADVICE.get(kind.__module__.partition(".")[0])
    return known or (
        f"Create it inside the task, leave it out in __getstate__ of what holds it, or say how to send it: "
        f"sundog.util.register_serializer({kind.__name__}, serializer=..., deserializer=...)."
    )


def _kind(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _show(value: object) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__qualname__}>"
    return text if len(text) <= 60 else text[:57] + "..."
