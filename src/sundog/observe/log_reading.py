"""Reads the log files of workers: whole, from the end, or as they grow; of one task or attempt, or of all.

Owns the order of a log's rotated parts, whose lines are whose (marks of `wire/marks.py`, which are left out), and the
following of a file through its rotations. A line ends with a newline and nothing else: `\\r`, several lines of one
print and lines of JSON come out as they went in. Reads files; any process.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterator

from sundog.wire.marks import LITERAL, MARK, find_mark

TASK_DIGITS = 32  # of a task's id; what follows it in a mark is the number of the attempt, from the second on
_CHUNK_BYTES = 1 << 20


class AttributedLines:
    """Takes the lines of a log in order; knows whose they are.

    Args:
        task: Only lines of this task; "" for all.
        attempt: Only of this attempt of it; None for all.
    """

    def __init__(self, task: str = "", attempt: int | None = None) -> None:
        self._task, self._attempt = task, attempt
        self._wanted = not task

    def take(self, line: bytes) -> bytes | None:
        """The line as it was printed, if it is wanted; None for a mark, or a line of another task."""
        body = line[:-1] if line.endswith(b"\n") else line
        wanted = self._wanted
        found = find_mark(body)
        if found is None:
            return line.replace(LITERAL, MARK) if wanted else None
        start, key, value = found
        if key == b"name":
            self._begin(value.partition(b"&")[2].decode("ascii", "replace"))
        return body[:start].replace(LITERAL, MARK) + b"\n" if start and wanted else None

    def _begin(self, whose: str) -> None:
        task, attempt = whose[:TASK_DIGITS], whose[TASK_DIGITS:]
        self._wanted = not self._task or (
            task == self._task and (self._attempt is None or int(attempt or "0", 16) == self._attempt)
        )

    def release(self, rest: bytes) -> tuple[bytes, bytes]:
        """Of a line without an end: what a progress bar has drawn so far, and what is kept back."""
        end = rest.rfind(b"\r", 0, len(rest) - 1) + 1
        if not end or MARK in rest[:end]:
            return b"", rest
        return (rest[:end] if self._wanted else b""), rest[end:]


def parts(path: str) -> list[str]:
    """The parts of a log that was rotated, the oldest first."""
    older: list[str] = []
    while os.path.exists(f"{path}.{len(older) + 1}"):
        older.append(f"{path}.{len(older) + 1}")
    return [*reversed(older), path]


def read(path: str, task: str = "", attempt: int | None = None) -> Iterator[bytes]:
    """The wanted lines of a log, from its oldest part on."""
    lines = AttributedLines(task, attempt)
    for part in parts(path):
        try:
            with open(part, "rb") as file:
                for line in file:
                    taken = lines.take(line)
                    if taken is not None:
                        yield taken
        except OSError:
            continue  # rotated away meanwhile


def read_tail(path: str, most: int, task: str = "", attempt: int | None = None) -> list[bytes]:
    """The last lines of a log."""
    return list(deque(read(path, task, attempt), maxlen=most))


class Follower:
    """A log that is read on as it grows. It may not exist yet, and may be rotated."""

    def __init__(self, path: str, task: str = "", attempt: int | None = None) -> None:
        self.path = path
        self._lines = AttributedLines(task, attempt)
        self._fd = -1
        self._rest = b""

    def history(self, most: int = -1) -> bytes:
        """What is there already, or its last `most` lines."""
        kept: deque[bytes] = deque(maxlen=most if most >= 0 else None)
        for part in parts(self.path)[:-1]:
            with contextlib.suppress(OSError), open(part, "rb") as file:
                for line in file:
                    taken = self._lines.take(line)
                    if taken is not None:
                        kept.append(taken)
        kept.extend(self._new_lines())
        return b"".join(kept)

    def poll(self) -> bytes:
        """What was written since; b"" if nothing was."""
        text = b"".join(self._new_lines())
        drawn, self._rest = self._lines.release(self._rest)
        return text + drawn

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _new_lines(self) -> list[bytes]:
        found = self._read_on()
        if self._is_rotated():
            found += self._read_on()  # the last of the old part
            self.close()
            found += self._read_on()
        return found

    def _read_on(self) -> list[bytes]:
        if self._fd < 0:
            try:
                self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:
                return []
        found = []
        while data := os.read(self._fd, _CHUNK_BYTES):
            *whole, self._rest = (self._rest + data).split(b"\n")
            for line in whole:
                taken = self._lines.take(line + b"\n")
                if taken is not None:
                    found.append(taken)
        return found

    def _is_rotated(self) -> bool:
        if self._fd < 0:
            return False
        try:
            return os.stat(self.path).st_ino != os.fstat(self._fd).st_ino
        except OSError:
            return False  # in the middle of it
