"""Segments that a running task has written and that no reply has named yet.

Owns the list, for workers that run one task at a time. An interrupt, or an error in a later result, ends the task
before its reply: then nobody else knows of these segments, and they go back to the free list. Main thread; no
handler of a signal runs in the middle of this (`owner/moments.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.owner import context
from sundog.store.segments import Location, Segments

if TYPE_CHECKING:
    from sundog.serialize.pack import Buffers


class Unsent:
    """The unsent segments of the running task."""

    def __init__(self, segments: Segments) -> None:
        self.segments = segments
        self.found: list[tuple[str, int]] = []
        self._task = b""

    def write(self, buffers: Buffers, owner_id: bytes) -> Location:
        """Write a segment for an object of another process, and remember it."""
        location = self.segments.write(buffers, owner_id)
        running = context.current()
        if running is not None:
            if running.task_id != self._task:
                self.found, self._task = [], running.task_id
            self.found.append((location[0], location[1]))
        return location

    def sent(self) -> None:
        """A reply is about to name them all."""
        self.found = []

    def take_back(self, task_id: bytes) -> None:
        """A task failed: the segments that it wrote and did not send are free."""
        found, self.found = self.found, []
        if self._task == task_id:
            for name, size in found:
                self.segments.recycle(name, size)
