"""Learnt admission: how many of a function may run at once when memory is short.

Owns: what each function's runs were seen to take (the last of them, bounded), their 95th percentile, and the answer
to "may one more start now?". Nothing is held back while what runs and the one more are expected to fit; so with
plenty of memory the answer is always yes. Refuses: reading memory, clocks, processes. Runs in the node program, on
its only thread, once per lease about to be granted and only for functions it has seen.

A run that was ended for memory says how little it takes at least, not how much. So for ``UNSURE_S`` after that no more
of its function are started beside what runs; then the estimate counts again.

A task is never held back permanently: one always may run, blocked ones not counted, for what they wait for may be what
is held back; and after ``PATIENCE_S`` the estimate is taken for wrong, and one more is let in.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable

from sundog.plain import plain

PATIENCE_S = 20.0
UNSURE_S = 5.0
KEPT_RUNS = 64
KEPT_FUNCTIONS = 1024
KEPT_DECISIONS = 256


class LeaseInUse:
    """A lease in use: what its worker holds for itself now, what it runs, and whether it is blocked in a get."""

    __slots__ = ("blocked", "functions", "own_bytes")

    def __init__(self, own_bytes: int, functions: tuple[str, ...] = (), blocked: bool = False) -> None:
        self.own_bytes = own_bytes
        self.functions = functions
        self.blocked = blocked


@plain(frozen=True)
class Decision:
    """That a function was held back, or let in again: for `why`."""

    at: float
    function: str
    admitted: bool
    text: str


class Admission:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._peaks: OrderedDict[str, deque[int]] = OrderedDict()
        self._estimates: dict[str, int] = {}
        self._largest = 0
        self._ended: dict[str, float] = {}  # function → when a run of it was last ended for memory
        self._held: dict[Hashable, float] = {}  # wants held back, and since when (or since one was let in)
        self.decisions: deque[Decision] = deque(maxlen=KEPT_DECISIONS)

    def observed(self, function_name: str, peak_bytes: int) -> None:
        """A run of a function has finished with this peak of its own memory."""
        if peak_bytes <= 0:
            return
        peaks = self._peaks.get(function_name)
        if peaks is None:
            peaks = self._peaks[function_name] = deque(maxlen=KEPT_RUNS)
            if len(self._peaks) > KEPT_FUNCTIONS:
                oldest, _ = self._peaks.popitem(last=False)
                self._estimates.pop(oldest, None)
                self._ended.pop(oldest, None)
        else:
            self._peaks.move_to_end(function_name)
        peaks.append(peak_bytes)
        self._largest = max(self._largest, peak_bytes)
        self._estimates.pop(function_name, None)

    def at_least(self, function_name: str, own_bytes: int) -> None:
        """A run that has not finished holds so much: news only if that is more than was expected."""
        if own_bytes > (self.estimate(function_name) or 0):
            self.observed(function_name, own_bytes)

    def ended(self, function_name: str, own_bytes: int, now: float) -> None:
        """A run was ended for memory when it held so much."""
        self.at_least(function_name, own_bytes)
        self._ended[function_name] = now

    def estimate(self, function_name: str) -> int | None:
        """The 95th percentile of a function's peaks; None if it was never seen."""
        found = self._estimates.get(function_name)
        if found is None:
            peaks = self._peaks.get(function_name)
            if not peaks:
                return None
            ranked = sorted(peaks)
            found = self._estimates[function_name] = ranked[min(len(ranked) - 1, int(0.95 * len(ranked)))]
        return found

    def need(self, functions: Iterable[str]) -> int:
        """What one more lease for these functions is expected to take; 0 if nothing is known of them."""
        return max((self.estimate(each) or 0 for each in functions), default=0)

    def learnt(self) -> dict[str, dict[str, int]]:
        """What is known: function → runs seen and estimate."""
        return {
            name: {"runs": len(peaks), "p95_bytes": self.estimate(name) or 0}
            for name, peaks in self._peaks.items()
        }

    def plenty(self, leases: int, used_bytes: int, limit_bytes: int) -> bool:
        """Whether this many leases and one more fit into half of what is allowed, were each as large as any ever was.

        Then nothing has to be measured: the common case, and a few comparisons.
        """
        return not self._held and used_bytes + self._largest * (leases + 1) <= limit_bytes // 2

    def decide(
        self,
        who: Hashable,
        functions: tuple[str, ...],
        running: Iterable[LeaseInUse],
        used_bytes: int,
        limit_bytes: int,
        now: float,
    ) -> str:
        """Whether one more lease may be granted to ``who`` for ``functions``: "" if so, else why not."""
        need = self.need(functions)
        growth, busy = 0, 0
        for each in running:
            growth += max(0, self.need(each.functions) - each.own_bytes)
            busy += not each.blocked
        free = limit_bytes - used_bytes - growth
        unsure = any(now - self._ended.get(each, float("-inf")) < UNSURE_S for each in functions)
        if not busy or (need <= free and not unsure):
            return self._let_in(who, functions, now)
        since = self._held.setdefault(who, now)
        if now - since >= PATIENCE_S:
            self._held[who] = now
            self._note(now, functions, True, "held back for long enough: the estimate may be wrong")
            return ""
        text = f"memory: {_names(functions)} was ended a moment ago because memory ran out, and other tasks still run"
        if not unsure:
            text = (
                f"memory: {_names(functions)} is expected to take {_mb(need)} (95 % of its last runs took less), and "
                f"{_mb(max(0, free))} of {_mb(limit_bytes)} are left beside what runs"
            )
        if since == now:
            self._note(now, functions, False, text)
        return text

    def _let_in(self, who: Hashable, functions: tuple[str, ...], now: float) -> str:
        if self._held.pop(who, None) is not None:
            self._note(now, functions, True, "there is room for it")
        return ""

    def forget(self, who: Hashable) -> None:
        """``who`` asks no more."""
        self._held.pop(who, None)

    def _note(self, now: float, functions: tuple[str, ...], admitted: bool, text: str) -> None:
        self.decisions.append(Decision(now, _names(functions), admitted, text))


def _names(functions: tuple[str, ...]) -> str:
    return ", ".join(f"{each}()" for each in functions)


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
