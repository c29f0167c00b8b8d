"""The results of the real programs as Markdown: one table per measure. Pure: outcomes in, text out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.realwork import SYSTEMS, TITLES, WORKLOADS
from benchmarks.realwork.running import Outcome
from benchmarks.table import ABSENT, number

# Within this share of the first place counts as first: the figures of a busy machine differ by more.
NEAR = 1.10


@dataclass
class Row:
    """One workload: the outcomes of each system, and the reasons of those that failed."""

    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def median(self, system: str, measure: Callable[[Outcome], float | None]) -> float | None:
        """The median of a measure over the rounds; None if the system has none."""
        values = [value for each in self.outcomes.get(system, []) if (value := measure(each)) is not None]
        return median(values) if values else None


MEASURES: dict[str, tuple[str, Callable[[Outcome], float | None]]] = {
    "cold: the whole program, from the start of Python to its end": ("s", lambda each: each.wall_s),
    "warm: the work again in the same program": ("s", lambda each: each.warm_s),
    "processor seconds of all processes": ("s", lambda each: each.cpu_s),
    "peak memory (PSS of all processes)": ("MB", lambda each: each.peak_pss_mb),
}


def best(values: Mapping[str, float | None]) -> str | None:
    """The system with the least; None if nobody has a figure."""
    known = {system: value for system, value in values.items() if value is not None}
    return min(known, key=lambda system: known[system]) if known else None


def standing(values: Mapping[str, float | None]) -> str:
    """How sundog stands among the others: "first", "near" (within 10 % of the first), or "x × of the first"."""
    own, first = values.get("sundog"), best(values)
    if own is None or first is None:
        return ABSENT
    if first == "sundog":
        return "first"
    share = own / (values[first] or 1e-9)
    return f"near ({share:.2f} × {TITLES[first]})" if share <= NEAR else f"**{share:.2f} × {TITLES[first]}**"


def tables(rows: Mapping[str, Row], systems: Sequence[str] = SYSTEMS) -> str:
    """All measures, and below them why a cell is empty."""
    out = []
    for title, (unit, measure) in MEASURES.items():
        out += [f"#### {title}, {unit}", "", _line(["", *(TITLES[s] for s in systems), "sundog is"])]
        out.append(_line(["---", *["---:"] * len(systems), "---"]))
        for workload, row in rows.items():
            values = {system: row.median(system, measure) for system in systems}
            cells = ["failed" if s in row.failures else number(values[s]) for s in systems]
            out.append(_line([WORKLOADS[workload], *cells, standing(values)]))
        out.append("")
    out += [
        # What a program said last is for the terminal: it may name the machine.
        f"- {WORKLOADS[workload]}, {TITLES[system]}: {reason.partition('; it last said')[0]}"
        for workload, row in rows.items()
        for system, reason in row.failures.items()
    ]
    return "\n".join(out)


def page(rows: Mapping[str, Row], systems: Sequence[str], machine: Mapping[str, object], date: str) -> str:
    """The section of docs/benchmarks.md: where and how it was measured, and all tables."""
    rounds = max((len(each) for row in rows.values() for each in row.outcomes.values()), default=0)
    busy = machine.get("busy_before")
    return (
        f"Made by `python -m benchmarks.realwork` on {date}: {machine['cores']} cores ({machine['cpu']}), "
        f"{machine['memory_gb']} GB, Linux {machine['kernel']}, Python {machine['python']}; other programs had "
        f"{100 * busy if isinstance(busy, float) else 0:.0f} % of the cores before it. Medians over up to {rounds} "
        "start(s) of each program, which does its work three times; processor seconds are of all its processes, from "
        f"its start to its end.\n\n{tables(rows, systems)}"
    )


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
