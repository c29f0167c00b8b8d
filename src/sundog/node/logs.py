"""Reading what workers print: from their log files to batches of lines with the right name.

```
 worker/stdio.py ─► worker-….out, .out.1, … ─► LogTail (one worker) ─► LogTails (all) ─► batches ─► drivers
```

Owns: how far each log file has been read, the parsing of the marker lines that `worker/stdio.py` writes
(its docstring has the format), and when to look again. Refuses: threads, inotify, sockets, and dropping a
line. What a slow driver cannot take is the caller's decision: `pending_bytes` says how much waits in the
files. Runs in the node program, on its event loop; nothing here blocks beyond reading a local file.

Guarantees: every byte of a file is read once, in order; a line is held back until its newline, and shown
anyway when its worker is dead or when it grows past 1 MiB. A carriage return ends a *progress* line: it is
handed over with its `\\r` at the end, so that the driver may overwrite it. Rotation is followed by the part
numbers inside the files, and parts that were deleted unread are named, never skipped in silence.
"""

from __future__ import annotations

import heapq
import itertools
import os

from sundog.node.crash_reports import CrashReports
from sundog.plain import NamedTuple
from sundog.wire.marks import LITERAL, MARK, find_mark

# A longer line is passed on in pieces: the node must not hold a line of 100 MB in memory.
LINE_MAX_BYTES = 1024 * 1024
# A marker shorter than this is never divided by the cut of a long line.
_MARKER_MAX_BYTES = 4096
_READ_BYTES = 256 * 1024
_HEADER_BYTES = 64
SHORTEST_POLL_S = 0.01
LONGEST_POLL_S = 0.25


class LogBatch(NamedTuple):
    """Consecutive lines of one worker, one stream and one name; a plain tuple on the wire."""

    worker_id: bytes
    pid: int
    job_id: bytes
    name: str
    is_err: bool
    lines: list[str]


class LineParser:
    """Bytes in, `(name, line)` out; the pure part of the reader."""

    def __init__(self) -> None:
        self.name = ""
        self.part = 0
        self.next_part: int | None = None
        self._held = b""

    def feed(self, chunk: bytes) -> list[tuple[str, str]]:
        """Take the next bytes of the file and return the lines that they complete."""
        data = self._held + chunk if self._held else chunk
        lines = data.split(b"\n")
        self._held = lines.pop()
        out: list[tuple[str, str]] = []
        if MARK not in data and b"\r" not in data:
            out = [(self.name, line.decode("utf-8", "backslashreplace")) for line in lines]
        else:
            for line in lines:
                self._finish_line(line, out)
            self._release_progress(out)
        while len(self._held) > LINE_MAX_BYTES:
            self._cut_long_line(out)
        return out

    def finish(self) -> list[tuple[str, str]]:
        """No more bytes will come: hand over the unfinished line, if there is one."""
        line, self._held = self._held, b""
        out: list[tuple[str, str]] = []
        if line:
            self._finish_line(line, out)
        return out

    def _finish_line(self, line: bytes, out: list[tuple[str, str]]) -> None:
        found = find_mark(line)
        if found is None:
            self._emit(line[:-1] if line.endswith(b"\r") else line, out)
            return
        start, key, value = found
        if start:
            # Unfinished text before the marker ends here, and belongs to the name before the marker.
            self._emit(line[:start], out)
        if key == b"name":
            from urllib.parse import unquote

            shown, _, _task = value.partition(b"&")
            self.name = unquote(shown.decode("ascii", "backslashreplace"))
        elif value.isdigit():
            if key == b"part":
                self.part = int(value)
            else:
                self.next_part = int(value)

    def _emit(self, line: bytes, out: list[tuple[str, str]], *, progress: bool = False) -> None:
        if MARK in line:
            line = line.replace(LITERAL, MARK)
        *overwritten, last = line.split(b"\r")
        for segment in overwritten:
            if segment:
                out.append((self.name, segment.decode("utf-8", "backslashreplace") + "\r"))
        if not progress:
            out.append((self.name, last.decode("utf-8", "backslashreplace")))

    def _release_progress(self, out: list[tuple[str, str]]) -> None:
        # A carriage return at the end may be the first half of "\r
        # ", and a marker byte the start of a marker.
        end = self._held.rfind(b"\r", 0, len(self._held) - 1) + 1
        if end and MARK not in self._held[:end]:
            released, self._held = self._held[:end], self._held[end:]
            self._emit(released, out, progress=True)

    def _cut_long_line(self, out: list[tuple[str, str]]) -> None:
        cut = LINE_MAX_BYTES
        marker = self._held.rfind(MARK, max(1, cut - _MARKER_MAX_BYTES), cut)
        if marker > 0:
            cut = marker
        while cut > LINE_MAX_BYTES - _MARKER_MAX_BYTES - 4 and self._held[cut] & 0xC0 == 0x80:
            cut -= 1  # not inside a UTF-8 sequence
        piece, self._held = self._held[:cut], self._held[cut:]
        self._emit(piece, out)


