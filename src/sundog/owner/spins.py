"""Whether a thread that waits should look again and again for a moment before it sleeps.

A halted core takes 25 to 75 µs to wake, so a thread that waits for a quick answer spins first. Where spins are in
vain (the answers take milliseconds, or the sender waits for the very core that spins) they only cost processor time.
So after a few in vain most waits sleep at once, and some of them spin all the same, to learn whether it pays again.

A spin that finds its answer late is in vain as well (docs/decisions/0027): it was longer than a sleep and its end. A
spinning thread offers its core in every turn (`sched_yield`). When it gets the core back late, another thread used the
core: such a core does not halt, so a sleep is no slower than a spin, and leaves the core to who can use it.

Owns the count for one waiting thread: no lock, and a count that two threads mix up does no harm. Used by the leader of
an owner and by the main thread of a worker.
"""

from __future__ import annotations

_BEAR = 2  # so many failed spins in a row are ignored: one slow answer among quick ones
_RARELY = 7  # at least one of 2 ** 7 waits spins
_VAIN_MAX = _BEAR + _RARELY
LENT_S = 60e-6  # a turn that takes longer has lent its core to another thread for long; otherwise one takes 1 to 3 µs


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
        if self._skipped >> (self._vain - _BEAR):
            self._skipped = 0
            return self.spin_s
        return 0.0

    def ended(self, found: bool) -> None:
        """A spin has ended; the argument says whether the awaited event came in time."""
        if found:
            # Not to 0: on busy cores one spin of several finds its answer by chance.
            self._vain >>= 1
        elif self._vain < _VAIN_MAX:
            self._vain += 1
