"""Why a session cannot be started here, in one sentence that names the setting or the limit.

Owns what `init()` and `sundog start` say when the place is too poor: no /proc, too few file descriptors or
processes, files that must stay too small. Of folders that cannot be used `sessions.py` says so where it makes them.
Refuses to look for trouble that is not there: a few cheap checks before a start, and all others only after a failure.
Runs in the process that starts a session, on its calling thread.
"""

from __future__ import annotations

import errno
import os
import resource
import select
import sys

from sundog.exceptions import RaySystemError
from sundog.printable import printable
from sundog.system.descriptors import MACHINE_IS_FULL

# A driver with one worker has about 25 file descriptors, and so has its node. Each worker adds some to both.
FEWEST_DESCRIPTORS = 48
# The smallest file of a session that is made at once is a ring of a page; its log and records soon have some more.
SMALLEST_FILE_BYTES = 64 << 10
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NO_PROGRAM = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ENOEXEC)
_UNWRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)
_PROC = "/proc/self/stat"
_NULL = "/dev/null"


def check() -> None:
    """Look whether a session can be started at all.

    Raises:
        RaySystemError: it cannot.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit != resource.RLIM_INFINITY and limit < FEWEST_DESCRIPTORS:
        raise RaySystemError(_few_descriptors(limit))
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit != resource.RLIM_INFINITY and limit < SMALLEST_FILE_BYTES:
        raise RaySystemError(
            f"This program may write files of {limit:,} bytes at most, which is too few for a session. Raise the limit "
            "before the program starts, for example: ulimit -f unlimited (if that is refused, the hard limit is lower: "
            "see ulimit -Hf)."
        )
    if not sys.executable:
        raise RaySystemError(
            "sundog cannot start its processes: this program does not know where its Python is (sys.executable is "
            "empty), as some programs that have Python inside. Set sys.executable to this Python before init()."
        )
    check_polling()
    if not os.path.exists(_PROC):
        raise RaySystemError(
            "sundog needs the file system /proc, which is not mounted here: it reads there what its processes use. "
            "In a container or chroot, mount it before the program starts: mount -t proc proc /proc"
        )
    if not os.path.exists(_NULL):
        raise RaySystemError(
            f"sundog needs {_NULL}, which is not there: its processes read from it and write to it. In a container or "
            f"chroot, make it before the program starts: mknod -m 666 {_NULL} c 1 3"
        )


def check_polling() -> None:
    """Look whether this program can wait for sockets.

    Raises:
        RaySystemError: it has replaced what waits for them.
    """
    if not callable(getattr(select, "epoll", None)) or not callable(getattr(select, "poll", None)):
        raise RaySystemError(
            "sundog needs select.epoll and select.poll, which this program has taken away, as gevent and eventlet do "
            "when they patch the standard library. Leave out their patch of select and threads in this program: "
            "gevent.monkey.patch_all(select=False, thread=False), eventlet.monkey_patch(select=False, thread=False)."
        )


def explained(error: OSError | RuntimeError, shm_dir: str = "") -> RaySystemError:
    """What to raise for an error of the system that kept a session from starting.

    Args:
        shm_dir: where its shared memory was to be.
    """
    from sundog.system import process_limit  # loaded only after a failure

    if not isinstance(error, OSError):
        return RaySystemError(f"A session cannot be started: {error}. {process_limit.text()}")
    if error.errno == errno.ENFILE:
        return RaySystemError(f"A session cannot be started. {MACHINE_IS_FULL}.")
    if error.errno in NO_DESCRIPTOR:
        return RaySystemError(_few_descriptors(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
    why = error.strerror or str(error)
    if error.filename == sys.executable and error.errno in _NO_PROGRAM:
        return RaySystemError(
            f"sundog cannot start its processes: this program takes {printable(sys.executable)} for its Python "
            f"(sys.executable), which cannot be run: {why}. Set sys.executable to this Python before init()."
        )
    if error.errno == errno.EAGAIN:
        return RaySystemError(f"The node cannot be started: {why}. {process_limit.text()}")
    setting = "init(_temp_dir=…), sundog start --temp-dir, or SUNDOG_temp_dir"
    if shm_dir and str(error.filename).startswith(f"{shm_dir}/sundog-") and "/session_" not in error.filename:
        setting = "the setting shm_dir (SUNDOG_shm_dir)"
    if error.errno in NO_ROOM:
        where = f" ({printable(error.filename)})" if isinstance(error.filename, str) else ""
        return RaySystemError(
            f"A session cannot be started: there is no room for its folder{where}: {why}. Make room there, or give a "
            f"folder on another disk with {setting}. "
            f"See: {'quota -s' if error.errno == errno.EDQUOT else 'df -h, df -i'}"
        )
    if error.errno in _UNWRITABLE and isinstance(error.filename, str):
        return RaySystemError(
            f"A session cannot be started: {printable(error.filename)} cannot be made: {why}. Give a folder that this "
            f"user can write with {setting}."
        )
    return RaySystemError(f"A session cannot be started: {printable(str(error))}.")


def _few_descriptors(limit: int) -> str:
    return (
        f"This program may have {limit} file descriptors, which is too few for a session. Raise the limit before the "
        "program starts, for example: ulimit -n 1024 (if that is refused, the hard limit is lower: see ulimit -Hn)."
    )
