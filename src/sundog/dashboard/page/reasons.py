"""Reasons: the story of one task, actor, object or process; the doctor's findings; tasks that stand in a debugger.

Owns how a story looks and where it leads. Runs in the head process' event loop.
"""

from __future__ import annotations

import html
import importlib
import time
from typing import TYPE_CHECKING, cast

from nicegui import ui

from sundog.dashboard.page.frame import PageFrame, address, ask, live
from sundog.dashboard.page.tables import clock, seconds, size
from sundog.observe import index as records
from sundog.observe.why import Story
from sundog.printable import printable

if TYPE_CHECKING:
    from typing import TypedDict

    from sundog.wire.pauses import Pause

    class AttemptRow(TypedDict):
        """What the index of the records has of an attempt, as far as it is shown here."""

        attempt: int
        state: str
        name: str
        pid: int
        start_s: float
        end_s: float
        queued_s: float | None
        duration_s: float
        cpu_s: float
        peak_bytes: int


_AROUND = 0.5  # of a task's time, shown on both sides of it in the timeline


def draw(frame: PageFrame, id_: str) -> None:
    """The story of an id, a pid or a name."""

    def go() -> None:
        ui.navigate.to(address("/why", id=str(asked.value or "")))

    asked = ui.input(placeholder="an id, a pid, or the name of a function or an actor (/)", value=id_)
    asked.props("dense outlined aria-label='Whose reason'").classes("sd-filter").style("width:480px")
    asked.on("keydown.enter", go)
    story = ui.html("<div class='sd-empty'>loading …</div>", sanitize=False).props("data-story")
    links = ui.html("", sanitize=False).classes("sd-row")
    rows = ui.html("", sanitize=False).style("width:100%")

    async def update() -> None:
        if not id_:
            others = await ask(frame.source.troubles)
            text = "Type an id, or choose:" if others else "No trouble is found. Type an id, a pid or a name."
            found = "".join(
                f"<p><a href='/why?id={html.escape(each.id)}'>{html.escape(printable(each.text))}</a></p>"
                for each in others
            )
            story.set_content(f"<div>{text}</div><div class='sd-story'>{found}</div>")
            return
        story.set_content(story_html(await ask(frame.source.why, id_)))
        attempts = await ask(attempts_of, frame.source.path, id_)
        rows.set_content(attempts_html(attempts))
        links.set_content(links_html(id_, attempts))

    live(frame, update, 2.0)


def draw_row(frame: PageFrame, number: int) -> None:
    """The story of a bar in the timeline, by the number of its row in the index."""
    label = ui.label("loading …").classes("sd-empty")

    async def find() -> None:
        task = await ask(_task_of, frame.source.path, number)
        if task:
            ui.navigate.to(address("/why", id=task))
        else:
            label.set_text("This task is no longer in the records.")

    ui.timer(0.01, find, once=True)


def _task_of(session_path: str, number: int) -> str:
    with records.opened(session_path) as index:
        return str(index.one("SELECT lower(hex(task_id)) FROM attempts WHERE id = ?", number) or "")


def attempts_of(session_path: str, id_: str) -> list[AttemptRow]:
    """The attempts of a task that ended; none if it is no task."""
    if len(id_) < 6 or set(id_.lower()) - set("0123456789abcdef"):
        return []
    with records.opened(session_path) as index:
        found = index.dicts(
            "SELECT * FROM tasks WHERE task_id >= ? AND task_id < ? LIMIT 20", id_.lower(), id_.lower() + "g"
        )
    return cast("list[AttemptRow]", found)


def story_html(story: Story | str) -> str:
    """What happened, because of what, and what to do."""
    if isinstance(story, str):
        return f"<div class='sd-empty'>{html.escape(printable(story))}</div>"
    because = "".join(f"<p>because {_text(step)}</p>" for step in story.because)
    steps = "".join(f"<p class='sd-dim'>next: <code>{_text(step)}</code></p>" for step in story.next)
    return (
        f"<h2>{_text(story.subject)} {_text(story.verdict)}</h2><div class='sd-story'>{because}{steps}</div>"
    )


def _text(text: str) -> str:
    return html.escape(printable(text)).replace("\n", "<br>")


