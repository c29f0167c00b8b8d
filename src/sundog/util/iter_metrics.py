"""What iterator functions may count while they run. One context per chain of local iterators.

Plain values in the process that iterates; nothing is sent or locked.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypedDict

    class SavedMetrics(TypedDict):
        """What `save` gives."""

        counters: dict[str, int]
        info: dict[str, object]
        timers: list[str]


class Timer:
    """Sums up the seconds spent inside its `with` blocks."""

    def __init__(self) -> None:
        self.total_s = 0.0
        self.count = 0
        self._since_s = 0.0

    def __enter__(self) -> Timer:
        self._since_s = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.total_s += time.perf_counter() - self._since_s
        self.count += 1

    @property
    def mean(self) -> float:
        """Seconds per block."""
        return self.total_s / self.count if self.count else 0.0


class MetricsContext:
    """Counters, timers and notes, and the actor that the current item came from."""

    def __init__(self) -> None:
        self.counters: defaultdict[str, int] = defaultdict(int)
        self.timers: defaultdict[str, Timer] = defaultdict(Timer)
        self.info: dict[str, object] = {}
        self.current_actor: object = None

    def save(self) -> SavedMetrics:
        """Give what is worth keeping, as plain values."""
        return {"counters": dict(self.counters), "info": dict(self.info), "timers": list(self.timers)}

    def restore(self, values: SavedMetrics) -> None:
        """Take back what `save` gave; timers start anew."""
        self.counters.clear()
        self.counters.update(values["counters"])
        self.timers.clear()
        self.info = dict(values["info"])


class SharedMetrics:
    """The context that the iterators of one chain share; setting it reaches the parents of a union."""

    def __init__(
        self, metrics: MetricsContext | None = None, parents: list[SharedMetrics] | None = None
    ) -> None:
        self.metrics = metrics or MetricsContext()
        self.parents = parents or []
        self.set(self.metrics)

    def set(self, metrics: MetricsContext) -> None:
        """Use `metrics`, here and in every parent."""
        self.metrics = metrics
        for parent in self.parents:
            parent.set(metrics)

    def get(self) -> MetricsContext:
        """Give the context in use."""
        return self.metrics
