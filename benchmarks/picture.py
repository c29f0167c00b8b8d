"""The headline figures as an SVG: every system's speed as a multiple of Ray's, on a logarithmic scale.

Pure: results in, SVG text out, no drawing library. One row per figure, one dot per system, Ray is the line
at 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from benchmarks.results import Results
from benchmarks.systems import TITLES

HEADLINES: tuple[tuple[str, str], ...] = (
    ("init to first result", "start to first result"),
    ("idle memory", "memory while idle"),
    ("single client tasks sync", "tasks, one at a time"),
    ("single client tasks async", "tasks, many in flight"),
    ("1:1 actor calls sync", "actor calls, one at a time"),
    ("1:1 actor calls async", "actor calls, many in flight"),
    ("1:1 async-actor calls sync", "asyncio actor, one at a time"),
    ("1:1 async-actor calls async", "asyncio actor, many in flight"),
    ("single client put calls (Plasma Store)", "put, small"),
    ("put 1 MB warm", "put, 1 MB"),
    ("put 128 MB cold", "put, 128 MB cold"),
    ("shortest paying task", "shortest task that pays off"),
)
COLOURS = {
    "sundog": "#d9480f",
    "ray": "#495057",
    "dask": "#1c7ed6",
    "ppe": "#2f9e44",
    "pool": "#ae3ec9",
    "raw": "#adb5bd",
}
WIDTH, LEFT, RIGHT, TOP, ROW, BOTTOM = 860, 230, 90, 70, 30, 40


@dataclass(frozen=True)
class Axis:
    """A logarithmic scale from 10**low to 10**high over the plot's width."""

    low: int
    high: int

    def x(self, ratio: float) -> float:
        share = (math.log10(ratio) - self.low) / (self.high - self.low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)


def axis_for(ratios: Sequence[float]) -> Axis:
    """The decades that hold all ratios, and 1."""
    logs = [math.log10(r) for r in (*ratios, 1.0)]
    low, high = math.floor(min(logs)), math.ceil(max(logs))
    return Axis(low, max(high, low + 1))


def rows_of(results: Results, baseline: str) -> list[tuple[str, dict[str, float]]]:
    """(label, {system: times the baseline}) for each headline that the baseline has."""
    rows: list[tuple[str, dict[str, float]]] = []
    for name, label in HEADLINES:
        figure = results.figures.get(name)
        if figure is None or figure.median(baseline) is None:
            continue
        ratios = {
            s: r for s in COLOURS if s != baseline and (r := figure.ratio(s, baseline)) is not None and r > 0
        }
        if ratios:
            rows.append((label, ratios))
    return rows


def draw(results: Results, baseline: str = "ray") -> str | None:
    """The picture, or None when the baseline shares no headline figure with another system."""
    rows = rows_of(results, baseline)
    if not rows:
        return None
    axis = axis_for([ratio for _, ratios in rows for ratio in ratios.values()])
    height = TOP + ROW * len(rows) + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        f' width="{WIDTH}" height="{height}"'
        ' font-family="system-ui, sans-serif" font-size="13" role="img">',
        f"<title>Speed as a multiple of {escape(TITLES[baseline])}'s, logarithmic scale</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        *_legend(rows, baseline),
        *_grid(axis, baseline, height),
    ]
    for index, (label, ratios) in enumerate(rows):
        parts += _draw_row(TOP + ROW * index + ROW / 2, label, ratios, axis)
    return "\n".join([*parts, "</svg>", ""])


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", fill: str = "#212529", bold: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}"{weight}>{escape(text)}</text>'


def _legend(rows: Sequence[tuple[str, dict[str, float]]], baseline: str) -> list[str]:
    shown = [system for system in COLOURS if any(system in ratios for _, ratios in rows)]
    parts = [_text(16, 26, f"Times better than {TITLES[baseline]} (logarithmic scale)", bold=True)]
    x = float(LEFT)
    for system in shown:
        parts.append(f'<circle cx="{x:.1f}" cy="46" r="5" fill="{COLOURS[system]}"/>')
        parts.append(_text(x + 10, 50, TITLES[system]))
        x += 34 + 7.2 * len(TITLES[system])
    return parts


def _grid(axis: Axis, baseline: str, height: float) -> list[str]:
    parts: list[str] = []
    for decade in range(axis.low, axis.high + 1):
        x = axis.x(10.0**decade)
        colour, width = (COLOURS[baseline], 1.5) if decade == 0 else ("#e9ecef", 1)
        parts.append(
            f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - BOTTOM + 4}" stroke="{colour}"'
            f' stroke-width="{width}"/>'
        )
        name = f"{TITLES[baseline]} = 1" if decade == 0 else f"{10.0**decade:g} ×"
        parts.append(_text(x, height - BOTTOM + 22, name, anchor="middle", fill="#495057"))
    return parts


def _draw_row(y: float, label: str, ratios: dict[str, float], axis: Axis) -> list[str]:
    parts = [_text(LEFT - 14, y + 4, label, anchor="end")]
    # sundog last, so that its dot lies on top.
    for system in sorted(ratios, key=lambda s: s == "sundog"):
        x = axis.x(ratios[system])
        if system == "sundog":
            one = axis.x(1.0)
            parts.append(
                f'<line x1="{one:.1f}" y1="{y:.1f}" x2="{x:.1f}" y2="{y:.1f}" stroke="{COLOURS[system]}"'
                ' stroke-width="3" stroke-opacity="0.35"/>'
            )
        radius = 6.5 if system == "sundog" else 4.5
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{COLOURS[system]}"/>')
    if "sundog" in ratios:
        shown = ratios["sundog"]
        parts.append(
            _text(WIDTH - 16, y + 4, f"{shown:.0f} ×" if shown >= 10 else f"{shown:.1f} ×", anchor="end")
        )
    return parts
