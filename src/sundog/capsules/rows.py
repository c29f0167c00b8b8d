"""What a capsule is: a header that is safe to read, and contents that run code when they are opened.

::

    "sundog capsule 1\\n" | length of the header (8 bytes) | header (JSON) | contents (pickle)

Owns the file format. `read_header` runs nothing; `read_contents` unpickles, which may run anything: ask first. Any
process.
"""

from __future__ import annotations

import json
import os
import pickle
import re
from typing import TYPE_CHECKING, Any, TypedDict

from sundog.plain import NamedTuple

if TYPE_CHECKING:
    from typing import BinaryIO

MAGIC = b"sundog capsule 1\n"
SUFFIX = ".capsule"
_HEADER_MAX_BYTES = 16 << 20
# What differs between two runs though nothing else does: addresses, ids of tasks and objects, and processes.
_PASSING = re.compile(r"0x[0-9a-fA-F]{6,}|\b[0-9a-f]{32,}\b|\bpid[= ]\d+")


class NotACapsule(ValueError):
    """The file is none; the text says why."""


class Outcome(NamedTuple):
    """How a run ended: its error, or its result."""

    error: str = ""  # the class of the exception; "" if it returned
    text: str = ""  # the exception's text, or the result's repr
    place: str = ""  # file:line function of the innermost frame of the user's that raised
    digest: str = ""  # of the pickled result; "" if it cannot be told

    def is_same(self, other: Outcome) -> bool:
        """Whether another run ended like this one; results whose bytes are not known are compared by their text."""
        if self.error or other.error:
            return (self.error, _steady(self.text)) == (other.error, _steady(other.text))
        if self.digest and other.digest:
            return self.digest == other.digest
        return _steady(self.text) == _steady(other.text)

    def is_alike(self, other: Outcome) -> bool:
        """Whether another run raised the same class of exception at the same place, whatever its text."""
        return bool(self.error and self.place) and (self.error, self.place) == (other.error, other.place)

    def words(self) -> str:
        """In one line."""
        if self.error == NO_END:
            return f"{self.error}: {self.text}"
        if not self.error:
            return f"returned {self.text}"
        raised = f"raised {self.error}: {self.text}" if self.text else f"raised {self.error}"
        return raised + (f" at {self.place}" if self.place else "")


NO_END = "did not end"
UNENDED = Outcome(NO_END, "its process died, or it runs still")


def _steady(text: str) -> str:
    """A text without what is another in each run.

    >>> _steady("<T object at 0x7f86548adbd0>") == _steady("<T object at 0x7f223edaf190>")
    True
    """
    return _PASSING.sub("…", text)


NAMED_RAY = "import ray"  # an option of a header: where the task ran, this gave sundog


class Header(NamedTuple):
    """What is known of a capsule without opening it."""

    task_id: str
    attempt: int
    name: str
    kind: str  # task | call | constructor
    function: str  # qualified name of the function, or Class.method
    source: str  # file:line where it is defined
    code: str  # fingerprint of its code
    outcome: Outcome
    made_s: float
    session: str
    pid: int
    versions: dict[str, str]
    options: dict[str, str]
    size_bytes: int = 0
    state: str = ""  # of a call: "before" if the actor's state is in it, else "constructed"
    randomness: bool = False  # whether the states of `random` and numpy.random before the run are in it
    absent: tuple[
        str, ...
    ] = ()  # arguments that are too large to be in it: they are looked for in shared memory


class Lent(NamedTuple):
    """Buffers that were too large for a capsule: where they lay, and a digest to know them by."""

    path: str
    offsets: tuple[tuple[int, int], ...]
    digest: str


class Packed(NamedTuple):
    """A pickled value, with the buffers beside it."""

    meta: bytes
    buffers: tuple[bytes, ...] | Lent | None = None


class Contents(NamedTuple):
    """What runs again."""

    function: bytes  # pickled: the function, or the actor's class
    method: str  # of a call
    args: Packed | None
    values: tuple[Packed, ...]  # of refs that were arguments themselves
    nested: dict[bytes, Packed]  # of refs inside arguments, as far as their values were there
    constructor_args: Packed | None
    constructor_values: tuple[Packed, ...]
    actor_state: bytes  # the pickled actor before the call; b"" if it was not asked for
    environ: dict[str, str]
    folder: str
    import_paths: tuple[str, ...]
    random_state: tuple[object, ...] | None  # as random.getstate() gives it
    numpy_state: Any


class ProcessFields(TypedDict):
    """The fields of `Contents` that are the process's, not the task's."""

    environ: dict[str, str]
    folder: str
    import_paths: tuple[str, ...]


def write(path: str, header: Header, contents: Contents) -> int:
    """Write a capsule for this user alone; returns its size.

    Raises:
        OSError: the disk is full.
    """
    body = pickle.dumps(tuple(contents), 5)
    head = json.dumps(header._replace(size_bytes=len(body))._asdict()).encode()
    part = f"{path}.{os.getpid()}.part"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(MAGIC + len(head).to_bytes(8, "little") + head)
            file.write(body)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise
    return len(MAGIC) + 8 + len(head) + len(body)


def read_header(path: str) -> Header:
    """Read what may be read without a question.

    Raises:
        NotACapsule: it is something else.
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        return _read_header(file, path)


def _read_header(file: BinaryIO, path: str) -> Header:
    if file.read(len(MAGIC)) != MAGIC:
        raise NotACapsule(f"{path} is not a capsule of this version of sundog.")
    length = int.from_bytes(file.read(8), "little")
    if length > _HEADER_MAX_BYTES:
        raise NotACapsule(f"{path} is damaged: it states a header of {length} bytes.")
    try:
        fields = json.loads(file.read(length))
        fields["outcome"] = Outcome(*fields["outcome"])
        fields["absent"] = tuple(fields["absent"])
        return Header(**fields)
    except (ValueError, TypeError, KeyError) as error:
        raise NotACapsule(f"{path} is damaged: its header cannot be read ({error}).") from None


def read_contents(path: str) -> Contents:
    """Open a capsule. This may run any code: only after the user has said so, or for files of a session of one's own.

    Raises:
        NotACapsule: it is something else.
    """
    with open(path, "rb") as file:
        _read_header(file, path)
        try:
            return Contents(*pickle.load(file))
        except (pickle.UnpicklingError, EOFError, TypeError) as error:
            raise NotACapsule(f"{path} is damaged: {error}") from None
