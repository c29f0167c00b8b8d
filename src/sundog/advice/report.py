"""The doctor's report: for a terminal, a pipe, a notebook and a program.

Owns its rows and its three forms: text, rich, HTML. Pure.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sundog.advice.findings import Finding
from sundog.plain import field, plain
from sundog.printable import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

COLUMNS = 60
_BARS = " ▁▂▃▄▅▆▇█"
_PATH_SHOWN = 5
_UNSURE = 0.15
_OTHERS_NOTED = 0.3


@plain()
class DoctorReport:
    """What the doctor found in a run."""

    session: str
    length_s: float
    played_s: float  # how long it takes in the simulator, unchanged
    tasks: int
    cpus: float
    cores: int
    idle_share: float
    critical_path: list[tuple[str, float]]
    parallelism: list[float]
    findings: list[Finding] = field(default_factory=list)
    missed: int = 0
    others: float = 0.0  # the share of all cores that other programs used during the run
    is_whole: bool = True

    @property
    def error(self) -> float:
        """How far the simulator is from what was measured, as a share."""
        return self.played_s / self.length_s - 1.0 if self.length_s > 0 and self.played_s > 0 else 0.0

    # ------------------------------------------------------------------ forms
    def as_dict(self) -> dict[str, object]:
        """The report as plain values, for JSON."""
        return {
            "session": self.session,
            "length_s": round(self.length_s, 6),
            "simulated_s": round(self.played_s, 6),
            "simulation_error": round(self.error, 4),
            "tasks": self.tasks,
            "cpus": self.cpus,
            "cores": self.cores,
            "idle_share": round(self.idle_share, 4),
            "critical_path": [
                {"what": what, "seconds": round(seconds, 6)} for what, seconds in self.critical_path
            ],
            "parallelism": [round(each, 3) for each in self.parallelism],
            "events_missed": self.missed,
            "used_by_others": round(self.others, 3),
            "findings": [_as_dict(each) for each in self.findings],
        }

    def head(self) -> list[str]:
        """The lines above the findings."""
        if not self.is_whole:
            return [f"{printable(self.session)}: no task has ended, so there is nothing to examine."]
        peak = max([*self.parallelism, 1.0])
        path = ", ".join(
            f"{printable(what)} {seconds:.2f} s" for what, seconds in self.critical_path[:_PATH_SHOWN]
        )
        lines = [
            f"{printable(self.session)}: {self.length_s:.2f} s, {self.tasks} attempts of tasks and calls, "
            f"{self.cpus:g} CPUs on {self.cores} cores",
            f"critical path: {path}",
            f"parallelism:   {chart(self.parallelism)}  at most {peak:.1f} at a time; CPUs idle {self.idle_share:.0%}",
        ]
        if abs(self.error) > _UNSURE:
            lines.append(
                f"The simulator says {self.played_s:.2f} s for this run as it was ({self.error:+.0%}): take "
                "predictions with care."
            )
        if self.others > _OTHERS_NOTED:
            lines.append(
                f"Other programs, and the runtime itself, used {self.others:.0%} of the cores meanwhile: without other "
                "programs it takes less, and what changes gain is another share."
            )
        if self.missed:
            lines.append(f"{self.missed} events are missing from these records.")
        return lines

    def _nothing(self) -> str:
        if self.played_s:
            return "Nothing worth changing was found."
        return (
            "The simulator cannot play this run again: its records contradict each other, or it has too many steps. So "
            "no change can be predicted. See where its time went: sundog timeline --html"
        )

    def __str__(self) -> str:
        lines = self.head()
        if self.is_whole and not self.findings:
            lines.append(self._nothing())
        for number, each in enumerate(self.findings, 1):
            lines += ["", *_lines(number, each, self.length_s)]
        return "\n".join(lines)

    __repr__ = __str__

    def brief(self) -> list[str]:
        """One line for each finding."""
        return [
            f"{printable(each.title)} ({_place(each)}): {self.length_s:.2f} s would be {_predicted(each)}. "
            f"{printable(each.change)}"
            for each in self.findings
        ]

    def rich(self) -> RenderableType:
        """For a terminal."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.syntax import Syntax
        from rich.text import Text

        parts: list[RenderableType] = [
            Text(line, style="bold" if not at else "") for at, line in enumerate(self.head())
        ]
        if self.is_whole and not self.findings:
            parts.append(Text(self._nothing(), style="green" if self.played_s else "yellow"))
        for number, each in enumerate(self.findings, 1):
            first, *rest = _lines(number, each, self.length_s, diff=False)
            body: list[RenderableType] = [Text(line.strip()) for line in rest]
            if each.diff:
                body.append(
                    Syntax(_printable_lines(each.diff), "diff", theme="ansi_dark", background_color="default")
                )
            parts.append(
                Panel(
                    Group(*body),
                    title=Text(first, style="bold yellow"),
                    title_align="left",
                    border_style="dim",
                )
            )
        return Group(*parts)

    def _repr_html_(self) -> str:
        """For a notebook."""
        parts = [f"<div><b>{html.escape(self.head()[0])}</b>"]
        parts += [f"<pre style='margin:0'>{html.escape(line)}</pre>" for line in self.head()[1:]]
        if self.is_whole and not self.findings:
            parts.append(f"<p>{self._nothing()}</p>")
        for number, each in enumerate(self.findings, 1):
            first, *rest = _lines(number, each, self.length_s, diff=False)
            parts.append(f"<h4>{html.escape(first)}</h4>")
            parts += [f"<div>{html.escape(line.strip())}</div>" for line in rest]
            if each.diff:
                parts.append(f"<pre>{_coloured(_printable_lines(each.diff).splitlines())}</pre>")
        return "\n".join([*parts, "</div>"])


