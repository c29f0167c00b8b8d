"""What a process may still take of the store: credit that the node gave it, spent without a question to the node.

The store's limit is one sum: bytes in segments + credit in processes + what the node has left. A process that makes a
segment spends credit. No process reports the removal of a segment: the node counts anew (`sundog.state.store`) when it
runs short. A removal must not give credit either, for the node would count those bytes a second time.

Owns the two numbers. Runs in every process, any thread; without a node (`ask` is None) it never ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

PAGE = 4095
_ENDLESS = 1 << 62


class Credit:
    """The bytes of shared memory that this process may still fill.

    `left` is what may be spent; it may be below zero, when a used segment turned out larger than it was: the
    next request asks for that too. `reserved` is spent on segments that are being written now.
    """

    def __init__(self) -> None:
        self.left = _ENDLESS
        self.reserved = 0
        # Asks the node for bytes, and says how many of them it reserves. False: the store has no room.
        self.ask: Callable[[int, int], bool] | None = None
        self._lock = threading.Lock()

    def limited(self, ask: Callable[[int, int], bool]) -> None:
        """From now on this much and no more: nothing, until `ask` brings some."""
        self.left = 0
        self.ask = ask

    def reserve(self, need: int) -> bool:
        """Set bytes aside for a segment; False if the store has no room for it even after spilling."""
        with self._lock:
            left = self.left
            if need <= left:
                self.left = left - need
                self.reserved += need
                return True
            # Reserve what is left at once, so that neither another thread nor the node uses it.
            aside = max(left, 0)
            debt = aside - left
            self.left = 0
            self.reserved += aside
        done = False
        try:
            done = self.ask is not None and self.ask(need - aside + debt, need - aside)
        finally:
            if not done:
                with self._lock:
                    self.reserved -= aside
                    self.left += left
        return done

    def written(self, need: int) -> None:
        """What was set aside is in a file now."""
        with self._lock:
            self.reserved -= need

    def unwritten(self, need: int) -> None:
        """What was set aside was not needed."""
        with self._lock:
            self.reserved -= need
            self.left += need

    def granted(self, spare: int, aside: int) -> None:
        """The node's answer: what was asked for, of which so much is set aside, and some to spare."""
        with self._lock:
            self.left += spare
            self.reserved += aside

    def grown(self, amount: int) -> None:
        """A segment became larger than it was."""
        with self._lock:
            self.left -= amount

    def surrender(self) -> int:
        """Give up what is left; returns what is set aside for segments that are being written."""
        with self._lock:
            if self.ask is not None:
                self.left = 0
            return self.reserved
