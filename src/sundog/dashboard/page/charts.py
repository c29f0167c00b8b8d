"""Charts over time: the machine each second, tasks each second, the program's own metrics. No Prometheus is needed.

Owns the charts' options and how records become their points. Runs in the head process' event loop.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from nicegui import ui

from sundog.dashboard.facts import FactTail
from sundog.dashboard.page.frame import PageFrame, address, ask, live
from sundog.dashboard.stream import TaskStream
from sundog.observe.metric_files import COUNTER, GAUGE, HISTOGRAM, Series
from sundog.observe.metric_history import ChartLine

if TYPE_CHECKING:
    from typing import TypeGuard

    from nicegui.events import ValueChangeEventArguments

COLORS = ["#3d7edb", "#2a9d6a", "#d98a1f", "#7a5cc4", "#1f9bb5", "#b8578f", "#6d7b3a", "#8a8f98"]
_TOP = 8
_OWN = 12
_POINTS = 300


def _options(title: str, unit: str, percent: bool = False) -> dict[str, object]:
    axis: dict[str, object] = {
        "type": "value",
        "min": 0,
        "axisLabel": {"color": "#8a94a3"},
        "splitLine": {"lineStyle": {"color": "#8883"}},
    }
    if percent:
        axis["max"] = 100
    return {
        "animation": False,
        "color": COLORS,
        "title": {
            "text": f"{title}, {unit}" if unit else title,
            "textStyle": {"fontSize": 13, "color": "#8a94a3"},
            "left": 0,
            "top": 0,
        },
        "grid": {"left": 58, "right": 12, "top": 44, "bottom": 24},
        "legend": {
            "top": 18,
            "left": 0,
            "type": "scroll",
            "textStyle": {"color": "#8a94a3"},
            "itemHeight": 8,
        },
        "tooltip": {"trigger": "axis"},
        "xAxis": {"type": "time", "axisLabel": {"color": "#8a94a3", "hideOverlap": True}},
        "yAxis": axis,
        "series": [],
    }


def share_chart() -> ui.echart:
    """Processor, memory and store in percent."""
    return ui.echart(_options("Machine", "%", True))


def rate_chart() -> ui.echart:
    """Tasks that ended in each second."""
    return ui.echart(_options("Tasks ended each second", ""))


def line_chart(title: str, unit: str) -> ui.echart:
    """Any lines over time."""
    return ui.echart(_options(title, unit))


def fill_lines(chart: ui.echart, lines: list[tuple[str, list[list[float]]]]) -> None:
    """Draw lines, each with its name."""
    chart.options["series"] = [_line(name, points) for name, points in lines[:_TOP]]
    chart.update()


def _line(name: str, points: list[list[float]], *, area: bool = False) -> dict[str, object]:
    made: dict[str, object] = {
        "name": name,
        "type": "line",
        "showSymbol": False,
        "data": points,
        "lineStyle": {"width": 1.5},
    }
    if area:
        made |= {"areaStyle": {"opacity": 0.35}, "stack": "all"}
    return made


def machine_series(facts: FactTail, since_s: float) -> dict[str, list[list[float]]]:
    """What the samples of the machine say, by name, as points (milliseconds, value)."""
    found: dict[str, list[list[float]]] = {}
    rows = [fact for fact in facts.machine if fact.at_s >= since_s]
    step = max(1, len(rows) // _POINTS)
    for fact in rows[::step]:
        data, at = fact.data, round(fact.at_s * 1000)
        shares = {
            "CPU": 100 * float(data.get("cpu", 0.0)),
            "memory": _percent(data.get("memory_used"), data.get("memory_total")),
            "objects": _percent(data.get("store_used"), data.get("store_total")),
        }
        for name, value in {
            **shares,
            **{key: value for key, value in data.items() if _is_number(value)},
        }.items():
            found.setdefault(name, []).append([at, round(value, 2)])
    return found


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _percent(part: float | None, whole: float | None) -> float:
    return 100.0 * float(part) / float(whole) if part and whole else 0.0


def fill_shares(chart: ui.echart, facts: FactTail, span_s: float) -> None:
    """Draw the machine's shares of the last seconds."""
    newest = facts.machine[-1].at_s if facts.machine else time.time()
    series = machine_series(facts, newest - span_s)
    chart.options["series"] = [_line(name, series.get(name, [])) for name in ("CPU", "memory", "objects")]
    chart.update()


