"""What stands in the place of a ring of events (`events.py`) where recording is switched off.

Owns the sizes of a ring and one slot of memory. Refuses to keep anything. Runs in every process, on any thread.
"""

from __future__ import annotations

import itertools

HEADER_BYTES = 2048
EVENT_BYTES = 64


class NoRing:
    """Takes events and forgets them: recording is switched off."""

    path = ""
    is_closed = False
    capacity = 1  # code that writes inline always writes to this one slot

    def __init__(self) -> None:
        self.map = bytearray(HEADER_BYTES + EVENT_BYTES)
        self.next = itertools.count().__next__
        self.sites: dict[tuple[int, int], tuple[object, int]] = {}

    def open(self, path: str, job_id: bytes) -> None:
        """There is no file."""

    def started(self, task_id: bytes, now: float, name: int) -> None:
        """Nothing is noted."""

    def stands_still(self, task_id: bytes, began: float) -> None:
        """Nothing is noted."""

    def become_actor(self, actor_id: bytes) -> None:
        """Nothing is noted."""

    def started_at(self) -> float:
        """Not known."""
        return 0.0

    def name(self, text: str, code: str = "", function: str = "") -> int:
        """Every name is 0."""
        return 0

    def note(self, kind: str, /, **facts: object) -> None:
        """Nothing is kept."""

    def write(self, *event: object) -> None:
        """Nothing is written."""

    def overflow(self, index: int, *fields: object) -> None:
        """Nothing is written."""

    def room_for(self, index: int) -> None:
        """There is none."""

    def sample(self, task_id: bytes, now: float, own_bytes: int, line: str) -> None:
        """Nothing is noted."""

    def close(self) -> None:
        """Nothing to close."""
