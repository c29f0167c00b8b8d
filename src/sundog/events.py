"""The flight recorder: one ring of fixed-size events per process, in a mapped file.

Owns the layout of the ring, its writer and its reader. A write is one `pack_into`, no message, no
lock, about half a microsecond; the file is readable while the process runs and after SIGKILL. Written
by every driver and worker (any thread: a slot is taken by an atomic counter), read by `observe`, the
node and the command line.

::

    header (2048 bytes)  magic · version · pid · task started last, when, name · role · job · actor · two samples
    sample               number · task id · when · own bytes · line · number again
    event  (64 bytes)    task id · submitted · start · end · name · kind · flags · attempt · cpu · peak · number
    <ring>.names         names with the fingerprint of their code, once each, and notes (event_names.py)

The file begins with one page and grows in steps, each reserved on the disk before it is mapped: a write to a mapped
page for which the disk has no room ends the process with SIGBUS. A write beyond the last step finds the mapping too
short, which costs the other writes nothing. If the disk has no room for the next step, events are counted and dropped
until it has; without room for the first page the header is kept in memory meanwhile.

An event's number is written last (`pack_into` clears the slot first), so a slot that holds the number a
reader expects is whole. The sampler writes its two slots in turn: when a process is killed within one, the
other is whole. An event's bytes are its task's peak of own memory.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import sub
from struct import Struct

from sundog.event_names import note_line, read_functions, read_names
from sundog.file_maps import FileMap
from sundog.no_ring import EVENT_BYTES as EVENT_BYTES
from sundog.no_ring import HEADER_BYTES as HEADER_BYTES
from sundog.no_ring import NoRing as NoRing
from sundog.plain import plain
from sundog.room import reserve

_MAGIC = b"SUNDOG\x03\x00"
_HEADER = Struct("<8sII16sdI12s4s12x16s")
_ACTOR_AT = 72
_CURRENT = Struct("<16sdI")
_CURRENT_AT = 16
_OUTER = Struct("<16sd")  # the waiting task whose child `_CURRENT` runs in its process; or zeros
_OUTER_AT = 224  # after the fields that event_facts.py keeps from 96 on
_NOTHING = bytes(16)
_UNWRITTEN = Struct("<Q")  # number of events for which the disk had no room
_UNWRITTEN_AT = 64
_SAMPLE = Struct("<Q16sdQ600sQ")
_SAMPLES_AT = (256, 1024)
LINE_MAX_BYTES = 600
EVENT = Struct("<16sdddIHBBffQ")
RawEvent = tuple[bytes, float, float, float, int, int, int, int, float, float, int]
# masks of the eight bytes with name, kind, flags and attempt
_NAME, _NAME_AND_KIND = (1 << 32) - 1, (1 << 48) - 1
_FLAGS_AT = 46
_NAMES_MAX = 20_000
_OTHERS = "(others)"
_FIRST_BYTES = 4096
_STEP_FACTOR = 4
_ROOM_AGAIN_S = 0.25
_NOTES_MAX_BYTES = 4 << 20
_WAITING_MAX_BYTES = 1 << 18  # of lines that wait for room on the disk
HOLES_MAX = 16  # more than the number of threads that write at the same moment

TASK, CALL, CREATE, GET, PUT, WAIT, SAMPLE, LOST, LEASE = 1, 2, 3, 4, 5, 6, 7, 8, 9
SITE, PACKET, READY, LEASED, RESULT, ARGUMENTS, MOVED, WAITED = 10, 11, 12, 13, 14, 15, 16, 17
KIND_NAMES = {
    TASK: "task",
    CALL: "call",
    CREATE: "create",
    GET: "get",
    PUT: "put",
    WAIT: "wait",
    SAMPLE: "sample",  # of a long task: its name is the line that ran
    LOST: "lost",  # written by the owner: an attempt whose process died
    SITE: "site",  # from this task on, its function is submitted from another line (owner/call_sites.py)
    PACKET: "packet",  # tasks sent to a worker: the first; `submit` is the number of the last, `name` how many, bytes
    READY: "ready",  # the arguments that a task waited for are ready
    LEASED: "leased",  # the owner was granted a worker: the worker's id is in the place of the task id
    RESULT: "result",  # a result in shared memory; this and the next three: event_facts.py
    ARGUMENTS: "arguments",  # arguments given by value that went to shared memory
    MOVED: "moved",  # how many bytes a task was given and gave back
    WAITED: "waited",  # a task was in a get or wait
    LEASE: "lease",  # the following tasks run on this lease: the name is the lease's resources, as JSON
}
FAILED = 1
ARGUMENT = 1  # of a put: the arguments of a call, passed by value; its task stands in the place of the object
TOLD = 64  # the process was lost with its node: outcome and times are those that the cluster reports
HIDDEN = 4  # enable_task_events=False: in the totals and the timeline, but not in lists of tasks
MEASURED = 2  # processor time and memory were read at the end; otherwise: its wall time, and the last reading


@plain(frozen=True)
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
    cpu_s: float = 0.0
    own_bytes: int = 0  # the most own memory (without shared segments) of the process during the task
    measured: bool = False  # False: the task was too short for a reading
    function: str = ""  # the function's own name, if the task has another
    hidden: bool = False


@plain(frozen=True)
class SampledLine:
    """What a process was doing when it was last looked at, within a tenth of a second or so."""

    task_id: bytes
    at: float
    own_bytes: int
    line: str  # "file:line function" of the user's code


class Ring:
    """Writes this process' events.

    Args:
        path: where the ring's file goes; "": told later (`open`).
        capacity: how many events it holds; older ones are overwritten (the count tells how many).
        role: "driver" or "worker".
        job_id: the job that the process works for.
    """

    def __init__(self, path: str, capacity: int, role: str, job_id: bytes = b"") -> None:
        self.path = path
        self._role = role
        self.capacity = capacity
        self.next = itertools.count().__next__
        # Re-entrant: a signal handler may record an event during this code.
        self._lock = threading.RLock()
        self._names: dict[tuple[str, str], int] = {}
        self.sites: dict[tuple[int, int], tuple[object, int]] = {}  # lines of code (owner/call_sites.py)
        self._unnamed = b""  # lines for which the file of names had no room yet
        self._unwritten = 0
        self._short = False  # the disk had no room for the next step
        self._mender: threading.Thread | None = None
        self._closed = threading.Event()
        self._note_bytes = 0
        self._samples = itertools.count(1).__next__
        self._in_file = False
        self.map: mmap.mmap
        self.started: Callable[[bytes, float, int], None]
        """Notes which task is about to run, and its name: what a dead process did last, and what it never began."""
        if path:
            self.open(path, job_id)

    def open(self, path: str, job_id: bytes) -> None:
        """Make the file, of this process; nothing but names may be noted before."""
        self.path = path
        if not self._grow():
            self._use(mmap.mmap(-1, HEADER_BYTES))
            self._mend_later()
        _HEADER.pack_into(self.map, 0, _MAGIC, 3, os.getpid(), b"", 0.0, 0, self._role.encode(), job_id, b"")
        if self._unnamed and not self._write_names():
            self._mend_later()

    def become_actor(self, actor_id: bytes) -> None:
        """Note which actor lives in this process from now on."""
        self.map[_ACTOR_AT : _ACTOR_AT + 16] = actor_id

    def _use(self, map_: mmap.mmap) -> None:
        self.map = map_
        self.started = partial(_CURRENT.pack_into, map_, _CURRENT_AT)

    def _grow(self) -> bool:
        """Reserve the next step of the file and map it; False if the disk has no room for it."""
        old = len(self.map) if self._in_file else 0
        size = min(HEADER_BYTES + self.capacity * EVENT_BYTES, max(_FIRST_BYTES, old * _STEP_FACTOR))
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                reserve(fd, old, size)
                if old:
                    self.map.resize(size)  # in place: every user of the map sees the new length
                else:
                    map_ = FileMap(fd, size)
                    if hasattr(self, "map"):
                        map_[:HEADER_BYTES] = self.map[:HEADER_BYTES]
                    self._use(map_)
                    self._in_file = True
            finally:
                os.close(fd)
        except (OSError, BufferError):
            self._short = True
            return False
        self._short = False
        return True

    def overflow(self, index: int, *fields: object) -> None:
        """Write an event whose slot is not reserved yet; without room for it, count it."""
        at = self.room_for(index)
        if at is not None:
            EVENT.pack_into(self.map, at, *fields, index + 1)

    def room_for(self, index: int) -> int | None:
        """Where an event goes, once its slot is reserved; None if the disk has no room for it, and it is counted."""
        at = HEADER_BYTES + (index % self.capacity) * EVENT_BYTES
        with self._lock:
            while at + EVENT_BYTES > len(self.map):
                if self._short or not self._grow():
                    self._unwritten += 1
                    _UNWRITTEN.pack_into(self.map, _UNWRITTEN_AT, self._unwritten)
                    # A reader takes a long series of missing numbers for the end: the next event gets this
                    # number.
                    self.next = itertools.count((len(self.map) - HEADER_BYTES) // EVENT_BYTES).__next__
                    self._mend_later()
                    return None
        return at

    def _mend_later(self) -> None:
        """Have a thread wait for room on the disk; it ends when there is."""
        if (self._mender is None or not self._mender.is_alive()) and not self._closed.is_set():
            self._mender = threading.Thread(target=self._mend, name="sundog-ring", daemon=True)
            try:
                self._mender.start()
            except RuntimeError:
                self._mender = None  # no thread can be started: the next event that is dropped asks again

    def _mend(self) -> None:
        while not self._closed.wait(_ROOM_AGAIN_S):
            with self._lock:
                if (not self._short or self._grow()) and (not self._unnamed or self._write_names()):
                    self._mender = None
                    return

    def stands_still(self, task_id: bytes, began: float) -> None:
        """Note that a task, begun then, has children run in its place from now on; no id: not any more."""
        _OUTER.pack_into(self.map, _OUTER_AT, task_id, began)

    def started_at(self) -> float:
        """When the task noted last began."""
        return float(_CURRENT.unpack_from(self.map, _CURRENT_AT)[1])

    def name(self, text: str, code: str = "", function: str = "") -> int:
        """The number of a name, of a function's with its fingerprint; written to a file the first time.

        The code that ran is part of the name's row, so it costs an event nothing. A task with a name of its own is
        written with that of its function.
        """
        number = self._names.get((text, code))
        if number is None:
            with self._lock:
                number = self._names.get((text, code))
                if number is None:
                    if len(self._names) >= _NAMES_MAX:
                        # A program may give each task its own name; the number of totals by name is limited.
                        text, code = _OTHERS, ""
                        if (text, code) in self._names:
                            return self._names[text, code]
                    number = self._names[text, code] = len(self._names) + 1
                    own = f"\t{function!r}" if function not in ("", text) else ""
                    self._unnamed += f"{number}\t{text!r}\t{code}{own}\n".encode()
                    if not self._write_names():
                        self._mend_later()
        return number

    def _write_names(self) -> bool:
        """Append the names that are not in the file yet, whole lines or nothing; False if there is no room."""
        if not self.path:
            return True  # `open` writes them
        try:
            fd = os.open(self.path + ".names", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                size = os.fstat(fd).st_size
                lines = self._unnamed
                if os.write(fd, lines) != len(lines):
                    os.ftruncate(fd, size)
                    return False
            finally:
                os.close(fd)
        except OSError:
            return False
        self._unnamed = self._unnamed[len(lines) :]
        return True

    def note(self, kind: str, /, **facts: object) -> None:
        """Keep facts that an event has no room for: once per actor or failure, never per task that ends well.

        A process keeps a few megabytes; some hundred kilobytes wait for room on the disk. Never raises.
        """
        with self._lock:
            if self._note_bytes <= _NOTES_MAX_BYTES and len(self._unnamed) < _WAITING_MAX_BYTES:
                line = note_line(kind, facts)
                self._note_bytes += len(line)
                self._unnamed += line
                if not self._write_names():
                    self._mend_later()

    def write(
        self,
        kind: int,
        task_id: bytes,
        name: int,
        submit_s: float,
        start_s: float,
        end_s: float,
        flags: int = 0,
        attempt: int = 0,
        cpu_s: float = 0.0,
        own_bytes: float = 0.0,
    ) -> None:
        """Record one event."""
        index = self.next()
        try:
            EVENT.pack_into(
                self.map,
                HEADER_BYTES + (index % self.capacity) * EVENT_BYTES,
                task_id,
                submit_s,
                start_s,
                end_s,
                name,
                kind,
                flags,
                attempt & 255,
                cpu_s,
                own_bytes,
                index + 1,
            )
        except struct.error:
            attempt &= 255
            self.overflow(
                index, task_id, submit_s, start_s, end_s, name, kind, flags, attempt, cpu_s, own_bytes
            )

    def sample(self, task_id: bytes, now: float, own_bytes: int, line: str) -> None:
        """Note what a long task does now; the sampler's thread only."""
        number = self._samples()
        text = line.encode(errors="replace")[:LINE_MAX_BYTES]
        _SAMPLE.pack_into(self.map, _SAMPLES_AT[number & 1], number, task_id, now, own_bytes, text, number)

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be noted any more: the session of this process has ended."""
        return self._closed.is_set()

    def close(self) -> None:
        """Unmap; the file stays."""
        self._closed.set()
        mender = self._mender
        if mender is not None and mender is not threading.current_thread():
            mender.join()
        with contextlib.suppress(BufferError, ValueError):
            self.map.close()


def header_of(pid: int, role: str) -> bytes:
    """The header of a ring, for the process that writes down what a dead process no longer can."""
    packed = _HEADER.pack(_MAGIC, 3, pid, b"", 0.0, 0, role.encode(), b"", b"")
    return packed + bytes(HEADER_BYTES - len(packed))


def started_last(path: str) -> bytes | None:
    """The id of the task that a process (dead or alive) began last; None if it began none."""
    task_id = _current(path)[0]
    return task_id or None


def started_last_at(path: str) -> float:
    """When the task of `started_last` began; 0.0 if there is none."""
    return _current(path)[1]


def started_name(path: str) -> int:
    """The number of the name of the task of `started_last`; 0 if it is not known."""
    return _current(path)[2]


def sent_last(path: str) -> tuple[bytes, float]:
    """Which task that was sent to a process it began last, and when; no id if none.

    While a task has a child run in its place, it is the task: the child of `started_last` did not come by a lane.
    """
    header = _header(path)
    task_id, began = _OUTER.unpack_from(header, _OUTER_AT) if header is not None else (_NOTHING, 0.0)
    return (task_id, float(began)) if task_id != _NOTHING else _current(path)[:2]


def _current(path: str) -> tuple[bytes, float, int]:
    header = _header(path)
    task_id, at, name = (
        _CURRENT.unpack_from(header, _CURRENT_AT) if header is not None else (_NOTHING, 0.0, 0)
    )
    return (task_id if task_id != _NOTHING else b""), float(at), int(name)


def last_sample(path: str) -> SampledLine | None:
    """What a process (dead or alive) was last seen doing; None if none of its tasks ran long enough.

    The sample is of the last *long* task: compare its `task_id` with `started_last` to know whether it is
    the one that ran at the end.
    """
    header = _header(path)
    best = 0
    found: SampledLine | None = None
    for at in _SAMPLES_AT if header is not None else ():
        number, task_id, when, own_bytes, line, again = _SAMPLE.unpack_from(header, at)  # type: ignore[arg-type]
        if number == again and number > best:
            best = number
            found = SampledLine(task_id, when, own_bytes, line.rstrip(b"\0").decode(errors="replace"))
    return found


def pid_of(path: str) -> int | None:
    """The pid of the process (dead or alive) that a ring belongs to; None if there is no such ring."""
    header = _header(path)
    return None if header is None else int(_HEADER.unpack_from(header)[2])


def _header(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            header = file.read(HEADER_BYTES)
    except OSError:
        return None
    return header if len(header) == HEADER_BYTES and header[:8] == _MAGIC else None


@plain(frozen=True)
class RingInfo:
    """What a ring tells of its process, and how much of it is lost."""

    pid: int
    role: str
    written: int
    dropped: int
    current: bytes = b""  # the task that began last, and when
    current_at: float = 0.0
    unwritten: int = 0  # events for which the disk had no room; `dropped` counts them too
    job_id: bytes = b""
    actor_id: bytes = b""  # the actor of the process
    current_name: int = 0  # of the task begun last


@plain(frozen=True)
class Columns:
    """Many events of one name and kind, field by field: a flood of short tasks is summed up several times faster."""

    name: int
    kind: int
    seconds: list[float]
    flags: Sequence[int]
    cpu_s: Sequence[float]
    own_bytes: Sequence[float]
    attempts: Sequence[int]

    @classmethod
    def of(cls, rows: list[RawEvent]) -> Columns:
        """From the fields of events, as `Slots.raw` gives them."""
        _, _, start, end, name, kind, flags, attempts, cpu_s, own_bytes, _ = zip(*rows, strict=True)
        return cls(name[0], kind[0], list(map(sub, end, start)), flags, cpu_s, own_bytes, attempts)


@plain(frozen=True)
class Slots:
    """A copy of a part of a ring: `data` holds the slots of the events from number `first` on, in order."""

    info: RingInfo
    first: int
    data: bytes

    def raw(self) -> Iterator[RawEvent]:
        """The fields of each event that is whole, oldest first; the last field is its number."""
        for number, fields in enumerate(EVENT.iter_unpack(self.data), self.first):
            if fields[10] == number and fields[5] in KIND_NAMES and fields[3] >= fields[2]:
                yield fields

    def columns(self) -> Columns | None:
        """The figures of all events, field by field; None unless every one is whole and of the same kind and name."""
        if sys.byteorder != "little":
            return None
        data = memoryview(self.data)
        doubles, longs, floats = data.cast("d"), data.cast("Q"), data.cast("f")
        numbers, marks = longs[7::8].tolist(), longs[5::8].tolist()
        kinds = {mark & _NAME_AND_KIND for mark in set(marks)}
        if len(kinds) != 1 or numbers != list(range(self.first, self.first + len(numbers))):
            return None
        mark = kinds.pop()
        name, kind = mark & _NAME, mark >> 32
        seconds = list(map(sub, doubles[4::8].tolist(), doubles[3::8].tolist()))
        if kind not in KIND_NAMES or min(seconds) < 0:
            return None
        flags = data[_FLAGS_AT::EVENT_BYTES].tobytes()
        attempts = data[_FLAGS_AT + 1 :: EVENT_BYTES].tobytes()
        return Columns(name, kind, seconds, flags, floats[12::16].tolist(), floats[13::16].tolist(), attempts)


def read_slots(path: str, after: int = 0, most: int = 1 << 30) -> Slots | None:
    """The events written after number `after`, or as many of them as the ring still holds; None if it is no ring.

    Of more than `most` events the newer ones are left for the next time.

    Which events are there is found before any is copied: each is whole in the copy unless it was overwritten
    meanwhile, which its number in the copy tells.
    """
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as map_:
            if len(map_) < HEADER_BYTES + EVENT_BYTES or map_[:8] != _MAGIC:
                return None
            capacity = (len(map_) - HEADER_BYTES) // EVENT_BYTES
            written = _written(map_, capacity, after)
            overwritten = max(0, written - capacity)
            first = max(after, overwritten) + 1
            last = min(written, first + most - 1)
            low, high = (first - 1) % capacity, (last - 1) % capacity + 1
            # Read from the file, not from the map: this process has not touched these pages, and each would
            # be a page fault.
            fd = file.fileno()
            if last < first:
                data = b""
            elif low < high:
                data = os.pread(fd, (high - low) * EVENT_BYTES, HEADER_BYTES + low * EVENT_BYTES)
            else:
                data = os.pread(fd, (capacity - low) * EVENT_BYTES, HEADER_BYTES + low * EVENT_BYTES)
                data += os.pread(fd, high * EVENT_BYTES, HEADER_BYTES)
            _, _, pid, current, current_at, current_name, role, job, actor = _HEADER.unpack_from(map_, 0)
            (unwritten,) = _UNWRITTEN.unpack_from(map_, _UNWRITTEN_AT)
    except (OSError, ValueError):
        return None
    text = role.rstrip(b"\0").decode()
    dropped = overwritten + unwritten
    actor = actor if any(actor) else b""
    info = RingInfo(pid, text, written, dropped, current, current_at, unwritten, job, actor, current_name)
    return Slots(info, first, data)


def _written(map_: mmap.mmap, capacity: int, after: int) -> int:
    """The number of the newest event, at least `after`: searched from there, by halves.

    A few slots beyond the first that is missing are looked at too: another thread may be ahead, and one that
    was killed within a write leaves its slot empty for ever.
    """

    def in_slot_of(number: int) -> int:
        at = HEADER_BYTES + (number - 1) % capacity * EVENT_BYTES + EVENT_BYTES - 8
        return int.from_bytes(map_[at : at + 8], "little")

    def there(number: int) -> bool:
        return in_slot_of(number) >= number

    newest = after
    while True:
        low = next((number for number in range(newest + 1, newest + HOLES_MAX) if there(number)), 0)
        if not low:
            return newest
        high = newest + capacity
        # the ring has wrapped around: the slots at the beginning say how often
        if low >= high or there(high):
            begun = max(map(in_slot_of, range(1, min(HOLES_MAX, capacity) + 1)))
            if begun <= newest:
                return newest  # no ring of sundog looks like this
            newest = begun
            continue
        top = high
        while top - low > 1:
            middle = (low + top) // 2
            low, top = (middle, top) if there(middle) else (low, middle)
        newest = low


def read_ring(path: str) -> tuple[RingInfo, Iterator[Event]] | None:
    """A ring's header and its events, oldest first; None if the file is no ring."""
    slots = read_slots(path)
    if slots is None:
        return None
    process_id = bytes.fromhex(os.path.basename(path).split(".")[0])
    return slots.info, _events(slots, process_id, read_names(path), read_functions(path))


def _events(
    slots: Slots, process_id: bytes, names: dict[int, tuple[str, str]], functions: dict[int, str]
) -> Iterator[Event]:
    info = slots.info
    for fields in slots.raw():
        task_id, submit, start, end, name, kind, flags, attempt, cpu_s, own_bytes, _ = fields
        known = names.get(name, ("?", ""))
        when = (kind, submit, start, end, bool(flags & FAILED), attempt, known[1], cpu_s, int(own_bytes))
        more = (bool(flags & MEASURED), functions.get(name, ""), bool(flags & HIDDEN))
        yield Event(process_id, info.pid, info.role, task_id, known[0], *when, *more)
