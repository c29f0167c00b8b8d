"""What functions and classes have used: count, mean, 95th percentile and maximum of time, CPU and memory.

Owns the arithmetic, and nothing else: numbers in, totals out; no file, no clock. Kept by the node for its
session and by a reader of a finished one (`observe/ledger.py` feeds it).

Counts, sums and maxima are exact. A percentile comes from a histogram whose buckets are 9 % wide (an eighth
of a doubling), so it is right to 5 %, and the totals of a million tasks are as small as those of ten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp2, inf, log2
from typing import TYPE_CHECKING, Any

from sundog.plain import field, plain

if TYPE_CHECKING:
    from typing import TypedDict

    class FunctionFigures(TypedDict):
        """What the attempts of one function used, as plain values."""

        count: int
        failed: int
        lost: int
        retried: int
        retried_failed: int
        total_s: float
        total_cpu_s: float
        duration_s: dict[str, float]
        cpu_s: dict[str, float]
        peak_memory: dict[str, float]


_PER_DOUBLING = 8
_ZERO = -1000  # the bucket of values that are too small to measure
_TINY = 1e-9
# Of a longer batch only every n-th value goes into the histogram, and counts for the skipped ones.
_BATCH_MAX = 64
_ROWS_MAX = 10_000  # functions with totals of their own; later functions are counted together
_OTHERS = "(others)"


@plain()
class Spread:
    """A heap of numbers, none below zero, summed up."""

    count: int = 0
    total: float = 0.0
    maximum: float = 0.0
    minimum: float = inf
    buckets: dict[int, float] = field(default_factory=dict)

    def add(self, values: Sequence[float]) -> None:
        """Add a batch."""
        if not values:
            return
        self.count += len(values)
        self.total += sum(values)
        self.maximum = max(self.maximum, max(values))
        self.minimum = min(self.minimum, min(values))
        stride = -(-len(values) // _BATCH_MAX)
        chosen = values[::stride]
        weight = len(values) / len(chosen)
        buckets = self.buckets
        for value in chosen:
            bucket = int(log2(value) * _PER_DOUBLING // 1) if value > _TINY else _ZERO
            buckets[bucket] = buckets.get(bucket, 0.0) + weight

    def merge(self, other: Spread) -> None:
        """Add all that another holds."""
        self.count += other.count
        self.total += other.total
        self.maximum = max(self.maximum, other.maximum)
        self.minimum = min(self.minimum, other.minimum)
        for bucket, weight in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0.0) + weight

    def percentile(self, share: float) -> float:
        """The value below which `share` (0 to 1) of all lie, to 5 %; 0.0 of nothing.

        >>> spread = Spread()
        >>> spread.add([0.1] * 90 + [0.9] * 10)
        >>> round(spread.percentile(0.5), 1), round(spread.percentile(0.95), 1)
        (0.1, 0.9)
        """
        rest = sum(self.buckets.values()) * share
        for bucket, weight in sorted(self.buckets.items()):
            rest -= weight
            if rest <= 0:
                middle = 0.0 if bucket == _ZERO else exp2((bucket + 0.5) / _PER_DOUBLING)
                return min(max(middle, self.minimum), self.maximum)
        return self.maximum

    def figures(self) -> dict[str, float]:
        """Mean, 95th percentile and maximum."""
        return {
            "mean": self.total / self.count if self.count else 0.0,
            "p95": self.percentile(0.95),
            "max": self.maximum,
        }


@plain()
class Usage:
    """What all attempts of one function, method or class used that have ended."""

    count: int = 0
    failed: int = 0
    lost: int = 0  # of these, how many ended with their process
    duration_s: Spread = field(default_factory=Spread)
    cpu_s: Spread = field(default_factory=Spread)
    peak_memory: Spread = field(default_factory=Spread)  # bytes
    retried: int = 0  # of these, how many were not the first attempt
    retried_failed: int = 0

    def merge(self, other: Usage) -> None:
        """Add all that another holds."""
        self.count += other.count
        self.failed += other.failed
        self.lost += other.lost
        self.retried += other.retried
        self.retried_failed += other.retried_failed
        self.duration_s.merge(other.duration_s)
        self.cpu_s.merge(other.cpu_s)
        self.peak_memory.merge(other.peak_memory)

    def figures(self) -> FunctionFigures:
        """As plain values: counts, and mean, p95 and max of seconds, CPU seconds and bytes."""
        return {
            "count": self.count,
            "failed": self.failed,
            "lost": self.lost,
            "retried": self.retried,
            "retried_failed": self.retried_failed,
            "total_s": self.duration_s.total,
            "total_cpu_s": self.cpu_s.total,
            "duration_s": self.duration_s.figures(),
            "cpu_s": self.cpu_s.figures(),
            "peak_memory": self.peak_memory.figures(),
        }


@plain(frozen=True)
class FunctionKey:
    """Which function: its name, and the class it is a method of ("" for none)."""

    name: str
    class_name: str


class Totals:
    """Usage by function, kept up to date batch by batch."""

    def __init__(self) -> None:
        self.rows: dict[FunctionKey, Usage] = {}

    def row(self, key: FunctionKey) -> Usage:
        """The usage of one function, made if it is new; of all further ones together when there are too many."""
        found = self.rows.get(key)
        if found is None:
            if len(self.rows) >= _ROWS_MAX and key.name != _OTHERS:
                return self.row(FunctionKey(_OTHERS, key.class_name))
            found = self.rows[key] = Usage()
        return found

    def functions(self) -> dict[str, FunctionFigures]:
        """Figures of every function and method, by name."""
        return _merged((key.name, usage) for key, usage in self.rows.items())

    def classes(self) -> dict[str, FunctionFigures]:
        """Figures of every class of actors: all of its methods, and its constructor, together."""
        return _merged((key.class_name, usage) for key, usage in self.rows.items() if key.class_name)

    def dump(self) -> list[object]:
        """As values that JSON can hold; `load` reads them back."""
        return [
            [key.name, key.class_name, usage.count, usage.failed, usage.lost]
            + [
                [spread.count, spread.total, spread.maximum, spread.minimum, list(spread.buckets.items())]
                for spread in (usage.duration_s, usage.cpu_s, usage.peak_memory)
            ]
            + [usage.retried, usage.retried_failed]
            for key, usage in self.rows.items()
        ]

    def load(self, dumped: list[Any]) -> None:
        """Add what `dump` gave."""
        for name, class_name, count, failed, lost, *more in dumped:
            read = [
                Spread(number, total, top, low, dict(map(tuple, buckets)))
                for number, total, top, low, buckets in more[:3]
            ]
            # Records of an earlier version do not have the numbers of attempts.
            retried, retried_failed = (*more[3:5], 0, 0)[:2]
            duration_s, cpu_s, peak_memory = read
            found = Usage(count, failed, lost, duration_s, cpu_s, peak_memory, retried, retried_failed)
            self.row(FunctionKey(name, class_name)).merge(found)


def _merged(named: Iterable[tuple[str, Usage]]) -> dict[str, FunctionFigures]:
    sums: dict[str, Usage] = {}
    for name, usage in named:
        sums.setdefault(name, Usage()).merge(usage)
    return {name: usage.figures() for name, usage in sums.items()}