def links_html(id_: str, attempts: list[AttemptRow]) -> str:
    """Where one can go from here."""
    found = [(address("/logs", id=id_), "logs")]
    if attempts:
        last = attempts[-1]
        around = max(0.001, _AROUND * (last["end_s"] - last["start_s"]))
        window = address(
            "/timeline", start=f"{last['start_s'] - around:.6f}", end=f"{last['end_s'] + around:.6f}"
        )
        found += [
            (window, "timeline"),
            (address("/workers", text=last["pid"]), "process"),
            (address("/stacks", text=last["pid"]), "stack"),
            (address("/tasks", text=last["name"]), "all calls of this function"),
        ]
    else:
        found += [("/stacks", "stacks"), ("/timeline", "timeline")]
    return " · ".join(f"<a href='{html.escape(where)}'>{what}</a>" for where, what in found)


def attempts_html(attempts: list[AttemptRow]) -> str:
    """The attempts of a task in a table."""
    if not attempts:
        return ""
    heads = ("attempt", "state", "began", "waited", "ran", "CPU", "peak memory", "pid")
    rows = []
    for each in attempts:
        cells = (
            each["attempt"],
            each["state"],
            clock(each["start_s"]),
            seconds(max(0.0, each["queued_s"] or 0.0)),
            seconds(each["duration_s"]),
            seconds(each["cpu_s"]),
            size(each["peak_bytes"]),
            each["pid"],
        )
        rows.append(
            "<tr>"
            + "".join(f"<td class='text-left'>{html.escape(str(cell))}</td>" for cell in cells)
            + "</tr>"
        )
    head = "".join(f"<th class='text-left'>{name}</th>" for name in heads)
    return f"<table class='q-table sd-table'><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


# ---------------------------------------------------------------------- the doctor
def doctor(frame: PageFrame) -> None:
    """What kept the run from being faster."""
    with ui.element("div").classes("sd-row"):
        again = ui.button("examine", on_click=lambda: examine()).props("dense no-caps unelevated")
        told = ui.label("reads the whole run; a long one takes some seconds").classes("sd-dim")
    report = ui.html("", sanitize=False).style("width:100%").props("data-report")

    async def examine() -> None:
        again.disable()
        told.set_text("examining …")
        begun = time.monotonic()
        try:
            report.set_content(await ask(report_html, frame))
            told.set_text(f"examined in {seconds(time.monotonic() - begun)}")
        finally:
            again.enable()

    ui.timer(0.05, examine, once=True)


def report_html(frame: PageFrame) -> str:
    """The doctor's report of the session as it is now."""
    try:
        examine = importlib.import_module("sundog.advice.doctor").examine_session
    except ImportError:
        return "<div class='sd-empty'>This version of sundog has no doctor.</div>"
    try:
        report = examine(frame.source.opened)
    except Exception as error:  # of a run that has not begun
        return f"<div class='sd-empty'>There is nothing to examine yet: {html.escape(str(error))}</div>"
    as_html = getattr(report, "_repr_html_", None)
    return str(as_html()) if as_html is not None else f"<pre class='sd-pre'>{html.escape(str(report))}</pre>"


# ---------------------------------------------------------------------- the debugger
def debugger(frame: PageFrame) -> None:
    """Tasks that wait at a breakpoint."""
    ui.label("Attach from a terminal: a page has no prompt.").classes("sd-dim")
    rows = ui.html("", sanitize=False).style("width:100%").props("data-paused")

    async def update() -> None:
        rows.set_content(pauses_html(await ask(frame.source.paused)))

    live(frame, update)


def pauses_html(pauses: list[Pause]) -> str:
    """Each with the command that attaches to it."""
    if not pauses:
        return "<div class='sd-empty'>No task is paused. breakpoint() in a task pauses the task.</div>"
    found = []
    for each in pauses:
        how = f"VS Code at 127.0.0.1:{each.port}" if each.port else f"sundog debug {each.number}"
        since = seconds(max(0.0, time.time() - each.since_s))
        found.append(
            f"<p><a href='/why?id={each.task_id}'>{_text(each.name)}</a> at {_text(each.place)} "
            f"in {_text(each.function)}: {_text(each.why)}, since {since}, pid {each.pid}"
            f"{' · a user is at its prompt' if each.attached else ''}<br><code>{_text(how)}</code></p>"
        )
    return f"<div class='sd-story'>{''.join(found)}</div>"