class _Part:
    """One open file of a rotation chain, and how far it has been read."""

    def __init__(self, fd: int, number: int) -> None:
        self.fd = fd
        self.number = number
        self.offset = 0
        self.size = 0
        self.unlinked = False
        self.parser = LineParser()

    def refresh(self) -> int:
        """Look at the file's size; returns how many bytes are unread."""
        stat = os.fstat(self.fd)
        self.size, self.unlinked = stat.st_size, stat.st_nlink == 0
        if self.size < self.offset:
            # Another program truncated the file: its present content has not been read.
            self.offset, self.parser = 0, LineParser()
        return self.size - self.offset

    def read(self, limit: int) -> bytes:
        data = os.pread(self.fd, min(limit, _READ_BYTES, self.size - self.offset), self.offset)
        self.offset += len(data)
        return data


class _FileTail:
    """One log file through all of its rotations. Old parts stay open while they have a name on disk: a
    subprocess that was started before a rotation keeps writing into them."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._parts: list[_Part] = []

    @property
    def pending_bytes(self) -> int:
        """Unread bytes, as of the last look."""
        return sum(part.size - part.offset for part in self._parts)

    def is_empty(self) -> bool:
        """Whether nothing was ever written, at the price of one stat call."""
        if self._parts:
            return False
        try:
            return os.stat(self.path).st_size == 0
        except FileNotFoundError:
            return False  # not created yet, or in its first rotation

    def poll(self, budget: int, final: bool) -> tuple[list[tuple[str, str]], int]:
        """Read up to `budget` bytes; returns the lines and the bytes taken."""
        out: list[tuple[str, str]] = []
        left = budget
        if not self._parts and not self._open_first(out):
            return out, 0
        index = 0
        while index < len(self._parts) and left > 0:
            part = self._parts[index]
            unread = part.refresh()
            while unread > 0 and left > 0:
                data = part.read(left)
                if not data:
                    break
                left -= len(data)
                unread -= len(data)
                out += part.parser.feed(data)
            if unread > 0:
                break  # the budget is used up, and a later part must not be read before this one
            if index == len(self._parts) - 1 and part.parser.next_part is not None:
                self._open_next(part.parser.next_part, out)
            if final or index < len(self._parts) - 1:
                out += part.parser.finish()
            index += 1
        self._drop_deleted()
        return out, budget - left

    def close(self) -> None:
        for part in self._parts:
            os.close(part.fd)
        self._parts = []

    def _open_first(self, out: list[tuple[str, str]]) -> bool:
        # Most workers never print: no descriptor is spent on an empty file.
        return not self.is_empty() and self._open_next(0, out)

    def _open_next(self, number: int, out: list[tuple[str, str]]) -> bool:
        """Open part `number`, or the oldest later one if it was deleted already (and say so)."""
        found = self._find(number)
        if found is None:
            return False  # the writer is between two steps of a rotation: try again at the next poll
        if found.number > number:
            missing = found.number - number
            note = f"[sundog] {missing} rotated log file(s) of {self.path} were deleted before they were read"
            out.append(("", note))
        self._parts.append(found)
        return True

    def _find(self, number: int) -> _Part | None:
        best: _Part | None = None
        # In the direction in which rotation renames files: a file that is renamed now is met twice, never
        # missed.
        names = itertools.chain(
            (self.path, self.path + ".new"), (f"{self.path}.{index}" for index in itertools.count(1))
        )
        for position, name in enumerate(names):
            part = _open_part(name)
            if part is None:
                if position >= 2:
                    return best
            elif part.number < number or (best is not None and part.number >= best.number):
                os.close(part.fd)
            else:
                if best is not None:
                    os.close(best.fd)
                best = part
        return best

    def _drop_deleted(self) -> None:
        for part in self._parts[:-1]:
            if part.unlinked and part.offset >= part.size:
                os.close(part.fd)
                self._parts.remove(part)


def _open_part(path: str) -> _Part | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    header = os.pread(fd, _HEADER_BYTES, 0)
    if not header and path.endswith(".new"):
        os.close(fd)
        return None  # the header is not written yet
    parser = LineParser()
    if header.startswith(MARK + b"part="):
        parser.feed(header)
    return _Part(fd, parser.part)


class LogTail:
    """Incremental reader of one worker's pair of log files."""

    def __init__(self, worker_id: bytes, pid: int, job_id: bytes, out_path: str, err_path: str) -> None:
        self.worker_id = worker_id
        self.pid = pid
        self.job_id = job_id
        self.out_path = out_path
        self.err_path = err_path
        self._files = (_FileTail(out_path), _FileTail(err_path))
        self._crashes = CrashReports(err_path)

    @property
    def pending_bytes(self) -> int:
        """Bytes in the files that have not been read, as of the last poll."""
        return sum(file.pending_bytes for file in self._files)

    def is_silent(self) -> bool:
        """Whether the worker has never printed."""
        return self._files[0].is_empty() and self._files[1].is_empty()

    def poll(self, budget_bytes: int, *, final: bool = False) -> list[LogBatch]:
        """Read what is new, at most about `budget_bytes`.

        Args:
            budget_bytes: how much to read from both files together.
            final: the worker is dead; a last line without a newline is handed over as well.
        """
        batches: list[LogBatch] = []
        for is_err, file in enumerate(self._files):
            # Half of the budget each, so that much output on stdout does not delay a traceback on stderr.
            share = budget_bytes if is_err else (budget_bytes + 1) // 2
            lines, taken = file.poll(share, final)
            budget_bytes -= taken
            if is_err and lines:
                lines = self._crashes.fold(lines)
            for name, group in itertools.groupby(lines, key=lambda pair: pair[0]):
                text = [line for _, line in group]
                batches.append(LogBatch(self.worker_id, self.pid, self.job_id, name, bool(is_err), text))
        return batches

    def close(self) -> None:
        """Close the files; nothing is deleted."""
        for file in self._files:
            file.close()


