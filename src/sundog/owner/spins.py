"""Whether a thread that waits should look again and again for a moment before it sleeps.

A halted core takes 25 to 75 µs to wake, so a thread that waits for a quick answer spins first. Where spins are in
vain (the answers take milliseconds, or the sender waits for the very core that spins) they only cost processor time.
So after a few in vain most waits sleep at once, and some of them spin all the same, to learn whether it pays again.

Owns the count for one waiting thread: no lock, and a count that two threads mix up does no harm. Used by the leader of
an owner and by the main thread of a worker.
"""

from __future__ import annotations

_BEAR = 2  # so many failed spins in a row are ignored: one slow answer among quick ones
_RARELY = 5  # at least one of 2 ** 5 waits spins


class Spins:
    """How long the next wait spins."""

    __slots__ = ("_skipped", "_vain", "spin_s")

    def __init__(self, spin_s: float) -> None:
        self.spin_s = spin_s
        self._vain = 0
        self._skipped = 0

    def next_s(self) -> float:
        """Seconds to spin before the sleep that is due now; 0.0 to sleep at once.

        Example:
            >>> spins = Spins(0.1)
            >>> for _ in range(3):
            ...     spins.ended(False)
            >>> [spins.next_s() for _ in range(3)]
            [0.0, 0.1, 0.0]
        """
        if self._vain <= _BEAR:
            return self.spin_s
        self._skipped += 1
        if self._skipped >> min(self._vain - _BEAR, _RARELY):
            self._skipped = 0
            return self.spin_s
        return 0.0

    def ended(self, found: bool) -> None:
        """A spin has ended; the argument says whether the awaited event came."""
        if not found:
            self._vain += 1
        elif self._vain:
            self._vain = 0
