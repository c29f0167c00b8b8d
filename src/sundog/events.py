"""The flight recorder: one ring of fixed-size events per process, in a mapped file.

Owns the layout of the ring, its writer and its reader. A write is one `pack_into`, no message, no
lock, about half a microsecond; the file is readable while the process runs and after SIGKILL. Written
by every driver and worker (any thread: a slot is taken by an atomic counter), read by `observe`, the
node and the command line.

::

    header (128 bytes)   magic · version · pid · events written · task started last, and when · role
    event  (64 bytes)    task id · submitted · start · end · name · kind · flags · attempt · cpu · peak
    <ring>.names         "number<TAB>name<TAB>code" lines: a name with the fingerprint of its code, once
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct

_MAGIC = b"SUNDOG\x01\x00"
HEADER_BYTES = 128
EVENT_BYTES = 64
_HEADER = Struct("<8sIIQ16sd16s")
_COUNT = Struct("<Q")
_COUNT_AT = 16
_CURRENT = Struct("<16sd")
_CURRENT_AT = 24
_EVENT = Struct("<16sdddIHBBff8s")

TASK, CALL, CREATE, GET, PUT, WAIT = 1, 2, 3, 4, 5, 6
KIND_NAMES = {TASK: "task", CALL: "call", CREATE: "create", GET: "get", PUT: "put", WAIT: "wait"}
FAILED = 1


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that a process did, with wall-clock times in seconds."""

    process_id: bytes
    pid: int
    role: str
    task_id: bytes
    name: str
    kind: int
    submit_s: float
    start_s: float
    end_s: float
    failed: bool
    attempt: int
    code: str = ""  # fingerprint of the function's code, if it has any


class Ring:
    """Writes this process' events.

    Args:
        path: where the ring's file goes.
        capacity: how many events it holds; older ones are overwritten (the count tells how many).
        role: "driver" or "worker".
    """

    def __init__(self, path: str, capacity: int, role: str) -> None:
        size = HEADER_BYTES + capacity * EVENT_BYTES
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(fd, size)
            self._map = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        self.path = path
        self._capacity = capacity
        self._next = itertools.count().__next__
        self._names: dict[tuple[str, str], int] = {}
        self._names_lock = threading.Lock()
        _HEADER.pack_into(self._map, 0, _MAGIC, 1, os.getpid(), 0, b"", 0.0, role.encode())

    def started(self, task_id: bytes, now: float) -> None:
        """Note which task is about to run: what a dead process did last, and what it never began."""
        _CURRENT.pack_into(self._map, _CURRENT_AT, task_id, now)

    def started_at(self) -> float:
        """When the task noted last began."""
        return float(_CURRENT.unpack_from(self._map, _CURRENT_AT)[1])

    def name(self, text: str, code: str = "") -> int:
        """The number of a name, of a function's with its fingerprint; written to a file the first time.

        The code that ran is part of the name's row, so it costs an event nothing.
        """
        number = self._names.get((text, code))
        if number is None:
            with self._names_lock:
                number = self._names.get((text, code))
                if number is None:
                    number = len(self._names) + 1
                    with open(self.path + ".names", "a", encoding="utf-8") as file:
                        file.write(f"{number}\t{text!r}\t{code}\n")
                    self._names[text, code] = number
        return number

    def write(
        self,
        kind: int,
        task_id: bytes,
        name: int,
        submit_s: float,
        start_s: float,
        end_s: float,
        failed: int = 0,
        attempt: int = 0,
    ) -> None:
        """Record one event."""
        index = self._next()
        _EVENT.pack_into(
            self._map,
            HEADER_BYTES + (index % self._capacity) * EVENT_BYTES,
            task_id,
            submit_s,
            start_s,
            end_s,
            name,
            kind,
            failed,
            attempt & 255,
            0.0,
            0.0,
            b"",
        )
        _COUNT.pack_into(self._map, _COUNT_AT, index + 1)

    def close(self) -> None:
        """Unmap; the file stays."""
        with contextlib.suppress(BufferError, ValueError):
            self._map.close()


