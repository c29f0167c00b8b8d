"""Plain rows: classes made of their annotations, quick to define.

Owns one decorator and what goes with it. A frozen dataclass with slots takes the interpreter a millisecond to
build, most of it for methods compiled class by class, and the module `dataclasses` itself imports a dozen
others; the eighty classes that a session loads were a third of its start. Here ``__repr__``, ``__eq__`` and
``__hash__`` are one function each for all classes, and an ``__init__`` is compiled when the first row is made.
Type checkers see an ordinary dataclass, a frozen one if so declared; at run time nothing stops an assignment to
a frozen row, unless its class has a ``__setattr__`` of its own.

Owns `NamedTuple` too, which is that of `typing` to a type checker and does at run time what the code asks of one:
`typing`'s takes 180 µs to define, for its ``__new__`` is compiled at once, and a session loads thirty. Runs in any
process, any thread.
"""

from __future__ import annotations

# What a namedtuple's fields are made of: read at the speed of C.
from _collections import _tuplegetter  # type: ignore[import-not-found]
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform, overload

_Class = TypeVar("_Class", bound=type)
_Row = TypeVar("_Row")
Value = TypeVar("Value")
_NONE: Mapping[str, object] = {}
_FIELDS = "__plain_fields__"  # the attribute of a class that has its fields by their names

# Any is right in these three, and needed only here: the fields are named in a file, a page or a query, where
# Python's types cannot follow.
JsonObject = dict[str, Any]  # an object of JSON, or a row of the state API that becomes one
JsonMapping = Mapping[str, Any]  # the same, only read
SqlRow = tuple[Any, ...]  # a row that a query of SQLite found, or that is to be inserted


class _Missing:
    """No default."""

    def __repr__(self) -> str:
        return "<no default>"


MISSING = _Missing()


class Field:
    """One field of a row."""

    __slots__ = ("default", "factory", "metadata", "name", "type")

    def __init__(self, default: object, factory: object, metadata: Mapping[str, Any]) -> None:
        self.default = default
        self.factory = factory
        self.metadata = metadata
        self.name = self.type = ""


@overload
def field(*, default: Value, metadata: Mapping[str, object] = _NONE) -> Value: ...
@overload
def field(*, default_factory: Callable[[], Value], metadata: Mapping[str, object] = _NONE) -> Value: ...
def field(
    *, default: object = MISSING, default_factory: object = MISSING, metadata: Mapping[str, object] = _NONE
) -> object:
    """A field whose default is made for each row, or which carries facts about itself."""
    return Field(default, default_factory, metadata)


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

    def decorate(cls: Any) -> Any:
        inherited: dict[str, Field] = {}
        for base in reversed(cls.__mro__[1:]):
            inherited |= base.__dict__.get("__plain_fields__", {})
        own = _own_fields(cls)
        made: Any = _with_slots(cls, [name for name in own if name not in inherited]) if slots else cls
        made.__plain_fields__ = inherited | own
        if not kw_only:
            made.__match_args__ = tuple(made.__plain_fields__)  # type: ignore[misc]
        made.__init__ = _first_init(made, kw_only)
        if "__repr__" not in cls.__dict__:
            made.__repr__ = _repr
        if eq:
            made.__eq__ = _eq
            made.__hash__ = _hash if frozen else None
        return made

    return decorate


def fields(row: object) -> list[Field]:
    """The fields of a row or of a class of rows, in order."""
    return list(getattr(row, _FIELDS).values())


def as_dict(row: object) -> dict[str, Any]:
    """The values of a row by the names of its fields."""
    return {name: getattr(row, name) for name in getattr(row, _FIELDS)}


def replaced(row: _Row, **changes: object) -> _Row:
    """A copy of a row with some values changed."""
    return type(row)(**{**as_dict(row), **changes})


def _own_fields(cls: type) -> dict[str, Field]:
    found: dict[str, Field] = {}
    for name, kind in cls.__dict__.get("__annotations__", {}).items():  # noqa: RUF063 (inspect is slow to import)
        if str(kind).startswith("ClassVar"):
            continue
        given = cls.__dict__.get(name, MISSING)
        each = found[name] = given if isinstance(given, Field) else Field(given, MISSING, _NONE)
        each.name, each.type = name, kind
        if given is not MISSING:
            if each.default is MISSING:
                delattr(cls, name)  # remove the class attribute: each value is created for its row
            else:
                setattr(cls, name, each.default)
    return found


def _with_slots(cls: type, names: list[str]) -> type:
    members = {name: each for name, each in cls.__dict__.items() if name not in names}
    members.pop("__dict__", None)
    members.pop("__weakref__", None)
    members["__slots__"] = tuple(names)
    made = type(cls)(cls.__name__, cls.__bases__, members)
    made.__qualname__ = cls.__qualname__
    return made


