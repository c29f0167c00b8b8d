"""Ids as users see them: small immutable objects with `.hex()` and `.binary()`."""

from __future__ import annotations

from typing import Any


class BaseID:
    """An id; equal to another of its class with the same bytes."""

    __slots__ = ("_id",)
    SIZE = 16

    def __init__(self, binary: bytes) -> None:
        if not isinstance(binary, (bytes, bytearray)):
            raise TypeError(
                f"An id is made of bytes, not of {type(binary).__name__}; use from_hex() for text."
            )
        self._id = bytes(binary)

    @classmethod
    def from_hex(cls, hex_id: str) -> Any:
        """The id that `hex()` gave."""
        return cls(bytes.fromhex(hex_id))

    @classmethod
    def from_binary(cls, id_bytes: bytes) -> Any:
        """The id that `binary()` gave."""
        return cls(id_bytes)

    @classmethod
    def from_random(cls) -> Any:
        """A random id."""
        from sundog.ids import random_id

        return cls(random_id(cls.SIZE))

    @classmethod
    def nil(cls) -> Any:
        """The id of nothing."""
        return cls(bytes(cls.SIZE))

    @classmethod
    def size(cls) -> int:
        """Bytes in an id of this kind."""
        return cls.SIZE

    def binary(self) -> bytes:
        """The bytes."""
        return self._id

    def hex(self) -> str:
        """The bytes in hexadecimal."""
        return self._id.hex()

    def is_nil(self) -> bool:
        """Whether it names nothing."""
        return not any(self._id)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._id == other._id

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._id))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._id.hex()})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._id,))


class JobID(BaseID):
    """A job."""

    __slots__ = ()
    SIZE = 4

    @classmethod
    def from_int(cls, value: int) -> JobID:
        """The id of job `value`."""
        return cls(value.to_bytes(cls.SIZE, "little"))

    def int(self) -> Any:
        """The number of the job."""
        return int.from_bytes(self._id, "little")


class TaskID(BaseID):
    """A task."""

    __slots__ = ()


class ActorID(BaseID):
    """An actor."""

    __slots__ = ()


class NodeID(BaseID):
    """A node."""

    __slots__ = ()


class WorkerID(BaseID):
    """A process."""

    __slots__ = ()
    SIZE = 8


class PlacementGroupID(BaseID):
    """A placement group."""

    __slots__ = ()


class UniqueID(BaseID):
    """Any other id."""

    __slots__ = ()


class FunctionID(BaseID):
    """A remote function."""

    __slots__ = ()


class ActorClassID(BaseID):
    """An actor class."""

    __slots__ = ()
