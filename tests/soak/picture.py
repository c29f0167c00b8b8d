"""A soak as an SVG: a small panel for each sort of figure, a line for each process, grey up to the middle.

Pure: lines in, SVG text out, no drawing library.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from tests.soak.judge import Verdict

COLOURS = ("#d9480f", "#1c7ed6", "#2f9e44", "#ae3ec9", "#495057", "#e8a200", "#0b7285", "#a61e4d")
WIDTH, PANEL, LEFT, TOP, GAP = 860, 150, 60, 58, 46
LEGEND = 250


def draw(verdicts: Sequence[Verdict], title: str) -> str:
    """The picture of a run."""
    panels: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        panels.setdefault(_parts(verdict.line.name)[0], []).append(verdict)
    height = TOP + len(panels) * (PANEL + GAP)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text(LEFT, 22, title, size=15),
        _text(LEFT, 40, "judged is the second half, to the right of the grey", colour="#868e96"),
    ]
    for index, (name, shown) in enumerate(panels.items()):
        out += _panel(name, shown, TOP + index * (PANEL + GAP))
    return "\n".join([*out, "</svg>", ""])


def _parts(name: str) -> tuple[str, str]:
    """What a figure is of: the figure, and the process or folder."""
    for word in (" of ", " in "):
        if word in name:
            figure, _, what = name.partition(word)
            return figure, what
    return name, name


def _panel(name: str, shown: Sequence[Verdict], top: float) -> list[str]:
    points = [point for verdict in shown for point in verdict.line.points]
    start, end = min(at for at, _ in points), max(at for at, _ in points)
    most = max(value for _, value in points) * 1.08 or 1.0
    right = WIDTH - LEGEND
    scale_x = (right - LEFT) / ((end - start) or 1.0)
    base = top + 14 + PANEL
    unit = shown[0].line.kind.unit
    out = [
        _text(LEFT, top + 8, f"{name}, {unit}" if unit else name, size=12),
        f'<rect x="{LEFT}" y="{top + 14:.1f}" width="{(right - LEFT) / 2:.1f}" height="{PANEL}" fill="#f1f3f5"/>',
        f'<path d="M{LEFT} {top + 14:.1f}V{base:.1f}H{right}" fill="none" stroke="#868e96"/>',
        _text(LEFT - 6, base, "0", anchor="end"),
        _text(LEFT - 6, top + 24, f"{most / 1.08:.4g}", anchor="end"),
        _text(right, base + 13, f"{end - start:.0f} s", anchor="end"),
    ]
    for index, verdict in enumerate(shown):
        colour = COLOURS[index % len(COLOURS)]
        path = " ".join(
            f"{LEFT + (at - start) * scale_x:.1f},{base - value / most * PANEL:.1f}"
            for at, value in verdict.line.points
        )
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.3"/>')
        label = _parts(verdict.line.name)[1] + ("" if verdict.flat else " GROWS")
        out.append(_text(right + 12, top + 26 + 13 * index, label, colour=colour))
    return out


def _text(
    x: float, y: float, text: str, *, size: int = 11, colour: str = "#212529", anchor: str = "start"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )
