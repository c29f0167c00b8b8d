"""Ids as users see them: small immutable objects with `.hex()` and `.binary()`.

Sizes are Ray's: a program may make ids of its own, compare them, and take them apart. Those that sundog itself makes of
tasks, nodes, processes and placement groups are shorter (`ids.py`), and as good. Runs in any process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import builtins
    from typing import Self


class BaseID:
    """An id; equal to another of its class with the same bytes."""

    __slots__ = ("_id",)
    SIZE = 28
    OURS = 16

    def __init__(self, binary: bytes) -> None:
        if not isinstance(binary, (bytes, bytearray)):
            raise TypeError(
                f"An id is made of bytes, not of {type(binary).__name__}; use from_hex() for text."
            )
        if len(binary) not in (self.SIZE, self.OURS):
            raise ValueError(
                f"{type(self).__name__}: an id needs to have length {self.SIZE} (or {self.OURS}, as "
                "sundog's own ids have), "
                f"but this one has length {len(binary)}."
            )
        self._id = bytes(binary)

    @classmethod
    def from_hex(cls, hex_id: str) -> Self:
        """The id that `hex()` gave."""
        return cls(bytes.fromhex(hex_id))

    @classmethod
    def from_binary(cls, id_bytes: bytes) -> Self:
        """The id that `binary()` gave."""
        return cls(id_bytes)

    @classmethod
    def from_random(cls) -> Self:
        """A random id."""
        from sundog.ids import random_id

        return cls(random_id(cls.SIZE))

    @classmethod
    def nil(cls) -> Self:
        """The id of nothing."""
        return cls(b"\xff" * cls.SIZE)

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
        return self._id == b"\xff" * len(self._id)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._id == other._id

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._id))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._id.hex()})"

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._id,))


class JobID(BaseID):
    """A job."""

    __slots__ = ()
    SIZE = OURS = 4

    @classmethod
    def from_int(cls, value: int) -> JobID:
        """The id of job `value`."""
        return cls(value.to_bytes(cls.SIZE, "little"))

    def int(self) -> builtins.int:
        """The number of the job."""
        return int.from_bytes(self._id, "little")


class TaskID(BaseID):
    """A task."""

    __slots__ = ()
    SIZE = 24

    def job_id(self) -> JobID:
        """The job that it belongs to."""
        return JobID(self._id[-JobID.SIZE :])

    def actor_id(self) -> ActorID:
        """The actor that ran it, which only an id of Ray's length says."""
        return ActorID(self._id[-ActorID.SIZE :]) if len(self._id) == self.SIZE else ActorID.nil()


class ActorID(BaseID):
    """An actor."""

    __slots__ = ()
    SIZE = 16

    @property
    def job_id(self) -> JobID:
        """The job that created it."""
        return JobID(self._id[-JobID.SIZE :])


class NodeID(BaseID):
    """A node."""

    __slots__ = ()


class WorkerID(BaseID):
    """A process."""

    __slots__ = ()
    OURS = 8


class ClusterID(BaseID):
    """A session."""

    __slots__ = ()


class PlacementGroupID(BaseID):
    """A placement group."""

    __slots__ = ()
    SIZE = 18


class UniqueID(BaseID):
    """Any other id."""

    __slots__ = ()


class FunctionID(BaseID):
    """A remote function."""

    __slots__ = ()


class ActorClassID(BaseID):
    """An actor class."""

    __slots__ = ()
