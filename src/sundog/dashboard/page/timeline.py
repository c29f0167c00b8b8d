"""The timeline: a lane for each process, a bar for each task, live; wheel and drag zoom, a click opens the task.

::

    window (start, end) ──► TaskStream.bars: at most some thousand bars ──► the chart
    zoom in the browser ──► the window ──► finer bars

Owns the chart and its window. The browser gets what its pixels can show, however many tasks there are. Runs in the
head process' event loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from nicegui import ui

from sundog.dashboard.page.charts import COLORS
from sundog.dashboard.page.frame import PageFrame, address, ask, live
from sundog.dashboard.page.tables import seconds
from sundog.dashboard.stream import TaskStream
from sundog.plain import plain
from sundog.printable import printable

if TYPE_CHECKING:
    from nicegui.events import EChartPointClickEventArguments, GenericEventArguments, KeyEventArguments

    from sundog.dashboard.stream import Bar

_FOLLOW_S = 60.0
_LANES_MAX = 64
_MARGIN = 0.5  # of the window, on both sides: a drag finds bars there at once

# A bar: from its first to its last moment, at least a pixel wide; red at the foot if something in it failed.
_RENDER = """(params, api) => {
  const from = api.coord([api.value(1), api.value(0)]), to = api.coord([api.value(2), api.value(0)]);
  const height = Math.max(3, Math.min(18, api.size([0, 1])[1] * 0.75)), area = params.coordSys;
  const left = Math.max(from[0], area.x), right = Math.min(Math.max(to[0], from[0] + 1), area.x + area.width);
  if (right <= left) return null;
  const box = {x: left, y: from[1] - height / 2, width: right - left, height};
  const bars = [{type: 'rect', shape: box, style: {fill: api.value(3), opacity: api.value(5) > 1 ? 0.75 : 1}}];
  if (api.value(4)) bars.push({type: 'rect', shape: {...box, y: box.y + height - 3, height: 3},
    style: {fill: '#d0342c'}});
  return {type: 'group', children: bars};
}"""
_TIP = """(p) => `<b>${p.data[7]}</b><br>${p.data[8]}`"""


@plain()
class TimelineWindow:
    """What is looked at, in seconds of the wall clock."""

    start_s: float = 0.0
    end_s: float = 0.0
    follow: bool = True

    def move(self, stream: TaskStream, is_live: bool) -> None:
        """To the newest tasks, while it follows them."""
        if self.follow:
            end = time.time() if is_live else stream.last_s or time.time()
            first = stream.first_s or end - 1.0
            self.start_s = max(end - _FOLLOW_S, first) if is_live else first
            self.end_s = max(end, self.start_s + 0.001)


def draw(frame: PageFrame, start: str, end: str) -> None:
    """Build it."""
    TimelineView(frame, window_of(start, end))


def window_of(start: str, end: str) -> TimelineWindow:
    """The window that an address asks for; nonsense counts as nothing."""
    try:
        window = TimelineWindow(float(start), float(end), follow=False)
    except ValueError:
        return TimelineWindow()
    return window if window.start_s < window.end_s else TimelineWindow()


class TimelineView:
    """The chart of one browser, and its window."""

    def __init__(self, frame: PageFrame, window: TimelineWindow) -> None:
        self.source, self.window = frame.source, window
        self._lanes = 0
        text = "follow the newest minute" if self.source.is_live else "all of it"
        with ui.element("div").classes("sd-row"):
            self._follow = ui.switch(text, value=window.follow)
            for label, act in (
                ("zoom in (+)", lambda: self.zoom(0.5)),
                ("zoom out (-)", lambda: self.zoom(2.0)),
                ("everything", self.everything),
                ("link to this window", self.share),
            ):
                ui.button(label, on_click=act).props("flat dense no-caps size=sm")
            self._shown = ui.label("loading …").classes("sd-dim").props("data-shown")
        self._chart = ui.echart(_options()).style("width:100%;height:420px")
        self._names = ui.html("", sanitize=False).classes("sd-row")
        self._refresh = live(frame, self._update)
        self._chart.on("wheel.prevent", self._wheeled, throttle=0.1, js_handler=_ON_WHEEL)
        self._chart.on("mousedown", self._dragged, js_handler=_ON_DOWN)
        self._chart.on_point_click(_open_task)
        ui.keyboard(on_key=lambda event: _key(event, self.zoom), repeating=True)

    async def _update(self) -> None:
        source, window, chart = self.source, self.window, self._chart
        stream = await ask(source.read_stream)
        activity = await ask(source.activity) if source.is_live else None
        if self._follow.value:
            window.follow = True
            window.move(stream, source.is_live)
        span = window.end_s - window.start_s
        bars = await ask(stream.bars, window.start_s - _MARGIN * span, window.end_s + _MARGIN * span)
        running = [
            (each.who.pid, call.name, call.start_s)
            for each in (activity.workers if activity is not None else ())
            for call in each.calls
            if call.start_s
        ]
        labels, data, total = rows_of(stream, bars, running, time.time())
        chart.options["yAxis"]["data"] = labels
        chart.options["series"][0]["data"] = data
        chart.options["xAxis"]["min"] = round(window.start_s * 1000, 3)
        chart.options["xAxis"]["max"] = round(window.end_s * 1000, 3)
        if len(labels) != self._lanes:
            self._lanes = len(labels)
            chart.style(f"height:{max(160, 70 + 24 * len(labels))}px")
        chart.update()
        self._shown.set_text(
            f"{stream.total:,} ended tasks · {seconds(span)} shown · {len(data):,} bars for {total:,} tasks"
            if stream.total or data
            else "No task has ended yet."
        )
        self._names.set_content(legend(stream))

    def look_at(self, start_s: float, end_s: float) -> None:
        """Show a window, and stay there."""
        self._follow.set_value(False)
        window = self.window
        window.follow, window.start_s, window.end_s = False, start_s, max(end_s, start_s + 1e-5)
        self._refresh()

    def zoom(self, factor: float) -> None:
        """Show more or less around the middle."""
        window = self.window
        middle, half = (window.start_s + window.end_s) / 2, (window.end_s - window.start_s) / 2 * factor
        self.look_at(middle - half, middle + half)

    def everything(self) -> None:
        """Show all tasks that are known."""
        stream = self.source.stream
        self.look_at(stream.first_s, max(stream.last_s, stream.first_s + 0.001))

    def share(self) -> None:
        """Let the address of the page lead to this window."""
        start, end = f"{self.window.start_s:.6f}", f"{self.window.end_s:.6f}"
        ui.navigate.history.replace(address("/timeline", start=start, end=end))
        ui.notify("The address of this page now leads to this window.")

    def _wheeled(self, event: GenericEventArguments) -> None:
        window = self.window
        part, delta = float(event.args.get("part", 0.5)), float(event.args.get("delta", 0.0))
        factor = 1.25 if delta > 0 else 0.8
        at = window.start_s + part * (window.end_s - window.start_s)
        self.look_at(at - (at - window.start_s) * factor, at + (window.end_s - at) * factor)

    def _dragged(self, event: GenericEventArguments) -> None:
        move = float(event.args.get("part", 0.0)) * (self.window.end_s - self.window.start_s)
        self.look_at(self.window.start_s - move, self.window.end_s - move)


def _open_task(event: EChartPointClickEventArguments) -> None:
    if isinstance(event.data, list) and event.data[6]:
        ui.navigate.to(f"/task/{event.data[6]}")


_ON_WHEEL = """(event) => {
  const box = event.currentTarget.getBoundingClientRect();
  emit({part: Math.min(1, Math.max(0, (event.clientX - box.left - 90) / (box.width - 110))), delta: event.deltaY});
}"""
_ON_DOWN = """(event) => {
  const box = event.currentTarget.getBoundingClientRect(), from = event.clientX;
  const up = (e) => { window.removeEventListener('mouseup', up);
    if (Math.abs(e.clientX - from) > 5) emit({part: (e.clientX - from) / (box.width - 110)}); };
  window.addEventListener('mouseup', up);
}"""


def _key(event: KeyEventArguments, zoom: Callable[[float], None]) -> None:
    if event.action.keydown and str(event.key.name) in ("+", "-", "="):
        zoom(2.0 if str(event.key.name) == "-" else 0.5)


def _options() -> dict[str, object]:
    grey = "#8a94a3"
    return {
        "animation": False,
        "grid": {"left": 90, "right": 20, "top": 10, "bottom": 30},
        "tooltip": {":formatter": _TIP},
        "xAxis": {
            "type": "time",
            "axisLabel": {"color": grey},
            "splitLine": {"show": True, "lineStyle": {"color": "#8882"}},
        },
        "yAxis": {
            "type": "category",
            "data": [],
            "axisLabel": {"color": grey, "width": 80, "overflow": "truncate"},
            "inverse": True,
        },
        "series": [
            {
                "type": "custom",
                ":renderItem": _RENDER,
                "encode": {"x": [1, 2], "y": 0},
                "data": [],
                "clip": True,
                "progressive": 0,
            }
        ],
    }


def color_of(stream: TaskStream, name: int) -> str:
    """The colour of a function."""
    return COLORS[stream.colors.get(stream.names.get(name, ""), 0) % len(COLORS)]


def rows_of(
    stream: TaskStream,
    bars: dict[int, list[Bar]],
    running: list[tuple[int, str, float]],
    now_s: float,
) -> tuple[list[str], list[list[object]], int]:
    """Labels of lanes, points for the chart, and for how many tasks they stand."""
    order = sorted(bars, key=lambda process: stream.lanes[process].label)[:_LANES_MAX]
    labels = [stream.lanes[process].label for process in order]
    data: list[list[object]] = []
    total = 0
    for lane, process in enumerate(order):
        for bar in bars[process]:
            total += bar.tasks
            name = printable(stream.names.get(bar.name, "?"))
            what = f"{bar.tasks:,} tasks, mostly {name}" if bar.tasks > 1 else name
            took = seconds(bar.end_s - bar.start_s) + (" · failed" if bar.failed else "")
            data.append(
                [
                    lane,
                    bar.start_s * 1000,
                    bar.end_s * 1000,
                    color_of(stream, bar.name),
                    int(bar.failed),
                    bar.tasks,
                    bar.id,
                    _safe(what),
                    took,
                ]
            )
    by_pid = {label.rpartition(" ")[2]: lane for lane, label in enumerate(labels)}
    for pid, called, start_s in running:
        lane_of = by_pid.get(str(pid))
        if lane_of is None and len(labels) < _LANES_MAX:
            lane_of = by_pid[str(pid)] = len(labels)
            labels.append(f"worker {pid}")
        if lane_of is not None:
            total += 1
            since = f"has run for {seconds(max(0.0, now_s - start_s))}"
            data.append(
                [lane_of, start_s * 1000, now_s * 1000, "#8a94a3", 0, 1, 0, _safe(printable(called)), since]
            )
    return labels, data, total


def _safe(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def legend(stream: TaskStream) -> str:
    """The functions that are seen, with their colours."""
    import html

    seen: dict[str, str] = {}
    for number, name in stream.names.items():
        seen.setdefault(name, color_of(stream, number))
    shown = list(seen.items())[:20]
    return "".join(
        f"<span><i style='display:inline-block;width:10px;height:10px;background:{color};margin-right:4px'></i>"
        f"<a href='/tasks?text={html.escape(name)}'>{html.escape(printable(name))}</a></span>"
        for name, color in shown
    )
