"""A mapping of a file that leaves the descriptors of the program alone.

Python's own `mmap` keeps a duplicate of the file's descriptor, changes the length of that file when the mapping grows,
and closes the duplicate at the end. If the program has closed all descriptors (a daemon does), the number may belong to
a file of the program's by then, which would be cut or closed. Owns the look before both. Runs in any process, any
thread.
"""

from __future__ import annotations

import errno
import mmap
import os

_abandoned: list[FileMap] = []  # never deleted: that would close the program's file


class FileMap(mmap.mmap):
    """As `mmap.mmap(fd, size)`, shared; it knows the number of its descriptor."""

    _number: int
    _file: tuple[int, int]

    def __new__(cls, fd: int, size: int) -> FileMap:
        """Map the first `size` bytes of a file.

        Raises:
            OSError: the kernel refuses.
        """
        number = os.dup(fd)  # the lowest number that is free: the mapping gets it next
        os.close(number)
        made = super().__new__(cls, fd, size)
        made._file = _file_of(fd)
        made._number = number
        if not made.has_descriptor():
            made._number = _other_number(fd)  # another thread was faster
        return made

    def has_descriptor(self) -> bool:
        """Whether the number of its descriptor still leads to its file."""
        try:
            return _file_of(self._number) == self._file
        except OSError:
            return False

    def resize(self, newsize: int) -> None:
        """Let the mapping and its file have another length.

        Raises:
            OSError: the program has closed the descriptor, or the kernel refuses.
        """
        if not self.has_descriptor():
            raise OSError(errno.EBADF, "the program has closed the descriptor of this file")
        super().resize(newsize)

    def close(self) -> None:
        """End the mapping; it stays if its descriptor's number belongs to the program now."""
        if self.has_descriptor():
            super().close()
        else:
            _abandoned.append(self)


def _file_of(fd: int) -> tuple[int, int]:
    info = os.fstat(fd)
    return info.st_dev, info.st_ino


def _other_number(fd: int) -> int:
    """The highest other descriptor of the same file; -1 if there is none."""
    wanted, found = _file_of(fd), -1
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        try:
            if number not in (fd, found) and _file_of(number) == wanted:
                found = max(found, number)
        except OSError:
            continue  # the descriptor of the listing itself
    return found
