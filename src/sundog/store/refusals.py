"""Why the system refused to write or read an object, in one sentence that names the limit.

Owns what the user reads when a process may not write an object, or not read it: its files must stay too small, it has
no file descriptor or address space left, or neither shared memory nor the disk takes the object. Where the limit is the
process' own, the error stays an `OSError` with its number, for it is not about the store. Runs in drivers and workers,
on the calling thread, after a failure only.
"""

from __future__ import annotations

import errno
import os
import resource

from sundog.exceptions import OutOfDiskError


def named(error: OSError, size: int) -> OSError:
    """What to raise for an error of the system that kept an object of `size` bytes from being written."""
    return _named(error, f"An object of {size:,} bytes cannot be stored")


def unread(error: OSError, size: int) -> OSError:
    """What to raise for an error of the system that kept an object of `size` bytes from being read."""
    return _named(error, f"An object in {size:,} bytes of shared memory cannot be read")


def _named(error: OSError, what: str) -> OSError:
    number = error.errno
    if number == errno.EFBIG:
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        allowed = "" if limit == resource.RLIM_INFINITY else f" of {limit:,} bytes"
        return OSError(
            number,
            f"{what}: this process may not write files larger than its limit{allowed}. Raise the limit before the "
            "program starts: ulimit -f unlimited",
        )
    if number == errno.EMFILE:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return OSError(
            number,
            f"{what}: this process has used up its {limit:,} file descriptors. Close files and sockets, or raise the "
            f"limit before the program starts: ulimit -n {_more(limit)}. What is open: ls -l /proc/{os.getpid()}/fd",
        )
    if number == errno.ENFILE:
        return OSError(
            number,
            f"{what}: the machine has used up its open files, those of all programs together. End programs, or raise "
            "the limit as root: sysctl fs.file-max",
        )
    if number == errno.ENOMEM:
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        allowed = (
            "This process may have a limited number of memory mappings: drop arrays that you no longer need, or raise "
            "the limit as root: sysctl vm.max_map_count"
            if limit == resource.RLIM_INFINITY
            else f"This process may have {limit:,} bytes of address space: raise the limit before the program starts: "
            "ulimit -v unlimited"
        )
        return OSError(number, f"{what}: there is no memory for the mapping. {allowed}")
    return error


def fits_nowhere(error: OSError, need: int, shared: str, disk: str) -> OutOfDiskError:
    """What to raise for an object that found room neither in shared memory nor, for this error, on the disk behind it.

    Args:
        error: what the disk said.
        need: bytes that the object needs.
        shared: which shared memory, and what it said.
        disk: the folder for objects on the disk.
    """
    free, where = free_bytes(disk), "a larger disk"
    if error.errno in (errno.ENOSPC, errno.ENOMEM):
        told, look = f"has {free:,} bytes free", "df -h"
    elif error.errno == errno.EDQUOT:
        told, look = f"says: {error.strerror}, for this user may have no more of it", "quota -s"
    else:
        told, look, where = f"cannot be written: {error.strerror}", f"findmnt -T {disk}", "another disk"
    return OutOfDiskError(
        f"An object of {need:,} bytes fits nowhere: {shared}, and the disk behind it ({disk}) {told}. Free refs that "
        f"you no longer need, or spill to {where} with init(object_spilling_directory=…). See: {look}",
        path=disk,
        free_bytes=free,
        needed_bytes=need,
    )


def free_bytes(folder: str) -> int:
    """Bytes free on the disk of a folder, which may not be there yet."""
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def _more(limit: int) -> int:
    return max(1024, 4 * limit)
