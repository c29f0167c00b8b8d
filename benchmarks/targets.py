"""What sundog has set out to reach, as data, and whether a run reached it.

Pure: results in, verdicts out. A target that a run did not measure is "not measured", never reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.results import Results
from benchmarks.table import number

LINEAR = 1.5
OTHERS_AT_LEAST = 5.0


@dataclass(frozen=True)
class Target:
    """`measure` gives the figure to compare; exactly one of the limits is set."""

    name: str
    measure: Callable[[Results], float | None]
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""

    def limit(self) -> str:
        sign, value = ("≥", self.at_least) if self.at_least is not None else ("≤", self.at_most)
        return f"{sign} {number(value)}{self.unit}"

    def reached(self, value: float) -> bool:
        if self.at_least is not None:
            return value >= self.at_least
        return self.at_most is not None and value <= self.at_most


@dataclass(frozen=True)
class Verdict:
    target: Target
    value: float | None

    @property
    def reached(self) -> bool | None:
        """None when the run did not measure it."""
        return None if self.value is None else self.target.reached(self.value)

    def line(self) -> str:
        word = {True: "reached     ", False: "MISSED      ", None: "not measured"}[self.reached]
        shown = "" if self.value is None else f"{number(self.value)}{self.target.unit}"
        return f"{word}  {shown:>10}  {self.target.limit():<10}  {self.target.name}"


def times_ray(figure: str, at_least: float) -> Target:
    return Target(
        f"{figure}, to Ray", lambda r: r.ratio(figure, "sundog", "ray"), at_least=at_least, unit=" ×"
    )


def own(figure: str, *, at_most: float, unit: str) -> Target:
    return Target(figure, lambda r: r.median(figure, "sundog"), at_most=at_most, unit=unit)


def compared(name: str, figure: str, base: str, **limits: float) -> Target:
    """sundog's median of one figure divided by that of another."""

    def measure(results: Results) -> float | None:
        top, bottom = results.median(figure, "sundog"), results.median(base, "sundog")
        return top / bottom if top is not None and bottom else None

    return Target(name, measure, unit=" ×", **limits)


TARGETS: tuple[Target, ...] = (
    times_ray("single client tasks sync", 20),
    times_ray("single client tasks async", 40),
    times_ray("1:1 actor calls sync", 10),
    times_ray("1:1 actor calls async", 40),
    times_ray("1:1 async-actor calls sync", 5),
    times_ray("1:1 async-actor calls async", 30),
    times_ray("single client put calls (Plasma Store)", 100),
    times_ray("put 1 MB warm", 5),
    times_ray("put 128 MB cold", 1),
    *[times_ray(f"{verb} {size} MB past the limit", 1) for size in (1, 32) for verb in ("put", "get")],
    times_ray("init to first result", 50),
    times_ray("idle memory", 10),
    own("idle processes", at_most=5, unit=" processes"),
    Target(
        "single client tasks sync, to the bare echo",
        lambda r: r.ratio("single client tasks sync", "sundog", "raw"),
        at_least=0.5,
        unit=" ×",
    ),
    own("shortest paying task", at_most=0.2, unit=" ms"),
    own("shortest task with 3/4 of the speed of two bare processes", at_most=0.2, unit=" ms"),
    compared(
        "tasks/s with 1 M in flight, to 10 k",
        "1 M tasks in flight: rate",
        "10 k tasks in flight: rate",
        at_least=0.7,
    ),
    own("1 M tasks in flight: driver memory", at_most=2500, unit=" B"),
    compared("wait is linear: per ref, 10 k to 1 k", "wait on 10 k refs", "wait on 1 k refs", at_most=LINEAR),
    compared("get is linear: per ref, 100 k to 1 k", "get 100 k refs", "get 1 k refs", at_most=LINEAR),
)

# Figures that have a ratio to Ray but are facts beside the cases, not cases with a speed.
NOT_CASES = frozenset({"idle threads", "idle CPU", "idle processes", "processes left 2 s after exit"})


def other_targets(results: Results) -> list[Target]:
    """Every other case that Ray gave: at least five times Ray's. One that sundog failed is "not measured"."""
    named = {target.name.removesuffix(", to Ray") for target in TARGETS}
    return [
        times_ray(name, OTHERS_AT_LEAST)
        for name, figure in results.figures.items()
        if name not in named and name not in NOT_CASES and figure.median("ray") is not None
    ]


def judge(results: Results) -> list[Verdict]:
    verdicts = [Verdict(t, t.measure(results)) for t in (*TARGETS, *other_targets(results))]
    ratios = {f.name: r for f in results.figures.values() if (r := f.ratio("sundog", "ray")) is not None}
    slow = {name: ratio for name, ratio in ratios.items() if name not in NOT_CASES}
    if slow:
        worst = min(slow, key=lambda name: slow[name])
        verdicts.append(Verdict(times_ray(f"none below Ray: the lowest is {worst}", 1), slow[worst]))
    return verdicts


def summary(verdicts: Iterable[Verdict]) -> str:
    listed = list(verdicts)
    reached = sum(v.reached is True for v in listed)
    missed = sum(v.reached is False for v in listed)
    lines = [verdict.line() for verdict in listed]
    lines.append(f"{reached} reached, {missed} missed, {len(listed) - reached - missed} not measured")
    return "\n".join(lines)
