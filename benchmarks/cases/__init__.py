"""The registry of cases: what is measured, under which name, and what a system must offer for it.

Runs in the host (to measure) and in the runner (to plan). A case is one small function against the adapter;
a rate case returns what to call, and the host calls it against the clock.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.sampling import Effort, Reading, sample_rates
from benchmarks.systems import System

Build = Callable[[System], Callable[[], object]]
Measure = Callable[[System, Effort], list[Reading]]


@dataclass(frozen=True)
class Case:
    """One thing to measure.

    Attributes:
        group: cases of a group share one host, which is started anew for every round.
        needs: features a system must have; without them the case does not exist there.
        headline: part of `--quick`.
        once: measured in the first round only, because one measurement takes long and holds many samples.
    """

    name: str
    group: str
    needs: frozenset[str]
    measure: Measure
    headline: bool = False
    once: bool = False
    timeout_s: float = 90.0


_registry: dict[str, Case] = {}


def _add(case: Case) -> None:
    if case.name in _registry:
        raise ValueError(f"two cases are called {case.name!r}")
    _registry[case.name] = case


def rate(
    name: str, *, group: str, needs: str, per_call: float = 1.0, unit: str = "/s", headline: bool = False
) -> Callable[[Build], Build]:
    """Register a case whose figure is how often per second the returned callable runs, times `per_call`."""

    def register(build: Build) -> Build:
        def measure(system: System, effort: Effort) -> list[Reading]:
            call = build(system)
            return [Reading(name, unit, value) for value in sample_rates(call, per_call, effort)]

        _add(Case(name, group, frozenset(needs.split()), measure, headline))
        return build

    return register


def measured(
    name: str, *, group: str, needs: str, headline: bool = False, once: bool = False, timeout_s: float = 90.0
) -> Callable[[Measure], Measure]:
    """Register a case that measures its own figures."""

    def register(measure: Measure) -> Measure:
        _add(Case(name, group, frozenset(needs.split()), measure, headline, once, timeout_s))
        return measure

    return register


def all_cases() -> list[Case]:
    """Every case, in the order of the table."""
    for module in ("microbenchmark", "echo", "sizes", "spilling", "payoff", "growth"):
        importlib.import_module(f"benchmarks.cases.{module}")
    return list(_registry.values())


def choose(cases: Iterable[Case], *, quick: bool = False, only: str = "") -> list[Case]:
    """The headline cases if `quick`, and of those the ones whose name or group matches `only`."""
    pattern = re.compile(only, re.IGNORECASE)
    return [
        case
        for case in cases
        if (case.headline or not quick) and (pattern.search(case.name) or pattern.search(case.group))
    ]
