"""Queue lengths that every process of Serve on this machine can read: one file, mapped by all of them.

::

            column of proxy 1 · column of proxy 2 · column of the driver …
    row of replica a      3             1                0         → 4 requests are in, or on their way to, a
    row of replica b      2             2                0         → 4

Each router writes its own column only, so no lock is needed, and reading a queue length costs no message. Owns the
file's layout. Two routers that read at the same moment may both take the last place of a replica; the replica
itself then refuses one of them. Runs in every process of Serve, any thread.
"""

from __future__ import annotations

import mmap
import os

from sundog.observe.serve_files import BOARD_BYTES, CELL_BYTES, COLUMNS, ROWS

_CELL = CELL_BYTES
SIZE = BOARD_BYTES


class QueueBoard:
    """The file, mapped."""

    def __init__(self, path: str, column: int) -> None:
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(path, flags)
        try:
            self._map = mmap.mmap(fd, SIZE)
        finally:
            os.close(fd)
        self._cells = memoryview(self._map).cast("H")
        self.column = column

    def total(self, row: int) -> int:
        """What all routers together have in a row."""
        return sum(self._cells[row * COLUMNS : row * COLUMNS + COLUMNS])

    def add(self, row: int, count: int) -> None:
        """Change this router's own cell."""
        index = row * COLUMNS + self.column
        self._cells[index] = min(65535, max(0, self._cells[index] + count))

    def clear_column(self, column: int) -> None:
        """A router is gone, or new."""
        for row in range(ROWS):
            self._cells[row * COLUMNS + column] = 0

    def clear_row(self, row: int) -> None:
        """A replica is gone, or new."""
        self._cells[row * COLUMNS : row * COLUMNS + COLUMNS] = memoryview(bytes(COLUMNS * _CELL)).cast("H")

    def close(self) -> None:
        """Release the mapping."""
        self._cells.release()
        self._map.close()


def create(path: str) -> None:
    """Make an empty file that only its owner can read; an existing file is kept."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if os.fstat(fd).st_size != SIZE:
            os.ftruncate(fd, SIZE)
    finally:
        os.close(fd)
