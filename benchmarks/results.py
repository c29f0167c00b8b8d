"""What was measured: samples per figure and system, medians, ratios, and their JSON.

Pure data, run by the runner. A figure that a system failed to give keeps the reason: the table shows it.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.sampling import Reading

SCHEMA = 1
# Units in which more is better; in all others less is.
RATES = frozenset({"/s", "GB/s"})


@dataclass
class Figure:
    """One line of the table: `samples[system]` are all values, `notes[system]` why there are none."""

    name: str
    group: str
    unit: str
    samples: dict[str, list[float]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def median(self, system: str) -> float | None:
        values = self.samples.get(system)
        return statistics.median(values) if values else None

    def ratio(self, system: str, other: str) -> float | None:
        """How many times better `system` is than `other` (above 1 is better, whatever the unit)."""
        mine, theirs = self.median(system), self.median(other)
        if mine is None or theirs is None:
            return None
        better, worse = (mine, theirs) if self.unit in RATES else (theirs, mine)
        if worse <= 0:
            return None
        return better / worse


@dataclass
class Results:
    """Everything of one run. Figures keep the order in which they first appeared."""

    figures: dict[str, Figure] = field(default_factory=dict)
    # Why a whole case gave nothing: {case name: {system: error}}.
    case_failures: dict[str, dict[str, str]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def figure(self, name: str, group: str, unit: str) -> Figure:
        return self.figures.setdefault(name, Figure(name, group, unit))

    def add(self, system: str, group: str, readings: Iterable[Reading]) -> None:
        for reading in readings:
            figure = self.figure(reading.figure, group, reading.unit)
            if reading.value is None:
                figure.notes[system] = clean(reading.note)
            else:
                figure.samples.setdefault(system, []).append(reading.value)

    def fail(self, system: str, case: str, error: str) -> None:
        """Record that `case` failed: on its figure if it has one by its name, else by itself."""
        self.case_failures.setdefault(case, {}).setdefault(system, clean(error))
        if case in self.figures:
            self.figures[case].failures.setdefault(system, clean(error))

    def settle(self, order: Iterable[str] = ()) -> None:
        """Give failures of cases a line of their own where no figure shows them, and sort by `order`."""
        for case, failed in self.case_failures.items():
            figure = self.figures.get(case) or self.figure(case, "failed", "")
            for system, error in failed.items():
                figure.failures.setdefault(system, error)
        rank = {group: index for index, group in enumerate(order)}
        self.figures = dict(sorted(self.figures.items(), key=lambda item: rank.get(item[1].group, len(rank))))

    def systems(self) -> list[str]:
        from benchmarks.systems import NAMES

        seen = {s for f in self.figures.values() for s in (*f.samples, *f.notes, *f.failures)}
        return [name for name in NAMES if name in seen]

    def median(self, figure: str, system: str) -> float | None:
        found = self.figures.get(figure)
        return found.median(system) if found else None

    def ratio(self, figure: str, system: str, other: str) -> float | None:
        found = self.figures.get(figure)
        return found.ratio(system, other) if found else None

    def as_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "facts": self.facts,
            "versions": self.versions,
            "figures": [
                {
                    "name": f.name,
                    "group": f.group,
                    "unit": f.unit,
                    "medians": {s: f.median(s) for s in f.samples},
                    "samples": f.samples,
                    "notes": f.notes,
                    "failures": f.failures,
                }
                for f in self.figures.values()
            ],
        }


def from_json(data: Mapping[str, Any]) -> Results:
    """The results that `as_json` wrote. Raises ValueError for another schema."""
    if data.get("schema") != SCHEMA:
        raise ValueError(f"these results have schema {data.get('schema')!r}, this program reads {SCHEMA}")
    figures = {
        f["name"]: Figure(f["name"], f["group"], f["unit"], f["samples"], f["notes"], f["failures"])
        for f in data["figures"]
    }
    return Results(figures, versions=dict(data["versions"]), facts=dict(data["facts"]))


def clean(text: str, limit: int = 300) -> str:
    """An error text fit to publish: one line, no colours, file paths cut to their last part, bounded."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    text = re.sub(r"(?<![\w.:/])/(?:[\w.+@-]+/)+([\w.+@-]+)", r"\1", text)
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
