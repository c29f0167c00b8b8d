"""Serve on the page: applications, deployments with their numbers and updates, replicas, what was deployed when.

Owns the order of what is shown, and the words. Runs in the head process' event loop.
"""

from __future__ import annotations

import html
import time
from typing import TYPE_CHECKING

from nicegui import ui

from sundog.dashboard.page import charts
from sundog.dashboard.page.frame import PageFrame, ask, live
from sundog.dashboard.page.tables import Column, DataTable, clock
from sundog.dashboard.serving import ERRORS, LATENCY, REQUESTS, ServePicture, short_version
from sundog.dashboard.source import TablePage, Wanted, page_of
from sundog.observe.metric_history import History
from sundog.printable import printable

if TYPE_CHECKING:
    from sundog.dashboard.serving import ShownDeployment

NEVER = "Serve does not run in this session. A program starts it with serve.run(app)."
_SPAN_S = 900.0
_REVISIONS_MAX = 20
_DEPLOYMENTS = (
    *("deployment", "state", "replicas", "version", "rate", "requests", "errors"),
    *("median", "95 %", "now", "waiting", "update"),
)


def ms(value: object) -> str:
    """Milliseconds for people.

    >>> ms(0.25), ms(12.34), ms(1500.0), ms(None)
    ('0.25 ms', '12 ms', '1.5 s', '')
    """
    if not isinstance(value, int | float):
        return ""
    if value >= 1000:
        return f"{value / 1000:.1f} s"
    return f"{value:.0f} ms" if value >= 10 else f"{value:.2g} ms"


def rate(value: float | None) -> str:
    """A rate, in words."""
    return "" if value is None else f"{value:,.0f}/s" if value >= 10 else f"{value:.1f}/s"


REPLICAS = (
    Column("replica", "replica", link="/why?id=", link_key="actor_id"),
    Column("deployment", "deployment"),
    Column("state", "state", state=True),
    Column("version", "version"),
    Column("ongoing", "now", right=True),
    Column("requests", "requests", lambda value: f"{value:,}", right=True),
    Column("errors", "errors", lambda value: f"{value:,}", right=True),
    Column("mean_ms", "mean", ms, right=True),
    Column("p95_ms", "95 %", ms, right=True),
    Column("pid", "pid", right=True, link="/stacks?text="),
    Column("since", "since", clock),
    Column("log", "log", lambda value: "log" if value else "", link="/logs?file=serve/", sortable=False),
)


def draw(frame: PageFrame, wanted: Wanted) -> None:
    """Build it."""
    source = frame.source
    cards = ui.html("<div class='sd-empty'>loading …</div>", sanitize=False).classes("sd-cards")
    cards.props("data-serve-cards")
    tables = ui.html("", sanitize=False).style("width:100%").props("data-deployments")
    with ui.element("div").classes("sd-row").style("flex-wrap:nowrap") as lines:
        style = "height:200px;width:33%"
        requests = charts.line_chart("Requests", "each second").style(style)
        latency = charts.line_chart("Time of a request, mean", "ms").style(style)
        errors = charts.line_chart("Errors", "each second").style(style)
    with ui.element("div").style("width:100%") as below:
        with ui.element("h2"):
            ui.label("Replicas")

        def fetch(what: Wanted) -> TablePage:
            picture = source.serving()
            return page_of(picture.replicas if picture is not None else [], what)

        DataTable(frame, "/serve", REPLICAS, fetch, wanted, empty="No replica.")
        history = ui.html("", sanitize=False).style("width:100%").props("data-revisions")

    async def update() -> None:
        picture = await ask(source.serving)
        lines.set_visibility(picture is not None)
        below.set_visibility(picture is not None)
        cards.set_content(cards_html(picture, source.is_live))
        if picture is None:
            return
        tables.set_content(applications_html(picture) + deployments_html(picture))
        history.set_content(revisions_html(picture))
        facts = await ask(source.read_facts)
        until = time.time() if source.is_live else picture.at_s
        for chart, metric in ((requests, REQUESTS), (latency, LATENCY), (errors, ERRORS)):
            charts.fill_lines(chart, points(facts.metrics, metric, until))

    live(frame, update)


def points(history: History, metric: str, until_s: float) -> list[tuple[str, list[list[float]]]]:
    """Lines of a chart: one for each deployment."""
    found = history.grouped(metric, "deployment", until_s - _SPAN_S, until_s)
    return [(line.label, line.points) for line in found]