def rate_series(stream: TaskStream, since_s: float, until_s: float) -> list[tuple[str, list[list[float]]]]:
    """Tasks that ended in each second, by the functions that ran most; the others together."""
    rates = stream.rates(since_s)
    order = sorted(rates, key=lambda name: -sum(rates[name].values()))
    step = max(1, int((until_s - since_s) // _POINTS))
    seconds = range(int(since_s), int(until_s) + 1, step)
    named = [(name, rates[name]) for name in order[:_TOP]]
    if len(order) > _TOP:
        rest: Counter[int] = Counter()
        for name in order[_TOP:]:
            rest.update(rates[name])
        named.append(("others", dict(rest)))
    return [
        (name, [[at * 1000, sum(counts.get(at + k, 0) for k in range(step)) / step] for at in seconds])
        for name, counts in named
    ]


def fill_rates(chart: ui.echart, stream: TaskStream, span_s: float, is_live: bool) -> None:
    """Draw the rates of the last seconds."""
    until = time.time() if is_live else stream.last_s or time.time()
    since = max(until - span_s, stream.first_s or until - span_s)
    chart.options["series"] = [
        _line(name, points, area=True) for name, points in rate_series(stream, since, until)
    ]
    chart.update()


_MACHINE = (
    ("Memory of the machine", "GB", 1e9, ("memory_used", "memory_total")),
    ("Object store", "MB", 1e6, ("store_used", "spilled_bytes")),
    ("Processes, load", "", 1.0, ("workers", "load", "descriptors")),
    ("Free disk", "GB", 1e9, ("disk_free",)),
)


def draw(frame: PageFrame, minutes: str) -> None:
    """The view of metrics over time."""
    source = frame.source
    span = [60.0 * (int(minutes) if minutes.isdigit() and 0 < int(minutes) <= 60 else 15)]

    def chosen(event: ValueChangeEventArguments[int]) -> None:
        span[0] = 60.0 * int(event.value)
        ui.navigate.history.replace(address("/charts", minutes=event.value))
        refresh()

    with ui.element("div").classes("sd-row"):
        ui.toggle({5: "5 min", 15: "15 min", 60: "1 h"}, value=int(span[0] // 60), on_change=chosen).props(
            "dense no-caps unelevated"
        )
        ui.label("from the session's own records; Prometheus keeps longer times").classes("sd-dim")
    style = "height:230px;width:calc(50% - 6px)"
    with ui.element("div").classes("sd-row"):
        shares, rates = share_chart().style(style), rate_chart().style(style)
        machine = [ui.echart(_options(title, unit)).style(style) for title, unit, _, _ in _MACHINE]
    with ui.element("h2"):
        ui.label("The program's own metrics")
    charts = ui.element("div").classes("sd-row").props("data-own-charts")
    own = ui.html("", sanitize=False).props("data-own")
    drawn: dict[str, ui.echart] = {}

    async def update() -> None:
        facts, stream = await ask(source.read_facts), await ask(source.read_stream)
        fill_shares(shares, facts, span[0])
        fill_rates(rates, stream, span[0], source.is_live)
        newest = facts.machine[-1].at_s if facts.machine else time.time()
        found = machine_series(facts, newest - span[0])
        for chart, (_, _, unit, names) in zip(machine, _MACHINE):
            chart.options["series"] = [
                _line(name.replace("_", " "), [[at, value / unit] for at, value in found.get(name, [])])
                for name in names
            ]
            chart.update()
        until = time.time() if source.is_live else newest
        fill_own(charts, drawn, facts.metrics.lines(until - span[0], until), style)
        own.set_content(metrics_html(await ask(source.user_metrics)))

    refresh = live(frame, update)


_SAYS = {COUNTER: "each second", HISTOGRAM: "mean", GAUGE: ""}


def fill_own(place: ui.element, drawn: dict[str, ui.echart], lines: list[ChartLine], style: str) -> None:
    """Draw a chart for each of the program's own metrics, the first dozen; more are in the table."""
    for metric in sorted({line.metric for line in lines})[:_OWN]:
        rows = [line for line in lines if line.metric == metric]
        if metric not in drawn:
            with place:
                drawn[metric] = ui.echart(_options(metric, _SAYS.get(rows[0].kind, ""))).style(style)
        chart = drawn[metric]
        names = [line.label.removeprefix(metric).strip("{}") or metric for line in rows[:_TOP]]
        chart.options["series"] = [_line(name, line.points) for name, line in zip(names, rows)]
        chart.update()


def metrics_html(series: list[Series]) -> str:
    """User metrics as a table."""
    import html

    if not series:
        return "<div class='sd-empty'>None. A program makes them with sundog.util.metrics.</div>"
    rows = []
    for each in sorted(series, key=lambda row: (row.key.name, row.key.tags))[:500]:
        tags = ", ".join(f"{key}={value}" for key, value in each.key.tags)
        if each.key.kind == HISTOGRAM:
            count = sum(each.values[1:])
            shown = f"{count:,.0f} values, mean {each.values[0] / count if count else 0.0:.4g}"
        else:
            shown = f"{each.values[0]:,.6g}"
        where = f"process {each.process[:8]}" if each.key.kind == GAUGE else ""
        cells = (each.key.name, each.key.kind, tags, shown, where, each.key.description)
        rows.append(
            "<tr>" + "".join(f"<td class='text-left'>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
        )
    heads = "".join(
        f"<th class='text-left'>{name}</th>" for name in ("name", "kind", "tags", "value", "", "description")
    )
    return f"<table class='q-table sd-table'><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