class NoRing:
    """Takes events and forgets them: recording is switched off."""

    path = ""

    def started(self, task_id: bytes, now: float) -> None:
        """Nothing is noted."""

    def started_at(self) -> float:
        """Not known."""
        return 0.0

    def name(self, text: str, code: str = "") -> int:
        """Every name is 0."""
        return 0

    def write(
        self,
        kind: int,
        task_id: bytes,
        name: int,
        submit_s: float,
        start_s: float,
        end_s: float,
        failed: int = 0,
        attempt: int = 0,
    ) -> None:
        """Nothing is written."""

    def close(self) -> None:
        """Nothing to close."""


def started_last(path: str) -> bytes | None:
    """The id of the task that a process (dead or alive) began last; None if it began none."""
    try:
        with open(path, "rb") as file:
            header = file.read(HEADER_BYTES)
    except OSError:
        return None
    if len(header) < HEADER_BYTES or header[:8] != _MAGIC:
        return None
    task_id = header[_CURRENT_AT : _CURRENT_AT + 16]
    return None if task_id == bytes(16) else task_id


def pid_of(path: str) -> int | None:
    """The pid of the process (dead or alive) that a ring belongs to; None if there is no such ring."""
    try:
        with open(path, "rb") as file:
            header = file.read(HEADER_BYTES)
    except OSError:
        return None
    if len(header) < HEADER_BYTES or header[:8] != _MAGIC:
        return None
    return int(_HEADER.unpack_from(header)[2])


@dataclass(frozen=True, slots=True)
class RingInfo:
    """What a ring's header says."""

    pid: int
    role: str
    written: int
    dropped: int


def read_ring(path: str) -> tuple[RingInfo, Iterator[Event]] | None:
    """A ring's header and its events, oldest first; None if the file is no ring.

    A half-written event (its process was killed within `pack_into`) has an end before its start or
    no id and is left out.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    if len(data) < HEADER_BYTES or data[:8] != _MAGIC:
        return None
    _, _, pid, written, _, _, role_bytes = _HEADER.unpack_from(data, 0)
    capacity = (len(data) - HEADER_BYTES) // EVENT_BYTES
    info = RingInfo(pid, role_bytes.rstrip(b"\0").decode(), written, max(0, written - capacity))
    process_id = bytes.fromhex(os.path.basename(path).split(".")[0])
    return info, _events(data, process_id, info, capacity, read_names(path))


def _events(
    data: bytes, process_id: bytes, info: RingInfo, capacity: int, names: dict[int, tuple[str, str]]
) -> Iterator[Event]:
    for index in range(info.dropped, info.written):
        at = HEADER_BYTES + (index % capacity) * EVENT_BYTES
        try:
            task_id, submit, start, end, name, kind, flags, attempt, *_ = _EVENT.unpack_from(data, at)
        except struct.error:
            return
        if kind not in KIND_NAMES or end < start:
            continue
        known = names.get(name, ("?", ""))
        yield Event(
            process_id,
            info.pid,
            info.role,
            task_id,
            known[0],
            kind,
            submit,
            start,
            end,
            bool(flags & FAILED),
            attempt,
            known[1],
        )


def read_names(path: str) -> dict[int, tuple[str, str]]:
    """The names that a ring's events refer to by number, each with the fingerprint of its code."""
    import ast

    names: dict[int, tuple[str, str]] = {}
    with contextlib.suppress(OSError), open(path + ".names", encoding="utf-8") as file:
        for line in file:
            number, _, rest = line.rstrip("\n").partition("\t")
            text, _, code = rest.rpartition("\t")
            with contextlib.suppress(ValueError, SyntaxError):
                names[int(number)] = (str(ast.literal_eval(text)), code)
    return names
