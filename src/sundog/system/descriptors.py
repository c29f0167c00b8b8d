"""File descriptors: how many a process may have, how many it has, and whether there is room for more.

Owns the raising of the soft limit, `Gauge`, which knows without looking each time whether a
process comes near its limit, and the marks by which a descriptor is known again. Refuses to decide what waits then:
`node/descriptors.py` holds back new workers, `owner/actors.py` new lanes.
Imports next to nothing: the node's first milliseconds use it.
"""

from __future__ import annotations

import errno
import os
import resource
import time
from collections.abc import Callable

_MARGIN_MAX = 128
_LOOK_S = 0.05
MACHINE_IS_FULL = (
    "The machine has used up its open files, those of all programs together (end programs, or raise the limit as root: "
    "sysctl fs.file-max)"
)
# Arbitrary: above the files of most programs, and below what daemons close (`os.closerange(3, 1000)`).
_APART = 512


def raise_limit() -> None:
    """Let this process, and those it starts, have as many descriptors as the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            return  # the kernel's maximum is below the hard limit: keep the present limit


def apart(fd: int) -> int:
    """The descriptor under a number that files of the program do not get, which are given the lowest free number.

    If the program closes the descriptors of sundog, what sundog writes to this number reaches no file of the program.
    Where the limit is low the number stays.
    """
    import fcntl

    try:
        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _APART)
    except OSError:
        return fd
    os.close(fd)
    return high


def mark_of(fd: int) -> tuple[int, int]:
    """By what a descriptor is known again: the program may have closed it and opened a file that got its number.

    Raises:
        OSError: it is closed.
    """
    info = os.fstat(fd)
    return info.st_dev, info.st_ino


def is_still(fd: int, mark: tuple[int, int]) -> bool:
    """Whether a descriptor is what it was when it got this mark."""
    try:
        return mark_of(fd) == mark
    except OSError:
        return False


def read(pid: int) -> tuple[int, int]:
    """How many descriptors a process has, and how many it may have.

    Raises:
        OSError: it is gone, or another user's.
    """
    used = len(os.listdir(f"/proc/{pid}/fd"))
    return used, resource.prlimit(pid, resource.RLIMIT_NOFILE)[0]


class DescriptorGauge:
    """Whether a process has room for more descriptors, with some kept free for all else it does.

    It reads only when what was taken since the last reading may have used up the room; while there is none, not all the
    time.

    Args:
        pid: the process.
        reading: as `read`.
    """

    def __init__(
        self,
        pid: int,
        reading: Callable[[int], tuple[int, int]] = read,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.pid = pid
        self.used = self.limit = 0
        self._reading = reading
        self._clock = clock
        self._room = 0
        self._again_at = float("-inf")
        self._machine_is_full = False  # a descriptor was refused although this process may have more

    def take(self, count: int) -> bool:
        """Whether there is room for this many more; if so, they count as taken."""
        if self._room < count and self._clock() >= self._again_at:
            self._look()
            if self._room < count:
                self._again_at = self._clock() + _LOOK_S
        if self._room < count:
            return False
        self._room -= count
        return True

    def _look(self) -> None:
        try:
            self.used, self.limit = self._reading(self.pid)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):  # not even one to count them with
                self.used = self.limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
                self._room = 0
                self._machine_is_full = error.errno == errno.ENFILE
            else:
                self._room = 1 << 30  # the process is gone: there is nothing to watch
            return
        margin = min(_MARGIN_MAX, self.limit // 8)
        self._room = self.limit - margin - self.used
        self._machine_is_full = self._room > margin

    def used_up(self) -> None:
        """A descriptor was refused though there seemed to be room: look again before the next."""
        self._look()

    def text(self, whose: str) -> str:
        """What people read when there is no room."""
        if self._machine_is_full:
            return (
                f"{MACHINE_IS_FULL}: {whose} (pid {self.pid}) has {self.used} of the {self.limit} that it may have. "
                "New actors and workers wait until some files are closed."
            )
        return (
            f"{whose} (pid {self.pid}) has {self.used} of the {self.limit} file descriptors that it may have: new "
            "actors and workers wait until some end. Keep fewer actors alive at a time, close files, or raise the hard "
            "limit (ulimit -Hn) before the program starts. See: sundog status"
        )
