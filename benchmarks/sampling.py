"""How a thing is timed: warm up, then several short samples.

Pure but for the clock, which may be handed in. Runs in the host.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Effort:
    """How long a host may work on one case in one turn.

    Attributes:
        warm_s: runs before the clock counts; at least one call.
        sample_s: wall time shared by the samples of one turn; a call longer than that is made once.
        samples: how many samples a turn yields when calls are short.
        long_s: a call at least this long is not repeated: its first run is the sample, warm or not.
        cap_s: a size of a growth case is left out when it would take longer than this.
    """

    warm_s: float = 0.3
    sample_s: float = 0.75
    samples: int = 3
    long_s: float = 5.0
    cap_s: float = 30.0

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


FULL = Effort()
QUICK = Effort(warm_s=0.2, sample_s=0.45, samples=3, long_s=3.0, cap_s=5.0)


@dataclass(frozen=True)
class Reading:
    """One measured figure. `value` is None when the case declined to measure it, and `note` says why."""

    figure: str
    unit: str
    value: float | None
    note: str = ""


def sample_rates(
    call: Callable[[], object],
    per_call: float,
    effort: Effort,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Rates (units of `per_call` per second) of `call`, one per sample."""
    start = clock()
    calls = 0
    while True:
        call()
        calls += 1
        warmed = clock() - start
        if warmed >= effort.warm_s:
            break
    if calls == 1 and warmed >= effort.long_s:
        return [per_call / warmed]
    share_s = effort.sample_s / effort.samples
    # Reading the clock after every call would weigh on calls of a microsecond.
    step = max(1, int(share_s / 10 * calls / warmed)) if warmed > 0 else 1
    rates: list[float] = []
    began = clock()
    while len(rates) < effort.samples:
        start = clock()
        calls = 0
        while True:
            for _ in range(step):
                call()
            calls += step
            elapsed = clock() - start
            if elapsed >= share_s:
                break
        rates.append(per_call * calls / elapsed)
        if clock() - began >= effort.sample_s:
            break
    return rates


def time_call(call: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of one call."""
    start = clock()
    call()
    return clock() - start
