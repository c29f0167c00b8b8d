"""What a message is: a row with typed fields, and the table by which a program finds the handler of one.

Owns how rows are made and how they travel. A row is a tuple whose first element names its class, so that it is
pickled as a plain tuple and read back by its kind: twice to six times quicker than the pickle of a class, and a
hundred such classes take 0.7 ms to define (as `NamedTuple` 6 ms or more; the start of a session is 90 ms).
Type checkers see frozen dataclasses. Refuses to send or receive anything. Pure; any process, any thread.
"""

from __future__ import annotations

# What a namedtuple's fields are made of: read at the speed of C.
from _collections import _tuplegetter  # type: ignore[import-not-found]
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform, overload

_new = tuple.__new__


def kind_of(name: str) -> str:
    """The kind of a message, as it stands on the wire, from the name of its class.

    >>> kind_of("OpenLane")
    'open_lane'
    """
    # Without `re`: importing it takes longer than defining all rows.
    return "".join([f"_{each.lower()}" if each.isupper() else each for each in name])[1:]


@dataclass_transform(frozen_default=True)
class Row(tuple[Any, ...]):
    """A message: its annotations are its fields, its docstring is its line in docs/protocol.md.

    Args:
        fds: how many descriptors travel with it.
    """

    __slots__ = ()
    kind: ClassVar[str] = ""
    fields: ClassVar[tuple[str, ...]] = ()
    defaults: ClassVar[dict[str, object]] = {}
    fds: ClassVar[int] = 0

    def __init_subclass__(cls, fds: int = 0) -> None:
        cls.kind = kind_of(cls.__name__)
        cls.fields = tuple(cls.__dict__.get("__annotations__", ()))  # noqa: RUF063 (inspect takes long to import)
        cls.defaults = {name: cls.__dict__[name] for name in cls.fields if name in cls.__dict__}
        cls.fds = fds
        for place, name in enumerate(cls.fields, 1):
            setattr(cls, name, _tuplegetter(place, ""))

    if not TYPE_CHECKING:

        def __new__(cls, *values: object, **named: object) -> object:
            if len(values) != len(cls.fields) or named:
                values = _complete(cls, values, named)
            return _new(cls, (cls.kind, *values))

    def __repr__(self) -> str:
        pairs = zip(self.fields, self[1:], strict=True)
        return f"{type(self).__name__}({', '.join([f'{name}={value!r}' for name, value in pairs])})"


def _complete(cls: type[Row], values: tuple[object, ...], named: dict[str, object]) -> tuple[object, ...]:
    """All values of a row of which some are named, or left to their defaults."""
    missing = cls.fields[len(values) :]
    rest = {name: cls.defaults[name] for name in missing if name in cls.defaults} | named
    if len(values) > len(cls.fields) or len(rest) != len(missing) or not rest.keys() <= set(missing):
        raise TypeError(f"{cls.__name__} has the fields {', '.join(cls.fields) or 'none'}.")
    return values + tuple([rest[name] for name in missing])


R = TypeVar("R", bound=Row)
S = TypeVar("S")


class Malformed(ValueError):
    """A message has another number of fields than this version of sundog knows."""


def read(cls: type[R], message: tuple[object, ...]) -> R:
    """A message that has arrived, as its row.

    Raises:
        Malformed: it has other fields.
    """
    if len(message) != len(cls.fields) + 1:
        raise Malformed(f"The message {message[0]!r} has {len(message) - 1} fields, not {len(cls.fields)}.")
    return _new(cls, message)


class Table:
    """The messages that a program handles: one literal list of `on(row, handler)`.

    A handler is called with the sender, if the program names one, the row, and the descriptors that came along.
    """

    __slots__ = ("_by_kind", "bereft")

    def __init__(self, *routes: Route) -> None:
        # Called with the sender, if the program names one, and a message that came without its descriptors: this
        # process had none free, and the kernel has closed them.
        self.bereft: Callable[..., None] | None = None
        self._by_kind = {row.kind: (row, handler) for row, handler in routes}
        if len(self._by_kind) != len(routes):
            raise ValueError("One table has two entries for the same message.")

    def __contains__(self, row: type[Row]) -> bool:
        return row.kind in self._by_kind

    def joined(self, other: Table) -> Table:
        """A table with the messages of both.

        Raises:
            ValueError: both handle the same message.
        """
        made = Table(*self._by_kind.values(), *other._by_kind.values())
        made.bereft = self.bereft or other.bereft
        return made

    def handle(
        self, message: tuple[Any, ...], *sender: object, fds: tuple[int, ...] | list[int] = ()
    ) -> bool:
        """Call the handler of a message that has arrived; False if there is none.

        Raises:
            Malformed: the message has other fields than its row, or lacks its descriptors and there is no `bereft`.
        """
        found = self._by_kind.get(message[0])
        if found is None:
            return False
        row, handler = found
        if len(fds) < row.fds:
            if self.bereft is None:
                raise Malformed(f"The message {message[0]!r} has lost its descriptor: none was free here.")
            self.bereft(*sender, read(row, message))
            return True
        handler(*sender, read(row, message), *fds)
        return True


Route = tuple[type[Row], Callable[..., None]]


@overload
def on(row: type[R], handler: Callable[[R], None]) -> Route: ...
@overload
def on(row: type[R], handler: Callable[[R, int], None]) -> Route: ...
@overload
def on(row: type[R], handler: Callable[[S, R], None]) -> Route: ...
@overload
def on(row: type[R], handler: Callable[[S, R, int], None]) -> Route: ...
def on(row: type[R], handler: Callable[..., None]) -> Route:
    """One line of a `Table`; type checkers hold the handler against the row."""
    return row, handler
