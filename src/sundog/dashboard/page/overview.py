"""The first view: what runs, how far each function is, the machine, and the newest trouble with its reason.

Owns the cards and the order of what is shown. Runs in the head process' event loop.
"""

from __future__ import annotations

import html

from nicegui import ui

from sundog.dashboard.page import charts
from sundog.dashboard.page.frame import PageFrame, ask, live
from sundog.dashboard.page.tables import seconds, size
from sundog.observe.activity import Activity, Function
from sundog.observe.troubles import Trouble
from sundog.observe.words import in_units, in_words
from sundog.printable import printable

_FUNCTIONS_MAX = 30


def draw(frame: PageFrame) -> None:
    """Build it."""
    source = frame.source
    cards = (
        ui.html("<div class='sd-empty'>loading …</div>", sanitize=False)
        .classes("sd-cards")
        .props("data-cards")
    )
    with ui.element("h2"):
        ui.label("Trouble")
    trouble = ui.html("<div class='sd-dim'>looking …</div>", sanitize=False).props("data-troubles")
    with ui.element("h2"):
        ui.label("Functions")
    functions = ui.html("", sanitize=False).style("width:100%").props("data-functions")
    with ui.element("h2"):
        ui.label("The last minutes")
    lines = ui.element("div").classes("sd-row").style("flex-wrap:nowrap;height:180px")
    drawn: list[ui.echart] = []

    async def update() -> None:
        activity = await ask(source.activity)
        cards.set_content(cards_html(activity, source.is_live))
        functions.set_content(functions_html(activity.functions))
        frame.status.set_text(status_text(activity, source.is_live))
        if not lines.client.has_socket_connection:
            return  # the page is sent now; charts and troubles take longer, and follow
        facts, stream = await ask(source.read_facts), await ask(source.read_stream)
        if not drawn:
            with lines:
                drawn.extend(
                    chart.style("height:180px;width:50%")
                    for chart in (charts.share_chart(), charts.rate_chart())
                )
        charts.fill_shares(drawn[0], facts, 300)
        charts.fill_rates(drawn[1], stream, 300, source.is_live)
        trouble.set_content(troubles_html(await ask(source.troubles)))

    live(frame, update)


def status_text(activity: Activity, is_live: bool) -> str:
    """The line in the bar on top."""
    if not is_live:
        return "ended"
    running = sum(each.running for each in activity.functions)
    waiting = sum(each.waiting for each in activity.functions)
    return f"live · {running:,} running · {waiting:,} waiting"


def cards_html(activity: Activity, is_live: bool) -> str:
    """The figures on top."""
    running, waiting, failed, done = (
        sum(getattr(each, name) for each in activity.functions)
        for name in ("running", "waiting", "failed", "done")
    )
    found = [
        _card("running", f"{running:,}") if is_live else "",
        _card("waiting", f"{waiting:,}") if is_live else "",
        _card("finished", f"{done:,}"),
        _card("failed", f"{failed:,}", "sd-bad" if failed else ""),
    ]
    if is_live and activity.status:
        memory, store = activity.memory, activity.store
        used, total = memory.get("used_bytes", 0), memory.get("total_bytes", 0)
        stored, limit = store.get("used_bytes", 0), store.get("limit_bytes", 0)
        spilled = store.get("spilled_bytes", 0)
        found += [
            _meter("CPU", f"{activity.machine_share:.0%} of {activity.cores}", activity.machine_share),
            _meter("memory", f"{in_units(used)} of {in_units(total)}", used / total if total else 0.0),
            _meter("objects", f"{in_units(stored)} of {in_units(limit)}", stored / limit if limit else 0.0),
            _card("spilled", in_units(spilled)) if spilled else "",
            _card("workers", str(sum(activity.status.get("workers", {}).values()))),
            _card("up", in_words(float(activity.status.get("uptime_s", 0.0)))),
        ]
        for each in activity.status.get("pending", ())[:1]:
            found.append(
                _card(
                    f"wait {in_words(float(each['waited_s']))}: {each['why']}",
                    f"{each['count']:,}",
                    "sd-warn",
                )
            )
    return "".join(found)


def _card(label: str, number: str, mark: str = "") -> str:
    return (
        f"<div class='sd-card'><div class='n {mark}'>{html.escape(number)}</div>"
        f"<div class='l'>{html.escape(printable(label))}</div></div>"
    )


def _meter(label: str, number: str, share: float) -> str:
    width = 100 * min(1.0, max(0.0, share))
    return (
        f"<div class='sd-card'><div class='n' style='font-size:16px'>{html.escape(number)}</div>"
        f"<div class='l'>{label}</div><div class='sd-meter'><i style='width:{width:.0f}%'></i></div></div>"
    )


def functions_html(functions: list[Function]) -> str:
    """A row for each function, with a bar of its progress."""
    if not functions:
        return "<div class='sd-empty'>No task has run yet. Call a function with .remote(), and it is shown here.</div>"
    order = sorted(functions, key=lambda each: (-(each.running + each.waiting), -each.total_s))
    heads = (
        "function",
        "progress",
        "done",
        "running",
        "waiting",
        "failed",
        "rate",
        "left",
        "mean",
        "CPU time",
        "peak memory",
    )
    rows = [
        "<table class='q-table sd-table'><thead><tr>"
        + "".join(
            f"<th class='text-{'left' if index < 2 else 'right'}'>{head}</th>"
            for index, head in enumerate(heads)
        )
        + "</tr></thead><tbody>"
    ]
    for each in order[:_FUNCTIONS_MAX]:
        rows.append(_function(each))
    rows.append("</tbody></table>")
    if len(order) > _FUNCTIONS_MAX:
        rows.append(f"<div class='sd-dim'>and {len(order) - _FUNCTIONS_MAX} more</div>")
    return "".join(rows)


def _function(each: Function) -> str:
    name = html.escape(printable(each.name))
    share = each.ended / each.total if each.total else 0.0
    bad = (
        f"<a class='sd-bad' href='/tasks?text={name}&state=failed'>{each.failed:,}</a>"
        if each.failed
        else "0"
    )
    cells: tuple[object, ...] = (
        f"{each.done:,}",
        f"{each.running:,}",
        f"{each.waiting:,}",
        bad,
        f"{each.rate:,.1f}/s" if each.rate >= 0.05 else "",
        in_words(each.left_s) if each.left_s is not None else "",
        seconds(each.mean_s) if each.ended else "",
        seconds(each.cpu_s) if each.ended else "",
        size(each.peak_bytes),
    )
    return (
        f"<tr><td class='text-left'><a href='/tasks?text={name}'>{name}</a></td>"
        f"<td><div class='sd-meter' style='margin:0'><i style='width:{100 * share:.1f}%'></i></div></td>"
        + "".join(f"<td class='text-right'>{cell}</td>" for cell in cells)
        + "</tr>"
    )


def troubles_html(troubles: list[Trouble]) -> str:
    """Each trouble in a line that leads to its reason."""
    if not troubles:
        return "<div class='sd-dim'>None that the records show.</div>"
    return "".join(
        f"<div><a href='/why?id={html.escape(each.id)}'>{html.escape(printable(each.text))}</a></div>"
        for each in troubles
    )
