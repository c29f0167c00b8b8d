"""Small items in memory that several processes share, first in, first out: a put or a get without a third process.

::

    maker: SharedRing.make() ── RingPlace (pid, descriptors) ──► others: SharedRing.open(place)

    word   0      1          2          3       4        5        6              7
         token  puts|tail  gets|head  beside  getters  putters  their getters  their putters
    word   8      9         10    11
         limit  capacity  told  filled
    then the records, in a ring: 8 bytes of length, the bytes, filled up to a multiple of 8

Owns the layout and the lock. The maker is a process with a queue of its own for what does not fit here; the items there
(`beside`) are younger than those here, and while there are any, only the maker adds to the ring. So the order is
kept. The memory has no name: it is gone with the last process that has it open.

Guarantees: a lock on the file makes one step at a time; the kernel ends it with its process. A lock of the process
(`_Turn`) does so among its threads, however many views of a ring they have. One store of one word
makes a put or a get happen, so a process that is killed in between has done all of it or nothing. No finaliser runs
in the middle of a step: on Python 3.11 because no step allocates what the garbage collector counts, from 3.12 on
because the collector is off meanwhile (`_Uncollected`). The handler of a signal waits (`moments`). Memory beyond
`filled` was never written: a call writes there first, which raises an error when no memory is left; a store through
the mapping would end the process (SIGBUS).

Refuses to wait for an item or for room: it tells a waiter's pipe that it is worth another look. Any process and thread.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import mmap
import os
import select
import sys
import threading
import time
from weakref import WeakSet, finalize

from sundog import trust
from sundog.plain import NamedTuple

DONE, EMPTY, FULL, ASK = range(4)  # ASK: only the process that made the ring can answer
TOKEN, PUTS, GETS, BESIDE, GETTERS, PUTTERS, THEIR_GETTERS, THEIR_PUTTERS, LIMIT, CAPACITY, TOLD, FILLED = (
    range(12)
)
RECORD_MAX_BYTES = 32 << 10
_HEADER_BYTES = 4096
_MASK = 0xFFFFFFFF
_SKIP = _MASK  # the length of a record that means: continue at the start
_LONG = 64  # arbitrary: a quarter of it keeps a reader busy for longer than a writer takes to wake up
_LOOK_S = 1e-3  # how often a process checks whether the maker lives
_lock_file, _EXCLUSIVE, _UNLOCK = fcntl.lockf, fcntl.LOCK_EX, fcntl.LOCK_UN
_pwrite, _perf = os.pwrite, time.perf_counter
_PADDING = [bytes(-size % 8) for size in range(8)]


class RingPlace(NamedTuple):
    """Where a ring is: its maker, the maker's descriptors, and the word that proves it is this one."""

    pid: int
    memory: int
    items: int
    room: int
    maker: int
    token: int