class _Entry:
    def __init__(self, tail: LogTail) -> None:
        self.tail = tail
        self.ticket = 0
        self.interval_s = SHORTEST_POLL_S
        self.finishing = False


class LogTails:
    """The readers of all workers of a node, each looked at as often as it has been talkative.

    A worker that prints is looked at every 10 ms, a silent one less and less often, up to every 250 ms, at
    the price of two stat calls. One call does a bounded amount of work.

    Args:
        budget_bytes: read at most about this much per `poll`.
        per_worker_bytes: and at most this much from one worker, so that a flood does not delay the others.
    """

    def __init__(self, *, budget_bytes: int = 4 * 1024 * 1024, per_worker_bytes: int = 512 * 1024) -> None:
        self._budget_bytes = budget_bytes
        self._per_worker_bytes = per_worker_bytes
        self._entries: dict[bytes, _Entry] = {}
        self._heap: list[tuple[float, int, bytes]] = []
        self._order = itertools.count(1)

    def __len__(self) -> int:
        return len(self._entries)

    def follows(self, worker_id: bytes) -> bool:
        """Whether a worker's output may not have been read to its end."""
        return worker_id in self._entries

    @property
    def pending_bytes(self) -> int:
        """Bytes in all files that have not been read, as of each file's last look."""
        return sum(entry.tail.pending_bytes for entry in self._entries.values())

    def add(self, worker_id: bytes, pid: int, job_id: bytes, out_path: str, err_path: str) -> None:
        """Start following a worker; its files need not exist yet.

        Raises:
            ValueError: this worker is being followed already.
        """
        if worker_id in self._entries:
            raise ValueError(f"the logs of worker {worker_id.hex()} are being followed already")
        self._entries[worker_id] = _Entry(LogTail(worker_id, pid, job_id, out_path, err_path))
        self._schedule(worker_id, 0.0)

    def finish(self, worker_id: bytes) -> None:
        """The worker is dead: the coming polls read its files to their end and then close them."""
        entry = self._entries.get(worker_id)
        if entry is not None:
            entry.finishing = True
            self._schedule(worker_id, 0.0)

    def wake(self, worker_id: bytes) -> None:
        """The worker has probably printed (its task ended): look at it in the next poll."""
        if worker_id in self._entries:
            self._schedule(worker_id, 0.0)

    def next_poll_in_s(self, now: float) -> float | None:
        """How long until the next `poll` has something to look at; None when no worker is followed."""
        self._skip_stale()
        return max(0.0, self._heap[0][0] - now) if self._heap else None

    def poll(self, now: float) -> list[LogBatch]:
        """Read from every worker that is due, oldest first, within the budget."""
        batches: list[LogBatch] = []
        left = self._budget_bytes
        again: list[tuple[bytes, float]] = []
        while left > 0:
            self._skip_stale()
            if not self._heap or self._heap[0][0] > now:
                break
            worker_id = heapq.heappop(self._heap)[2]
            entry = self._entries[worker_id]
            if not entry.finishing and entry.tail.is_silent():
                # Nearly all looks at a session with many actors end here.
                entry.interval_s = min(LONGEST_POLL_S, entry.interval_s * 2)
                again.append((worker_id, now + entry.interval_s))
                continue
            found = entry.tail.poll(min(left, self._per_worker_bytes), final=entry.finishing)
            pending = entry.tail.pending_bytes
            left -= sum(len(line) + 1 for batch in found for line in batch.lines)
            batches += found
            if entry.finishing and not pending and not found:
                entry.tail.close()
                del self._entries[worker_id]
                continue
            if found or pending or entry.finishing:
                entry.interval_s = SHORTEST_POLL_S
            else:
                entry.interval_s = min(LONGEST_POLL_S, entry.interval_s * 2)
            again.append((worker_id, now if pending or entry.finishing else now + entry.interval_s))
        for worker_id, due in again:
            self._schedule(worker_id, due)
        return batches

    def close(self) -> None:
        """Close every file."""
        for entry in self._entries.values():
            entry.tail.close()
        self._entries.clear()
        self._heap.clear()

    def _schedule(self, worker_id: bytes, due: float) -> None:
        ticket = self._entries[worker_id].ticket = next(self._order)
        heapq.heappush(self._heap, (due, ticket, worker_id))

    def _skip_stale(self) -> None:
        # An entry that moved to another time leaves its old place in the heap.
        while self._heap:
            _, ticket, worker_id = self._heap[0]
            entry = self._entries.get(worker_id)
            if entry is not None and entry.ticket == ticket:
                return
            heapq.heappop(self._heap)
