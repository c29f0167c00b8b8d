"""Plain rows: dataclasses that are quick to define.

Owns one decorator. A frozen dataclass with slots takes the interpreter a millisecond to build, most of it for
methods compiled class by class; the forty of them that a session loads were a third of its start. Here
``__repr__``, ``__eq__`` and ``__hash__`` are one function each for all classes, and only ``__init__`` is
compiled. Type checkers see an ordinary dataclass, a frozen one if so declared; at run time nothing stops an
assignment to a frozen row. Any process, any thread; no state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

_Class = TypeVar("_Class", bound=type)


@dataclass_transform(field_specifiers=(field,))
def plain(
    *, frozen: bool = False, eq: bool = True, slots: bool = True, kw_only: bool = False
) -> Callable[[_Class], _Class]:
    """A class decorator: fields from annotations, as `dataclasses.dataclass` takes them.

    >>> @plain(frozen=True)
    ... class Point:
    ...     '''A place.'''
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1, 0) == Point(1)
    (Point(x=1, y=0), True)
    """

    def decorate(cls: _Class) -> _Class:
        made: Any = dataclass(repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
        if "__repr__" not in cls.__dict__:
            made.__repr__ = _repr
        if eq:
            made.__eq__ = _eq
            made.__hash__ = _hash if frozen else None
        return made  # type: ignore[no-any-return]

    return decorate


def _values(row: Any) -> tuple[object, ...]:
    return tuple([getattr(row, name) for name in row.__dataclass_fields__])


def _repr(self: Any) -> str:
    fields = zip(self.__dataclass_fields__, _values(self), strict=True)
    return f"{type(self).__qualname__}({', '.join([f'{name}={value!r}' for name, value in fields])})"


def _eq(self: object, other: object) -> object:
    if type(other) is not type(self):
        return NotImplemented
    return _values(self) == _values(other)


def _hash(self: object) -> int:
    return hash(_values(self))
