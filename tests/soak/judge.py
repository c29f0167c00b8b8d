"""Whether what was sampled is flat: a slope through the second half of each line, and what it may be at most.

Pure. The first half is for caches, pools and bounded tables to fill. The slope is the median of the slopes between all
pairs of samples that are far apart (after Theil and Sen), so that a burst or a saw-tooth does not pass for growth, nor
hide it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

SAMPLES_MIN = 10


@dataclass(frozen=True)
class Kind:
    """A sort of figure: its unit, and the growth over half a run that counts as flat.

    Args:
        floor: in the unit of the figure.
        share: of the line's median; the larger of the two holds.
    """

    unit: str
    floor: float
    share: float


MEMORY = Kind("MB", 2.0, 0.03)
DESCRIPTORS = Kind("", 3.0, 0.05)
COUNT = Kind("", 3.0, 0.10)
FILES = Kind("", 60.0, 0.05)
BYTES = Kind("MB", 4.0, 0.10)
SPILLED = Kind("MB", 16.0, 0.25)  # a file goes when the last of its objects is free


@dataclass(frozen=True)
class Line:
    """One figure over time: (seconds since the start, value)."""

    name: str
    kind: Kind
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Verdict:
    """What is said of one line."""

    line: Line
    growth: float  # over the second half, along the fitted slope
    allowed: float
    flat: bool

    def text(self) -> str:
        """For people."""
        word = "flat" if self.flat else "GROWS"
        half = second_half(self.line.points)
        level = statistics.median(value for _, value in half) if half else 0.0
        unit = f" {self.line.kind.unit}" if self.line.kind.unit else ""
        return (
            f"{word:5}  {self.line.name}: {level:.4g}{unit}, {self.growth:+.3g}{unit} over the second half "
            f"(up to {self.allowed:.3g} is flat)"
        )


def second_half(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """The samples after the middle of the time that they span."""
    if not points:
        return points
    middle = (points[0][0] + points[-1][0]) / 2
    return [point for point in points if point[0] >= middle]


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes between pairs that are at least half of the time apart; 0 if there are none."""
    apart = (points[-1][0] - points[0][0]) / 2 if points else 0.0
    found = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for index, earlier in enumerate(points)
        for later in points[index + 1 :]
        if later[0] > earlier[0] and later[0] - earlier[0] >= apart
    ]
    return statistics.median(found) if found else 0.0


def judge(line: Line) -> Verdict:
    """Whether a line is flat.

    Raises:
        ValueError: there are too few samples to tell.
    """
    half = second_half(line.points)
    if len(half) < SAMPLES_MIN:
        raise ValueError(f"{line.name} has {len(half)} samples in the second half; {SAMPLES_MIN} are needed")
    growth = slope(half) * (half[-1][0] - half[0][0])
    level = abs(statistics.median(value for _, value in half))
    allowed = max(line.kind.floor, line.kind.share * level)
    return Verdict(line, growth, allowed, growth <= allowed)