# ---------------------------------------------------------------------- as HTML
def cards_html(picture: ServePicture | None, is_live: bool) -> str:
    """The figures on top."""
    if picture is None:
        return f"<div class='sd-empty'>{NEVER}</div>"
    cards = []
    if picture.is_over or not is_live:
        word = "Serve was shut down" if picture.is_over else "The session has ended"
        cards.append((f"{word}; what is shown is what ran last", clock(picture.at_s)))
    running = sum(row["running"] for row in picture.deployments)
    wanted = sum(row["wanted"] for row in picture.deployments)
    cards += [
        ("applications", str(len(picture.applications))),
        ("replicas", f"{running} of {wanted}"),
        ("requests", f"{picture.total('requests'):,.0f}"),
        ("errors", f"{picture.total('errors'):,.0f}"),
    ]
    if is_live and not picture.is_over:
        cards += [
            ("requests each second", rate(picture.total("rate"))),
            ("being answered", f"{picture.total('ongoing'):,.0f}"),
            ("waiting", f"{picture.total('waiting'):,.0f}"),
        ]
    shown = "".join(
        f"<div class='sd-card'><div class='n'>{html.escape(number)}</div>"
        f"<div class='l'>{html.escape(printable(label))}</div></div>"
        for label, number in cards
    )
    where = f"<div class='sd-dim' style='width:100%'>HTTP at {_text(picture.address)}</div>"
    return shown + (where if is_live and not picture.is_over else "")


def table_html(heads: tuple[str, ...], rows: list[list[str]], left: tuple[int, ...]) -> str:
    """A table of cells that are HTML already."""

    def side(index: int) -> str:
        return "left" if index in left else "right"

    top = "".join(f"<th class='text-{side(index)}'>{head}</th>" for index, head in enumerate(heads))
    body = "".join(
        "<tr>"
        + "".join(
            f"<td class='text-{side(index)}{' sd-wraps' if index == len(row) - 1 else ''}'>{cell}</td>"
            for index, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table class='q-table sd-table'><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: object) -> str:
    return html.escape(printable("" if value is None else str(value)))


def _badge(state: object) -> str:
    return f"<span class='b {_text(str(state or '').partition('_')[0])}'>{_text(state)}</span>"


def _first_line(text: object) -> str:
    lines = str(text or "").strip().splitlines()
    cut = f"{lines[0]} … {lines[-1]}" if len(lines) > 1 else "".join(lines)
    return f"<span title='{_text(text)}'>{_text(cut)}</span>"


def applications_html(picture: ServePicture) -> str:
    """A row for each application."""
    if not picture.applications:
        return "<div class='sd-empty'>No application is deployed.</div>"
    rows = [
        [
            _text(row["application"]),
            _badge(row["status"]),
            _text(row["route"]),
            str(row["deployments"]),
            clock(row["deployed"]),
            _first_line(row["message"]),
        ]
        for row in picture.applications
    ]
    heads = ("application", "state", "route", "deployments", "deployed", "told")
    return "<h2>Applications</h2>" + table_html(heads, rows, (0, 1, 2, 4, 5))


def deployments_html(picture: ServePicture) -> str:
    """A row for each deployment, with its numbers and how far its update is."""
    if not picture.deployments:
        return ""
    rows = []
    for row in picture.deployments:
        word = f"{row['running']} of {row['wanted']}" + (" (auto)" if row["autoscales"] else "")
        bad = f"<span class='sd-bad'>{row['errors']:,}</span>" if row["errors"] else "0"
        now = "" if row["ongoing"] is None else f"{row['ongoing']:,} of {row['most']:,}"
        rows.append(
            [
                f"{_text(row['application'])} / <a href='/serve?text={_text(row['deployment'])}'>"
                f"{_text(row['deployment'])}</a>",
                _badge(row["status"]),
                word,
                _text(short_version(row["version"])),
                rate(row["rate"]),
                f"{row['requests']:,}",
                bad,
                ms(row["p50_ms"]),
                ms(row["p95_ms"]),
                now,
                "" if row["waiting"] is None else f"{row['waiting']:,}",
                _rollout(row) or _first_line(row["message"]),
            ]
        )
    return "<h2>Deployments</h2>" + table_html(_DEPLOYMENTS, rows, (0, 1, 2, 3, 11))


def _rollout(row: ShownDeployment) -> str:
    if not row["rollout"]:
        return ""
    width = 100 * min(1.0, row["share_new"])
    return f"{_text(row['rollout'])}<div class='sd-meter'><i style='width:{width:.0f}%'></i></div>"


def revisions_html(picture: ServePicture) -> str:
    """What was deployed when, the newest first."""
    if not picture.revisions:
        return ""
    newest = sorted(picture.revisions, key=lambda row: -(row["at"] or 0))[:_REVISIONS_MAX]
    rows = [
        [
            _text(row["application"]),
            f"{_text(row['number'])}{' (runs)' if row['is_current'] else ''}",
            clock(row["at"]),
            _text(row["what"]),
            _text(row["outcome"]),
            _text(row["versions"]),
        ]
        for row in newest
    ]
    heads = ("application", "revision", "when", "what", "outcome", "versions")
    return "<h2>Revisions</h2>" + table_html(heads, rows, (0, 1, 2, 3, 4, 5))
