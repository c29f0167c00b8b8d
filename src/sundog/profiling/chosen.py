"""Functions chosen by their names, among those that a remote function can reach.

Owns the search: what a function names in its code, in its globals and in what it captured, and what those functions
name in turn; modules are looked into only for names that the code has. A name is a function's own (`clean`), a
method's (`Model.step`), or with its module (`tools.clean`). Pure: nothing is called or imported.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Collection, Iterator
from types import CodeType, FunctionType, ModuleType

_MOST = 2000


def find(function: object, names: Collection[str], receiver: object = None) -> list[FunctionType]:
    """The functions of these names that a function can reach, itself included.

    Args:
        function: where to begin.
        names: which.
        receiver: the actor, if it is a method.
    """
    return [each for each in _reached(function, receiver) if is_named(each, names)]


def is_named(function: FunctionType, names: Collection[str]) -> bool:
    """Whether a function has one of these names."""
    own = function.__qualname__.rpartition("<locals>.")[2]
    return not {own, function.__name__, f"{function.__module__}.{own}"}.isdisjoint(names)


def _reached(function: object, receiver: object) -> Iterator[FunctionType]:
    todo: deque[object] = deque([function])
    if receiver is not None:
        todo.append(type(receiver))
    seen: set[int] = set()
    while todo and len(seen) < _MOST:
        each = _plain(todo.popleft())
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, type):
            todo.extend(vars(each).values())
            continue
        yield each
        todo.extend(_named_in(each))


def _plain(value: object) -> FunctionType | type | None:
    """The Python function or class that a value is or wraps; None if it is none."""
    if isinstance(value, property):
        value = value.fget
    value = getattr(value, "__func__", value)
    if isinstance(value, FunctionType):
        value = inspect.unwrap(value)
    return value if isinstance(value, FunctionType | type) and value.__module__ != "builtins" else None


def _named_in(function: FunctionType) -> Iterator[object]:
    names = _names(function.__code__)
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            yield from (vars(value)[each] for each in names if each in vars(value))
        elif value is not None:
            yield value
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue  # not set yet


def _names(code: CodeType) -> set[str]:
    found = set(code.co_names)
    for each in code.co_consts:
        if isinstance(each, CodeType):
            found |= _names(each)
    return found
