"""Events that tell more than when a task ran: waits and the task that waited, objects in shared memory, bytes in and
out.

Owns how these facts fit into the 64 bytes of an event (`events.py`) and into the header of a ring, for writers and
readers. Written by every driver and worker, never for a small task that waits for nothing; read by `observe` and the
node.

::

    get, wait            first object · number of the last one · start · end · site · how many are wanted · how many
    waited               object · task that waited (last 8 bytes) · start · end · site · get or wait · task (first 8)
    put, result, argument  object · size · start · end · site, of a result its index · attempt · number of its segment
    moved                task · bytes out · end · end · bytes in by value · attempt · bytes in by reference (two parts)
    header, from 96 on   a get or wait that has not ended: since · object · task · kind · site
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import TYPE_CHECKING, Any

from sundog import events
from sundog.ids import PROCESS_BYTES, number_of
from sundog.plain import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sundog.store.segments import Location
    from sundog.wire.lanes import WireValue

DEPS_RECORDED = 8  # the tasks that made the first arguments of a task are recorded, up to this many
_WAITED = Struct("<16s8sddIHBB8sQ")
_BLOCKED = Struct("<d16s16sII")
_BLOCKED_AT = 96
_SINCE = Struct("<d")
_NUMBER = Struct("<Q")
_pack_event = events.EVENT.pack_into
# What Python raises for a closed map: the handler of a signal, or another thread, has ended the session.
_CLOSED = (TypeError, ValueError)
NO_TASK = bytes(16)
MOVED_LEAST_BYTES = 1024  # a task with fewer bytes of arguments and results gets no event about them
SIZED = 8  # a flag of a put: the event has the exact size and the number of the segment
_U32 = (1 << 32) - 1
_PART = 24  # bits of a number that a float of four bytes holds exactly

AnyRing = events.Ring | events.NoRing


@plain(frozen=True)
class UnendedWait:
    """A `get` or `wait` that has not ended."""

    since_s: float
    object_id: bytes  # the first 16 bytes of the object it waits for first
    task_id: bytes  # the task that waits; empty in a driver
    kind: int  # events.GET or events.WAIT
    site: int  # the ring's number of the line of code


# ---------------------------------------------------------------------- waits
def block(ring: AnyRing, kind: int, object_id: bytes, site: int, task_id: bytes, now: float) -> None:
    """A get or wait begins: a reader of the ring sees it, also after a kill.

    There is one place for it: of several threads that wait, the one that began last is seen, and none from when one
    of them continues.
    """
    try:
        _BLOCKED.pack_into(ring.map, _BLOCKED_AT, now, object_id, task_id, kind, site)
    except _CLOSED:
        if not ring.is_closed:
            raise


def unblock(
    ring: AnyRing,
    kind: int,
    object_id: bytes,
    site: int,
    task_id: bytes,
    start_s: float,
    end_s: float,
    last: bytes = b"",
    count: int = 1,
    wanted: int = 0,
) -> None:
    """A get or wait has ended: it becomes an event, and in a task a second one that says which task waited.

    Args:
        ring: of this process.
        kind: events.GET or WAIT.
        object_id: the first 16 bytes of the first object.
        site: the ring's number of the line of code.
        task_id: the task that waited; empty in a driver.
        start_s: when it began.
        end_s: when it ended.
        last: the id of the last object.
        count: how many objects it was about.
        wanted: how many of them `wait` was to wait for.
    """
    end_s = max(start_s, end_s)
    number = float(number_of((last or object_id)[:16]))
    try:
        _BLOCKED.pack_into(ring.map, _BLOCKED_AT, 0.0, b"", b"", 0, 0)
        ring.write(kind, object_id, site, number, start_s, end_s, 0, min(wanted, 255), count)
        if task_id:
            _write_waited(
                ring, (object_id, task_id[8:], start_s, end_s, site, events.WAITED, 0, kind, task_id[:8])
            )
    except _CLOSED:
        if not ring.is_closed:
            raise


def unblock_one(
    ring: AnyRing, object_id: bytes, site: int, task_id: bytes, start_s: float, end_s: float
) -> None:
    """As `unblock`, of a get of one object; written out, for a program that runs a task at a time ends each in here."""
    if end_s < start_s:
        end_s = start_s
    try:
        _SINCE.pack_into(ring.map, _BLOCKED_AT, 0.0)  # then the other fields are not read
        (number,) = _NUMBER.unpack_from(object_id, PROCESS_BYTES)
        index = ring.next()
        at = events.HEADER_BYTES + index % ring.capacity * events.EVENT_BYTES
        try:
            _pack_event(
                ring.map, at, object_id, number, start_s, end_s, site, events.GET, 0, 0, 1.0, 0.0, index + 1
            )
        except struct.error:
            ring.overflow(index, object_id, number, start_s, end_s, site, events.GET, 0, 0, 1.0, 0.0)
        if task_id:
            _write_waited(
                ring,
                (object_id, task_id[8:], start_s, end_s, site, events.WAITED, 0, events.GET, task_id[:8]),
            )
    except _CLOSED:
        if not ring.is_closed:
            raise


def _write_waited(ring: AnyRing, fields: tuple[object, ...]) -> None:
    index = ring.next()
    at = events.HEADER_BYTES + index % ring.capacity * events.EVENT_BYTES
    try:
        _WAITED.pack_into(ring.map, at, *fields, index + 1)
    except struct.error:
        room = ring.room_for(index)
        if room is not None:
            _WAITED.pack_into(ring.map, room, *fields, index + 1)


def blocked(path: str) -> UnendedWait | None:
    """The get or wait in which a process (dead or alive) is, or was when it ended."""
    try:
        with open(path, "rb") as file:
            header = file.read(_BLOCKED_AT + _BLOCKED.size)
        since_s, object_id, task_id, kind, site = _BLOCKED.unpack_from(header, _BLOCKED_AT)
    except (OSError, struct.error):
        return None
    if since_s <= 0 or kind not in (events.GET, events.WAIT):
        return None
    return UnendedWait(since_s, object_id, b"" if task_id == NO_TASK else task_id, kind, site)


def waiting_task(slot: bytes) -> bytes:
    """The task of a get or wait, from the 64 bytes of an event of kind WAITED."""
    _, number, *_, owner, _ = _WAITED.unpack(slot)
    return bytes(owner + number)


# ---------------------------------------------------------------------- objects
def made(
    ring: AnyRing,
    kind: int,
    object_id: bytes,
    name: int,
    location: Location,
    start_s: float,
    end_s: float,
    attempt: int = 0,
) -> None:
    """An object was written to shared memory, or to the disk behind it: a put, a result, or arguments.

    Args:
        ring: of the process that wrote it.
        kind: events.PUT, RESULT or ARGUMENTS.
        object_id: its first 16 bytes.
        name: the line of code; of a result, which of its task's it is.
        location: its segment, and where in it its parts are.
        start_s: when the writing began.
        end_s: when it ended.
        attempt: of the task whose result it is.
    """
    size = 0
    for _, length in location[2]:
        size += length
    number = segment_number(location[0])
    ring.write(kind, object_id, name, size, start_s, max(start_s, end_s), SIZED, attempt, 0.0, number)


def segment_number(segment: str) -> int:
    """The number of a segment among those of its maker.

    >>> segment_number("00ff-11ee-42"), segment_number("disk-00ff-11ee-42@ab")
    (42, 42)
    """
    text = segment.split("@")[0].rpartition("-")[2]
    return int(text) if text.isdigit() else 0


# ---------------------------------------------------------------------- bytes
def moved(
    ring: AnyRing,
    task_id: bytes,
    attempt: int,
    args: Any,
    values: Iterable[tuple[bytes, WireValue]] | None,
    out: int,
    end_s: float,
) -> None:
    """How much a task was given and gave back, unless it is little.

    Args:
        ring: of the process in which it ran.
        task_id: the task.
        attempt: its attempt.
        args: its packed arguments: bytes, or an object of their own.
        values: values of the refs among them.
        out: bytes of its results that are not objects in shared memory, which have events of their own.
        end_s: when it ended.
    """
    by_value = 0
    if type(args) is bytes:
        by_value = len(args)
    elif args is not None:
        by_value = len(args[2]) + _bytes_at(args[3])
    by_reference = 0
    for _, value in values or ():
        by_reference += len(value[1]) + (_bytes_at(value[2]) if value[2] is not None else 0)
    if by_value + by_reference + out >= MOVED_LEAST_BYTES:
        high, low = by_reference >> _PART, by_reference & (1 << _PART) - 1
        ring.write(events.MOVED, task_id, min(by_value, _U32), out, end_s, end_s, 0, attempt, high, low)


def bytes_of(fields: events.RawEvent) -> tuple[int, int, int]:
    """Of an event of kind MOVED: bytes in by value, bytes in by reference, bytes out."""
    return fields[4], (int(fields[8]) << _PART) + int(fields[9]), int(fields[1])


def _bytes_at(location: Location) -> int:
    return sum(length for _, length in location[2])
