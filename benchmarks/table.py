"""The results as a Markdown table: medians per system, and how many times better sundog is.

Pure: results in, text out. A cell is a median, "—" (does not exist there), or a number that leads to the
reason below the table (failed, left out).
"""

from __future__ import annotations

from benchmarks.results import RATES, Figure, Results
from benchmarks.systems import TITLES

ABSENT = "—"
# What the README shows of a whole run: what a user feels first. The order is that of the page.
SHORT = {
    "init to first result": "`init()` to the first result",
    "idle memory": "memory of an idle session",
    "single client tasks sync": "tasks, one at a time",
    "single client tasks async": "tasks in flight",
    "1:1 actor calls async": "actor calls in flight",
    "single client put calls (Plasma Store)": "`put` of a small value",
    "put 1 MB warm": "`put` of 1 MB",
    "shortest paying task": "shortest task that pays off on two cores",
}
_SHORT_SYSTEMS = ("sundog", "ray", "dask", "ppe")


def number(value: float | None) -> str:
    """Three significant digits, thousands separated: 84123.4 → "84,100", 0.01234 → "0.0123"."""
    if value is None:
        return ABSENT
    if value == int(value) and abs(value) < 1000:
        return str(int(value))
    if abs(value) >= 999.5:
        digits = len(str(round(abs(value)))) - 3
        return f"{round(value, -digits):,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    if abs(value) >= 1:
        return f"{value:.2f}"
    return f"{value:.3g}"


def times(ratio: float | None) -> str:
    return ABSENT if ratio is None else f"{number(ratio)} ×"


def markdown(results: Results) -> str:
    """The whole table with its footnotes."""
    systems = results.systems()
    compared = [other for other in ("ray", "raw") if other in systems and "sundog" in systems]
    header = ["", "unit", *(TITLES[s] for s in systems), *(f"sundog : {TITLES[o]}" for o in compared)]
    lines = [_row(header), _row(["---", "---", *["---:"] * (len(systems) + len(compared))])]
    reasons: list[str] = []
    group = None
    for figure in results.figures.values():
        if figure.group != group:
            group = figure.group
            lines.append(_row([f"**{group}**", *[""] * (len(header) - 1)]))
        cells = [_cell(figure, system, reasons) for system in systems]
        ratios = [times(_ratio(figure, other)) for other in compared]
        lines.append(_row([figure.name, figure.unit, *cells, *ratios]))
    notes = [f"{index}. {reason}" for index, reason in enumerate(reasons, 1)]
    return "\n".join([*lines, "", *notes, ""] if notes else [*lines, ""])


def short(results: Results) -> str:
    """The figures of `SHORT` alone; a figure that this run does not have is left out."""
    systems = [system for system in _SHORT_SYSTEMS if system in results.systems()]
    header = ["", "unit", *(TITLES[system] for system in systems), "sundog : Ray"]
    lines = [_row(header), _row(["---", "---", *["---:"] * (len(systems) + 1)])]
    for name, title in SHORT.items():
        figure = results.figures.get(name)
        if figure is not None:
            cells = [number(figure.median(system)) for system in systems]
            lines.append(_row([title, figure.unit, *cells, times(_ratio(figure, "ray"))]))
    return "\n".join([*lines, ""])


def _ratio(figure: Figure, other: str) -> float | None:
    # Only speed has a raw limit: a bare echo imports nothing and manages nothing.
    return None if other == "raw" and figure.unit not in RATES else figure.ratio("sundog", other)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _cell(figure: Figure, system: str, reasons: list[str]) -> str:
    failure, note = figure.failures.get(system), figure.notes.get(system)
    value = figure.median(system)
    if failure is None and (note is None or value is not None):
        return number(value)
    reason = f"{TITLES[system]}: {failure if failure is not None else note}"
    if reason not in reasons:
        reasons.append(reason)
    mark = f"<sup>{reasons.index(reason) + 1}</sup>"
    if value is not None:
        return f"{number(value)} {mark}"
    return f"failed {mark}" if failure is not None else f"left out {mark}"


def report(results: Results) -> str:
    """The table with what one must know to read it."""
    facts = results.facts
    versions = ", ".join(
        f"{TITLES[s]} {results.versions[s]}"
        for s in results.systems()
        if s in results.versions and s not in ("ppe", "pool", "raw")
    )
    machine = "{cores} cores ({cpu}), {memory_gb} GB, Linux {kernel}, Python {python}".format_map(facts)
    missing = facts.get("missing") or []
    intro = [
        f"Made by `{facts['command']}` on {facts['made']}: {machine}.",
        f"{versions}. Two workers each, their defaults otherwise; medians over {facts['rounds']} interleaved"
        " round(s), one system running at a time.",
        "A ratio above 1 means that sundog is better, whatever the unit.",
    ]
    if facts.get("turns_not_run"):
        intro.append(f"The time budget ended the run before its last {facts['turns_not_run']} turns.")
    if missing:
        intro.append(f"Not installed, so not measured: {', '.join(TITLES[s] for s in missing)}.")
    return "\n".join([*intro, "", markdown(results)])
