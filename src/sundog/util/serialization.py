"""Custom serializers for classes that pickle cannot handle: Ray's module path for them.

The registry belongs to the runtime's serializer (`sundog.serialize.pack`); nothing is kept here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sundog.serialize import pack

T = TypeVar("T")
State = TypeVar("State")


def register_serializer(
    cls: type[T], *, serializer: Callable[[T], State], deserializer: Callable[[State], object]
) -> None:
    """Serialize instances of `cls` with a function of yours, in this process.

    Args:
        cls: The exact class.
        serializer: Instance to something picklable.
        deserializer: The reverse; travels with the data, so the reader need not register anything.
    """
    pack.register_serializer(cls, serializer=serializer, deserializer=deserializer)


def deregister_serializer(cls: type) -> None:
    """Forget the serializer of `cls`; a class that has none is no error."""
    pack.deregister_serializer(cls)