def _first_init(cls: type, kw_only: bool) -> Callable[..., None]:
    """An `__init__` that replaces itself by the one that it compiles."""

    def __init__(self: object, *args: object, **kwargs: object) -> None:
        made = _compiled_init(cls, kw_only)
        type.__setattr__(cls, "__init__", made)
        made(self, *args, **kwargs)

    return __init__


def _compiled_init(cls: type, kw_only: bool) -> FunctionType:
    names: dict[str, object] = {"MISSING": MISSING, "set_": object.__setattr__}
    parameters = ["self", *(["*"] if kw_only else [])]
    frozen = cls.__setattr__ is not vars(object)["__setattr__"]
    body = []
    for name, each in getattr(cls, _FIELDS).items():
        value = name
        if each.factory is not MISSING:
            names[f"make_{name}"] = each.factory
            parameters.append(f"{name}=MISSING")
            value = f"make_{name}() if {name} is MISSING else {name}"
        elif each.default is not MISSING:
            names[f"default_{name}"] = each.default
            parameters.append(f"{name}=default_{name}")
        else:
            parameters.append(name)
        body.append(f"set_(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    text = f"def __init__({', '.join(parameters)}):\n    " + ("\n    ".join(body) or "pass")
    exec(text, names)
    init = names["__init__"]
    assert isinstance(init, FunctionType)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    return init


def _values(row: object) -> tuple[object, ...]:
    return tuple([getattr(row, name) for name in getattr(row, _FIELDS)])


def _repr(self: object) -> str:
    pairs = zip(getattr(self, _FIELDS), _values(self), strict=True)
    return f"{type(self).__qualname__}({', '.join([f'{name}={value!r}' for name, value in pairs])})"


def _eq(self: object, other: object) -> object:
    if type(other) is not type(self):
        return NotImplemented
    return _values(self) == _values(other)


def _hash(self: object) -> int:
    return hash(_values(self))


# ---------------------------------------------------------------------- named tuples
if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:

    class _Named(type):
        """Makes the classes of named tuples."""

        def __new__(meta, name: str, bases: tuple[type, ...], members: dict[str, object]) -> type:
            if bases == (tuple,) or NamedTuple not in bases:
                return super().__new__(
                    meta, name, bases, members
                )  # NamedTuple itself, or a class below one of ours
            names = tuple(members.get("__annotations__", ()))
            defaults = {each: members[each] for each in names if each in members}
            if tuple(defaults) != names[len(names) - len(defaults) :]:
                raise TypeError(f"{name} has a field without a default after one with a default.")
            members |= {each: _tuplegetter(place, "") for place, each in enumerate(names)}
            members |= {
                "__slots__": (),
                "_fields": names,
                "__match_args__": names,
                "_field_defaults": defaults,
            }
            made = super().__new__(meta, name, bases, members)
            made.__new__ = _first_new(made, names, defaults)
            return made

    class NamedTuple(tuple, metaclass=_Named):
        """A tuple whose fields have the names and the defaults that a class below it annotates.

        >>> class Point(NamedTuple):
        ...     x: int
        ...     y: int = 0
        >>> Point(1), Point(1)._replace(y=2) == (1, 2)
        (Point(x=1, y=0), True)
        """

        __slots__ = ()
        _fields = ()
        _field_defaults = _NONE

        @classmethod
        def _make(cls, values: object) -> object:
            return cls(*values)

        def _replace(self, **changes: object) -> object:
            return type(self)(**{**self._asdict(), **changes})

        def _asdict(self) -> dict[str, object]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            pairs = zip(self._fields, self, strict=True)
            return f"{type(self).__name__}({', '.join([f'{name}={value!r}' for name, value in pairs])})"

        def __getnewargs__(self) -> tuple[object, ...]:
            return tuple(self)


def _first_new(cls: type, fields_: tuple[str, ...], defaults: Mapping[str, object]) -> Callable[..., object]:
    """A `__new__` that replaces itself by the one that it compiles."""

    def __new__(made_cls: type, *args: object, **kwargs: object) -> object:
        made = _compiled_new(cls, fields_, defaults)
        cls.__new__ = made  # type: ignore[method-assign]
        return made(made_cls, *args, **kwargs)

    return __new__


def _compiled_new(cls: type, fields_: tuple[str, ...], defaults: Mapping[str, object]) -> FunctionType:
    names: dict[str, object] = {"_new": tuple.__new__}
    parameters = ["_cls"]
    for name in fields_:
        if name in defaults:
            names[f"default_{name}"] = defaults[name]
            parameters.append(f"{name}=default_{name}")
        else:
            parameters.append(name)
    values = "".join([f"{name}, " for name in fields_])
    text = f"def __new__({', '.join(parameters)}):\n    return _new(_cls, ({values}))"
    exec(text, names)
    made = names["__new__"]
    assert isinstance(made, FunctionType)
    made.__qualname__ = f"{cls.__qualname__}.__new__"
    made.__module__ = cls.__module__
    return made
