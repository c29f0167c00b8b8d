"""Segments: the complete history of a session, appended to files as it was written, 64 bytes an event.

::

    rings/*.ring ──copy──► records/00000001.seg, 00000002.seg, …   (the node writes, `node/records.py`)
                           │ header · block · block · …
                           block: header (64 bytes) · payload, filled up to a multiple of 64 bytes

    EVENTS  slots of one ring, as they are: `events.EVENT`, each with its number
    NAMES   the file of names and notes of a process that is gone
    FACTS   lines of JSON that the node wrote: processes, actors, kills, spills, samples of the machine

Owns the layout, the writer with its quota, and the scan of the blocks. A segment's header says how many events were
written before it, so a reader knows how many it missed when the oldest segments are gone. A block that is cut off, at
the end of a file whose writer was killed or whose disk was full, is not read. Refuses: knowing what an event means.
The node writes, on its only thread; any process reads.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from struct import Struct

from sundog.events import EVENT_BYTES
from sundog.plain import plain

FOLDER = "records"
VERSION = 1
EVENTS, NAMES, FACTS = 1, 2, 3
DRIVER, WORKER, NODE = "driver", "worker", "node"
SEGMENT_EVENTS = 65_536
_ROLES = (DRIVER, WORKER, NODE)
_MAGIC = b"SUNDOGSG"
_BLOCK_MAGIC = b"BLK\x01"
_HEADER = Struct("<8sHxxxxxx16sdQ16x")
_BLOCK = Struct("<4sBBxxI8sIxxxxQ4s16sQ")
HEADER_BYTES = _HEADER.size
assert _HEADER.size == _BLOCK.size == EVENT_BYTES


@plain(frozen=True)
class Block:
    """What is known of a block before its payload is read."""

    kind: int
    process_id: bytes
    pid: int
    role: str
    job_id: bytes
    actor_id: bytes
    first: int  # the number of the first event, of EVENTS
    unwritten: int  # events that its process could not write so far, for the disk was full
    size: int  # bytes of payload
    offset: int  # of the payload, in the segment

    @property
    def slots(self) -> int:
        """How many events it counts for: a text counts for as many as would take its room."""
        return -(-self.size // EVENT_BYTES)


@plain(frozen=True)
class Segment:
    """A segment that is there, from its header."""

    path: str
    number: int
    node_id: bytes
    created_s: float
    before: int  # events in the segments before it


def path_of(session_path: str, number: int) -> str:
    """Where a segment is."""
    return f"{session_path}/{FOLDER}/{number:08d}.seg"


def list_segments(session_path: str) -> list[Segment]:
    """The segments of a session, the oldest first. What is none, or of another version, is left out."""
    found = []
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(f"{session_path}/{FOLDER}")):
            if name.endswith(".seg") and name[:-4].isdigit():
                segment = _read_header(f"{session_path}/{FOLDER}/{name}", int(name[:-4]))
                if segment is not None:
                    found.append(segment)
    return found


def _read_header(path: str, number: int) -> Segment | None:
    try:
        with open(path, "rb") as file:
            header = file.read(HEADER_BYTES)
    except OSError:
        return None
    if len(header) < HEADER_BYTES:
        return None
    magic, version, node_id, created_s, before = _HEADER.unpack(header)
    if magic != _MAGIC or version != VERSION:
        return None
    return Segment(path, number, node_id, created_s, before)


def scan(segment: Segment, offset: int = HEADER_BYTES) -> Iterator[Block]:
    """The whole blocks of a segment from an offset on; their payloads are not read."""
    try:
        with open(segment.path, "rb") as file:
            end = os.fstat(file.fileno()).st_size
            while offset + EVENT_BYTES <= end:
                file.seek(offset)
                header = file.read(EVENT_BYTES)
                magic, kind, role, size, process_id, pid, first, job, actor, unwritten = _BLOCK.unpack(header)
                offset += EVENT_BYTES
                if magic != _BLOCK_MAGIC or role >= len(_ROLES) or offset + size > end:
                    return
                actor = actor if any(actor) else b""
                yield Block(kind, process_id, pid, _ROLES[role], job, actor, first, unwritten, size, offset)
                offset += _filled(size)
    except OSError:
        return


def after(block: Block) -> int:
    """The offset at which the next block begins."""
    return block.offset + _filled(block.size)


class SegmentFollower:
    """Reads the blocks of a session's segments as they are written, each block once.

    Args:
        session_path: The session's folder.
        whole: From the session's beginning; otherwise from the end of the newest segment.
    """

    def __init__(self, session_path: str, *, whole: bool = True) -> None:
        self._path = session_path
        self._number, self._offset = 0, HEADER_BYTES
        if not whole:
            for segment in list_segments(session_path)[-1:]:
                self._number, self._offset = segment.number, os.path.getsize(segment.path)

    def new_blocks(self) -> Iterator[tuple[Segment, Block]]:
        """The blocks that were written since the last call, in order."""
        for segment in list_segments(self._path):
            if segment.number < self._number:
                continue
            if segment.number > self._number:
                self._number, self._offset = segment.number, HEADER_BYTES
            for block in scan(segment, self._offset):
                self._offset = after(block)
                yield segment, block


def payload(segment: Segment, block: Block) -> bytes:
    """What a block holds; b"" if its segment is gone."""
    try:
        with open(segment.path, "rb") as file:
            return os.pread(file.fileno(), block.size, block.offset)
    except OSError:
        return b""


def _filled(size: int) -> int:
    return -(-size // EVENT_BYTES) * EVENT_BYTES


class Writer:
    """Appends blocks, and removes the oldest segments beyond the quota.

    Args:
        session_path: the session's folder.
        node_id: whose history it is.
        most: events that are kept.
        age_s: how long a segment is kept after it was begun; 0 for ever.
    """

    def __init__(self, session_path: str, node_id: bytes, most: int, age_s: float) -> None:
        self.session_path = session_path
        self.node_id = node_id
        self.most = most
        self.age_s = age_s
        self.written = 0  # events, of all segments
        self._fd = -1
        self._room = 0
        self._offset = 0
        self._number = 0
        self._kept: list[tuple[int, int, float]] = []  # segment, events before it, when it was begun

    def append(
        self,
        kind: int,
        data: bytes,
        process_id: bytes,
        *,
        pid: int = 0,
        role: str = NODE,
        job_id: bytes = b"",
        actor_id: bytes = b"",
        first: int = 0,
        unwritten: int = 0,
    ) -> None:
        """Append a block, whole or not at all.

        Raises:
            OSError: the disk is full, or the folder is gone.
        """
        if self._room <= 0:
            self._begin()
        header = _BLOCK.pack(
            _BLOCK_MAGIC,
            kind,
            _ROLES.index(role),
            len(data),
            process_id,
            pid,
            first,
            job_id,
            actor_id,
            unwritten,
        )
        block = header + data + bytes(_filled(len(data)) - len(data))
        if os.pwrite(self._fd, block, self._offset) != len(block):
            os.ftruncate(self._fd, self._offset)
            raise OSError(28, os.strerror(28))
        self._offset += len(block)
        slots = _filled(len(data)) // EVENT_BYTES
        self._room -= slots
        self.written += slots

    def _begin(self) -> None:
        """Begin the next segment."""
        folder = f"{self.session_path}/{FOLDER}"
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        path = path_of(self.session_path, self._number + 1)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        header = _HEADER.pack(_MAGIC, VERSION, self.node_id, time.time(), self.written)
        try:
            if os.pwrite(fd, header, 0) != len(header):
                raise OSError(28, os.strerror(28))
        except OSError:
            os.close(fd)
            os.unlink(path)
            raise
        self.close()
        self._fd, self._offset, self._room = fd, HEADER_BYTES, min(SEGMENT_EVENTS, max(64, self.most // 8))
        self._number += 1
        self._kept.append((self._number, self.written, time.time()))

    def surplus(self) -> list[str]:
        """Segments beyond the quota, the oldest first; the one that is written never is."""
        found = []
        wall_s = time.time()
        for (number, before, _), (_, next_before, next_begun) in zip(self._kept, self._kept[1:]):
            # By its youngest event: the next segment's beginning.
            is_old = self.age_s > 0 and wall_s - next_begun > self.age_s
            if self.written - next_before < self.most - (next_before - before) and not is_old:
                break
            found.append(path_of(self.session_path, number))
        return found

    def removed(self, path: str) -> None:
        """A segment of `surplus` is gone."""
        self._kept = [each for each in self._kept if path_of(self.session_path, each[0]) != path]

    def anew(self) -> None:
        """The folder was removed under us: continue in a new segment."""
        self.close()
        self._kept = []

    def close(self) -> None:
        """Close the segment that is written; the next block begins another."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._room = -1, 0
