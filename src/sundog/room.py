"""Room in a file, taken before the file is written through a mapping.

A write to a mapped page for which the file system has no room is a SIGBUS, which no program survives; to take the room
first is an error that can be handled. Used by every process, any thread.
"""

from __future__ import annotations

import contextlib
import errno
import os

_NOT_THERE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_PIECE_BYTES = 1 << 20


def reserve(fd: int, old: int, size: int) -> None:
    """Make a file `size` bytes long, with room for all of them; of its first `old` bytes there is room already.

    Raises:
        OSError: there is no room, and the file is as it was; or it is shorter than `old`: another file has its name.
    """
    if os.fstat(fd).st_size < old:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
    try:
        try:
            os.posix_fallocate(fd, 0, size)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
            _write_zeros(fd, old, size)  # the C library or the file system cannot reserve space
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(fd, old)
        raise


def _write_zeros(fd: int, at: int, end: int) -> None:
    while at < end:
        at += os.pwrite(fd, bytes(min(end - at, _PIECE_BYTES)), at)
