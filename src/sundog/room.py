"""Room in a file, taken before the file is written through a mapping.

A write to a mapped page for which the file system has no room is a SIGBUS, which no program survives; to take the room
first is an error that can be handled. Used by every process, any thread.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys

_NOT_THERE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
# One call for less than a millisecond: on tmpfs before Linux 6.18 a signal ends it with nothing reserved, so with a
# timer of the program's (a profiler) a long call would be begun again for ever.
_PIECE_BYTES = 1 << 20


# FS_IOC_GETFLAGS and FS_IOC_SETFLAGS of <linux/fs.h>, as most machines number them, and FS_NOCOW_FL.
_GET_FLAGS, _SET_FLAGS, _NO_COPY = 0x80086601, 0x40086602, 0x00800000


def _stay_in_place(fd: int) -> None:
    """Have a new file, still empty, keep the room that is reserved for it: btrfs writes each page to a new place, and
    without room for that a write through a mapping is a SIGBUS after all. On other file systems nothing happens.
    """
    flags = bytearray(8)
    with contextlib.suppress(OSError):
        fcntl.ioctl(fd, _GET_FLAGS, flags)
        wanted = int.from_bytes(flags, sys.byteorder) | _NO_COPY
        fcntl.ioctl(fd, _SET_FLAGS, wanted.to_bytes(8, sys.byteorder))


def reserve(fd: int, old: int, size: int) -> None:
    """Make a file `size` bytes long, with room for all of them; of its first `old` bytes there is room already.

    Raises:
        OSError: there is no room, and the file is as it was; or it is shorter than `old`: another file has its name.
    """
    before = os.fstat(fd).st_size
    if before < old:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
    if not before:
        _stay_in_place(fd)
    try:
        try:
            for at in range(0, size, _PIECE_BYTES):
                os.posix_fallocate(fd, at, min(size - at, _PIECE_BYTES))
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