def _as_dict(each: Finding) -> dict[str, object]:
    return {
        "kind": each.kind,
        "title": each.title,
        "file": each.file,
        "line": each.line,
        "often": each.often,
        "cost_s": round(each.cost_s, 6),
        "gain_s": round(each.gain_s, 6),
        "predicted_s": round(each.predicted_s, 6),
        "predicted_least_s": round(each.predicted_least_s, 6),
        "evidence": each.evidence,
        "change": each.change,
        "diff": each.diff,
    }


def _lines(number: int, each: Finding, length_s: float, *, diff: bool = True) -> list[str]:
    found = [
        f"{number}. {printable(each.title)}",
        f"   {_place(each)}, {each.often} time{'s' * (each.often != 1)}, cost {each.cost_s:.2f} s",
        f"   {printable(each.evidence)}",
        f"   change: {printable(each.change)}",
        f"   predicted: {_predicted(each)} instead of {length_s:.2f} s "
        + (f"({each.why_range})" if each.is_range else f"({each.gain_s / max(1e-9, length_s):.0%} less)"),
    ]
    if diff and each.diff:
        found += [f"   {line}" for line in _printable_lines(each.diff).splitlines()]
    return found


def _predicted(each: Finding) -> str:
    if each.is_range:
        return f"{each.predicted_least_s:.2f} to {each.predicted_s:.2f} s"
    return f"{each.predicted_s:.2f} s"


def _place(each: Finding) -> str:
    return printable(f"{each.file}:{each.line}") if each.line else "place not known"


def _printable_lines(text: str) -> str:
    return "\n".join(printable(line.replace("\t", "    ")) for line in text.splitlines())


def chart(values: Sequence[float]) -> str:
    """Values as a row of small bars.

    >>> chart([0, 1, 2, 4])
    ' ▂▄█'
    """
    top = max([*values, 1e-9])
    return "".join(_BARS[round(max(0.0, value) / top * (len(_BARS) - 1))] for value in values)


def _coloured(lines: Iterable[str]) -> str:
    colours = {"+": "green", "-": "crimson", "@": "gray"}
    return "\n".join(
        f"<span style='color:{colours[line[0]]}'>{html.escape(line)}</span>"
        if line[:1] in colours
        else html.escape(line)
        for line in lines
    )
