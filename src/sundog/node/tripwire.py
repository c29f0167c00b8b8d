"""Being woken by the kernel when a control group's memory passes a mark, between two looks.

cgroup v1 offers that by an eventfd; where it does not (v2, no control group, no right to), looking often has to do, and
nothing here complains. Owns the descriptors. Runs on the node's only thread.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from sundog import machine
from sundog.net.loop import Loop


class Tripwire:
    """One mark on one control group at a time.

    Args:
        tripped: called on the loop when usage passes the mark, in either direction.
    """

    def __init__(self, loop: Loop, tripped: Callable[[], None]) -> None:
        self._loop = loop
        self._tripped = tripped
        self._event = -1
        self._usage = -1
        self._set: tuple[str, int] | None = None
        self._refused = ""

    def arm(self, groups: list[machine.MemoryGroup], reading: machine.Reading, limit_bytes: int) -> None:
        """Watch the group of a reading for the moment its use passes `limit_bytes`."""
        group = next((each for each in groups if reading.where.endswith(each.path)), None)
        if group is not None:
            # The kernel's usage includes the page cache here, which sundog's own reading leaves out.
            self.set(group, limit_bytes)
        elif self._event >= 0:
            self.close()

    def set(self, group: machine.MemoryGroup, mark_bytes: int) -> bool:
        """Put the mark there; whether the kernel took it."""
        if self._set == (group.path, mark_bytes):
            return True
        self.close()
        if group.version != 1 or group.path == self._refused:
            return False
        try:
            self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            self._usage = os.open(f"{group.path}/memory.usage_in_bytes", os.O_RDONLY | os.O_CLOEXEC)
            with open(f"{group.path}/cgroup.event_control", "w", encoding="ascii") as control:
                control.write(f"{self._event} {self._usage} {mark_bytes}")
        except OSError:
            self._refused = group.path
            self.close()
            return False
        self._set = (group.path, mark_bytes)
        self._loop.add(self._event, self._woken)
        return True

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._event)
        self._tripped()

    def close(self) -> None:
        """Take the mark away."""
        if self._set is not None:
            self._loop.remove(self._event)
        for fd in (self._event, self._usage):
            if fd >= 0:
                os.close(fd)
        self._event = self._usage = -1
        self._set = None
