"""File descriptors: how many a process may have, how many it has, and whether there is room for more.

Owns the raising of the soft limit, and `Gauge`, which knows without looking each time whether a
process comes near its limit. Refuses to decide what waits then: `node/descriptors.py` holds back new workers,
`owner/actors.py` new lanes.
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


def raise_limit() -> None:
    """Let this process, and those it starts, have as many descriptors as the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            return  # the kernel's maximum is below the hard limit: keep the present limit


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
            else:
                self._room = 1 << 30  # the process is gone: there is nothing to watch
            return
        self._room = self.limit - min(_MARGIN_MAX, self.limit // 8) - self.used

    def used_up(self) -> None:
        """A descriptor was refused though there seemed to be room: look again before the next."""
        self._look()

    def text(self, whose: str) -> str:
        """What people read when there is no room."""
        return (
            f"{whose} (pid {self.pid}) has {self.used} of the {self.limit} file descriptors that it may have: new "
            "actors and workers wait until some end. Keep fewer actors alive at a time, close files, or raise the hard "
            "limit (ulimit -Hn) before the program starts. See: sundog status"
        )