class SharedRing:
    """One process' view of a ring. Use `make` or `open`."""

    def __init__(self, memory: int, items: int, room: int, maker: int, alive: int) -> None:
        self.memory, self.items, self.room, self.maker = memory, items, room, maker
        self._alive = alive  # a descriptor that becomes readable when the maker dies; -1 in the maker
        self._map = mmap.mmap(memory, os.fstat(memory).st_size)
        words = memoryview(self._map).cast("Q")
        self.words = words
        self._turn = _join(words[TOKEN])
        self._mutex = self._turn.mutex
        fds = [fd for fd in (memory, items, room, maker, alive) if fd >= 0]
        # Not __del__: while that runs, another thread may still get this object out of a weak dictionary.
        self._let_go = finalize(self, _let_go, self._turn, words, self._map, fds)
        self._let_go.atexit = False
        self._first = _HEADER_BYTES // 8
        self.limit = words[LIMIT]
        self._capacity = words[CAPACITY]
        self.low = _low(self.limit)
        self._looked_s = 0.0
        _rings.add(self)

    # ------------------------------------------------------------------ making and opening
    @classmethod
    def make(cls, limit: int, capacity: int) -> SharedRing:
        """A new ring of this many bytes; `limit` items at most, here and beside it (0: any number).

        Raises:
            OSError: there is no descriptor left.
        """
        fds: list[int] = []
        try:
            fds.append(os.memfd_create("sundog-queue"))
            os.ftruncate(fds[0], _HEADER_BYTES + capacity)
            token = int.from_bytes(os.urandom(8), "little")
            for word, value in ((TOKEN, token), (LIMIT, limit), (CAPACITY, capacity)):
                os.pwrite(fds[0], value.to_bytes(8, "little"), 8 * word)
            for _ in range(3):
                read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
                fds += [read, write]
                # Each pipe by one descriptor, for both directions.
                fds[-2:] = [os.open(f"/proc/self/fd/{read}", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)]
                os.close(read)
                os.close(write)
            return cls(fds[0], fds[1], fds[2], fds[3], -1)
        except BaseException:
            _close_all(fds)
            raise

    def place(self) -> RingPlace:
        """What another process opens it by."""
        return RingPlace(os.getpid(), self.memory, self.items, self.room, self.maker, self.words[TOKEN])

    @classmethod
    def open(cls, place: RingPlace) -> SharedRing:
        """The ring that another process of this user has made.

        Raises:
            OSError: its maker is dead, or there is no descriptor left.
        """
        fds: list[int] = []
        try:
            alive = os.pidfd_open(place.pid)
            fds.append(alive)
            if not trust.is_own_process(place.pid):
                raise ProcessLookupError(f"pid {place.pid} belongs to another process now")
            for number in place[1:5]:
                flags = os.O_RDWR | os.O_CLOEXEC | (os.O_NONBLOCK if number != place.memory else 0)
                fds.append(os.open(f"/proc/{place.pid}/fd/{number}", flags))
            if os.pread(fds[1], 8, 0) != place.token.to_bytes(8, "little"):
                raise ProcessLookupError(f"pid {place.pid} belongs to another process now")
            return cls(fds[1], fds[2], fds[3], fds[4], alive)
        except BaseException:
            _close_all(fds)
            raise

    def close(self) -> None:
        """Give up the descriptors and the mapping; no thread may be in a step."""
        self._let_go()
        self.memory = self._alive = -1

    def is_over(self) -> bool:
        """Whether the maker is dead; found out within a millisecond."""
        now = _perf()
        if now - self._looked_s < _LOOK_S:
            return False
        alive = self._alive  # another thread may close the ring meanwhile
        if alive < 0:
            return True
        # Each look has a poll object of its own: two threads may not poll one object at the same time.
        looked = select.poll()
        looked.register(alive, select.POLLIN)
        if looked.poll(0):
            return True
        self._looked_s = now
        return False

    # ------------------------------------------------------------------ steps
    def put(self, record: bytes, waited: bool = False, waits: bool = False, by_maker: bool = False) -> int:
        """Add a record (as `sealed` gives it): DONE, FULL or ASK.

        Args:
            record: What to add.
            waited: This caller is counted as one of the putters, and is not any more.
            waits: If the answer is FULL, count it as one.
            by_maker: The maker itself calls.
        """
        words, memory = self.words, self.memory
        wake = False
        with self._mutex:
            _lock_file(memory, _EXCLUSIVE)
            try:
                if waited and words[PUTTERS]:
                    words[PUTTERS] -= 1
                put, got = words[PUTS], words[GETS]
                count = ((put >> 32) - (got >> 32)) & _MASK
                if not by_maker and words[THEIR_PUTTERS]:
                    return ASK  # calls that wait at the maker are served first
                if self.limit and count + words[BESIDE] >= self.limit:
                    words[PUTTERS] += waits
                    return FULL
                if words[BESIDE]:
                    return ASK
                at = self._room_for(len(record), put & _MASK, got & _MASK, count)
                if at < 0:
                    return ASK
                self._store(record, at)
                if words[THEIR_GETTERS] and not by_maker:
                    self._tell(
                        self.maker
                    )  # before the change: no other process would wake them if this process died here
                wake = words[GETTERS] > 0
                words[PUTS] = ((((put >> 32) + 1) & _MASK) << 32) | (at + len(record))
            finally:
                _lock_file(memory, _UNLOCK)
        if wake:
            self._tell(self.items)
        return DONE

    def get(self, waited: bool = False, waits: bool = False, by_maker: bool = False) -> bytes | int:
        """Take the oldest record's bytes; or EMPTY, or ASK. The arguments are those of `put`."""
        words, memory = self.words, self.memory
        wake = False
        with self._mutex:
            _lock_file(memory, _EXCLUSIVE)
            try:
                if waited and words[GETTERS]:
                    words[GETTERS] -= 1
                put, got = words[PUTS], words[GETS]
                count = ((put >> 32) - (got >> 32)) & _MASK
                if not by_maker and words[THEIR_GETTERS]:
                    return ASK
                if not count:
                    if words[BESIDE]:
                        return ASK
                    words[GETTERS] += waits
                    return EMPTY
                at, first = got & _MASK, self._first
                if at >= self._capacity or words[first + at // 8] == _SKIP:
                    at = 0
                size = words[first + at // 8]
                found = self._load(at + 8, size)
                left = count + words[BESIDE] - 1
                if words[THEIR_PUTTERS] and not by_maker and (left == self.low or not words[TOLD]):
                    self._tell(self.maker)
                    words[TOLD] = 1
                wake = words[PUTTERS] > 0 and left <= self.low
                words[GETS] = ((((got >> 32) + 1) & _MASK) << 32) | (at + 8 + size + (-size & 7))
            finally:
                _lock_file(memory, _UNLOCK)
        if wake:
            self._tell(self.room)
        return found

    def put_all(self, records: list[bytes], by_maker: bool = False) -> int:
        """Add all the records at once: DONE, FULL if the limit forbids it, or ASK."""
        words, memory = self.words, self.memory
        with self._mutex:
            _lock_file(memory, _EXCLUSIVE)
            try:
                put, got = words[PUTS], words[GETS]
                count = ((put >> 32) - (got >> 32)) & _MASK
                if self.limit and count + words[BESIDE] + len(records) > self.limit:
                    return FULL
                if words[BESIDE] or (not by_maker and words[THEIR_PUTTERS]):
                    return ASK
                tail, head, added = put & _MASK, got & _MASK, 0
                for record in records:
                    at = self._room_for(len(record), tail, head, count + added)
                    if at < 0:
                        return ASK
                    self._store(record, at)
                    tail = at + len(record)
                    added += 1
                if words[THEIR_GETTERS] and not by_maker:
                    self._tell(self.maker)
                wake = min(words[GETTERS], added)
                words[PUTS] = ((((put >> 32) + added) & _MASK) << 32) | tail
            finally:
                _lock_file(memory, _UNLOCK)
        for _ in range(wake):
            self._tell(self.items)
        return DONE

    def get_all(self, wanted: int, by_maker: bool = False) -> list[bytes] | int:
        """Take this many records at once; or EMPTY, or ASK.

        For the maker: this many items, of which those that are not in the list are counted out of what is beside.
        """
        words, memory, first = self.words, self.memory, self._first
        found = [b""] * wanted  # before the lock: see the module's guarantees
        with self._mutex:
            _lock_file(memory, _EXCLUSIVE)
            try:
                put, got = words[PUTS], words[GETS]
                count = ((put >> 32) - (got >> 32)) & _MASK
                if count + words[BESIDE] < wanted:
                    return EMPTY
                if not by_maker and (count < wanted or words[THEIR_GETTERS]):
                    return ASK
                at, taken = got & _MASK, 0
                while taken < wanted and taken < count:
                    if at >= self._capacity or words[first + at // 8] == _SKIP:
                        at = 0
                    size = words[first + at // 8]
                    found[taken] = self._load(at + 8, size)
                    at += 8 + size + (-size & 7)
                    taken += 1
                if words[THEIR_PUTTERS] and not by_maker:
                    self._tell(self.maker)
                wake = min(words[PUTTERS], wanted)
                words[GETS] = ((((got >> 32) + taken) & _MASK) << 32) | at
                words[BESIDE] -= wanted - taken
            finally:
                _lock_file(memory, _UNLOCK)
        for _ in range(wake):
            self._tell(self.room)
        return found[:taken]

    def _room_for(self, size: int, tail: int, head: int, count: int) -> int:
        """Where a record of this many bytes goes; -1 if it does not fit now."""
        capacity = self._capacity
        if count and tail <= head:
            return tail if tail + size <= head else -1
        if tail + size <= capacity:
            return tail
        if size > (head if count else capacity):
            return -1
        if tail < capacity:
            self.words[self._first + tail // 8] = _SKIP
        return 0

    def _store(self, record: bytes, at: int) -> None:
        """Write a record; it may not be there before its count is."""
        end, words = at + len(record), self.words
        if end <= words[FILLED]:
            self._map.seek(_HEADER_BYTES + at)
            self._map.write(record)
        else:
            if _pwrite(self.memory, record, _HEADER_BYTES + at) < len(record):
                raise OSError(errno.ENOSPC, "no memory left for the items of a queue")
            words[FILLED] = end

    def _load(self, at: int, size: int) -> bytes:
        self._map.seek(_HEADER_BYTES + at)
        return self._map.read(size)

    def note(self, word: int, by: int) -> None:
        """Count a waiter in or out; no less than none."""
        words, memory = self.words, self.memory
        with self._mutex:
            _lock_file(memory, _EXCLUSIVE)
            try:
                if by > 0 or words[word]:
                    words[word] += by
            finally:
                _lock_file(memory, _UNLOCK)

    def size(self) -> int:
        """How many items there are, here and beside."""
        words, memory = self.words, self.memory
        with self._mutex:
            _lock_file(memory, _EXCLUSIVE)
            try:
                return (((words[PUTS] >> 32) - (words[GETS] >> 32)) & _MASK) + words[BESIDE]
            finally:
                _lock_file(memory, _UNLOCK)

    def move_in(self, record: bytes) -> bool:
        """For the maker: the oldest item beside the ring becomes its youngest; False if it does not fit."""
        words, memory = self.words, self.memory
        with self._mutex:
            _lock_file(memory, _EXCLUSIVE)
            try:
                put, got = words[PUTS], words[GETS]
                count = ((put >> 32) - (got >> 32)) & _MASK
                at = self._room_for(len(record), put & _MASK, got & _MASK, count)
                if at < 0:
                    return False
                self._store(record, at)
                words[PUTS] = ((((put >> 32) + 1) & _MASK) << 32) | (at + len(record))
                words[BESIDE] -= 1
                return True
            finally:
                _lock_file(memory, _UNLOCK)

    def add_beside(self, added: int = 1) -> bool:
        """For the maker: count more items beside the ring; False if there is no room for them."""
        words, memory = self.words, self.memory
        with self._mutex:
            _lock_file(memory, _EXCLUSIVE)
            try:
                count = ((words[PUTS] >> 32) - (words[GETS] >> 32)) & _MASK
                if self.limit and count + words[BESIDE] + added > self.limit:
                    return False
                words[BESIDE] += added
                return True
            finally:
                _lock_file(memory, _UNLOCK)

    def heard(self) -> None:
        """For the maker: it looks now. What others do from here on is told again."""
        hear(self.maker, 4096)
        self.words[TOLD] = 0

    def _tell(self, pipe: int) -> None:
        try:
            os.write(pipe, b"x")
        except OSError:
            pass  # the pipe is full, so its reader is woken anyway

    def tell_getter(self) -> None:
        """Have one of the processes that wait for an item look again."""
        if self.words[GETTERS]:
            self._tell(self.items)

    def tell_putter(self) -> None:
        """Have one of the processes that wait for room look again."""
        if self.words[PUTTERS]:
            self._tell(self.room)


class _Turn:
    """What the views of one ring in this process share: a step of one waits for a step, or the closing, of another.

    The file's lock belongs to the process: it does not keep two of its threads apart, and the closing of any
    descriptor of the file ends it. `views` is how many there are; -1: the last one is closed.
    """

    __slots__ = ("mutex", "token", "views")

    def __init__(self, token: int) -> None:
        self.token = token
        self.mutex = _mutex()
        self.views = 0


_turns: dict[int, _Turn] = {}


def _join(token: int) -> _Turn:
    while True:
        turn = _turns.setdefault(token, _Turn(token))
        with turn.mutex:
            if turn.views >= 0:
                turn.views += 1
                return turn


def _let_go(turn: _Turn, words: memoryview[int], mapped: mmap.mmap, fds: list[int]) -> None:
    with turn.mutex:
        words.release()
        mapped.close()
        _close_all(fds)
        turn.views -= 1
        if not turn.views:
            turn.views = -1
            _turns.pop(turn.token, None)


class _Uncollected:
    """A lock that its thread holds while the garbage collector is off.

    From Python 3.12 on the collector may run between any two steps of the interpreter. A finaliser that puts into the
    same ring would then wait for the lock that its own thread holds. Threads in several rings may switch the collector
    on a little early for each other; it never stays off.
    """

    __slots__ = ("_lock", "_was_on")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._was_on = False

    def __enter__(self) -> None:
        was_on = gc.isenabled()
        gc.disable()
        try:
            self._lock.acquire()
        except BaseException:
            if was_on:
                gc.enable()
            raise
        self._was_on = was_on

    def __exit__(self, *exc: object) -> None:
        was_on = self._was_on
        self._lock.release()
        if was_on:
            gc.enable()


def _mutex() -> threading.Lock | _Uncollected:
    return threading.Lock() if sys.version_info < (3, 12) else _Uncollected()


def _low(limit: int) -> int:
    """How few items are left when processes that wait for room are woken: many puts then follow without a wait.

    In a long queue enough items are left for its readers until the writers run again; in a short one that would not
    be so, and it would hardly ever be full.

    Example:
        >>> _low(100), _low(8), _low(1)
        (25, 6, 0)
    """
    return limit // 4 if limit >= _LONG else limit - max(1, limit // 4)


def sealed(stream: bytes) -> bytes:
    """A record of these bytes.

    Example:
        >>> sealed(b"abc")[8:]
        b'abc\\x00\\x00\\x00\\x00\\x00'
    """
    size = len(stream)
    return size.to_bytes(8, "little") + stream + _PADDING[size & 7]


def hear(pipe: int, count: int = 1) -> None:
    """Take a note out of a waiter's pipe, or up to this many, if there are any."""
    try:
        os.read(pipe, count)
    except OSError:
        pass


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        try:
            os.close(fd)
        except OSError:
            pass


_rings: WeakSet[SharedRing] = WeakSet()


def _forked() -> None:
    """In a child process: another thread may have been in a step at the fork. The lock of the file is the parent's."""
    for turn in list(_turns.values()):
        turn.mutex = _mutex()
    for ring in list(_rings):
        ring._mutex = ring._turn.mutex


os.register_at_fork(after_in_child=_forked)
