"""The addresses of the page: which function draws which.

Owns the table of addresses and what an address may say. Each view is in a module of its own kind. Runs in the head
process' event loop, when a browser asks.
"""

from __future__ import annotations

from nicegui import ui

from sundog.dashboard.page import charts, jobs, lists, overview, reading, reasons, serving, timeline
from sundog.dashboard.page.frame import framed
from sundog.dashboard.page.tables import wanted_of
from sundog.dashboard.source import PageSource


def register(source: PageSource) -> None:
    """Make the addresses known. Once in a process."""
    _register_lists(source)
    _register_reading(source)

    @ui.page("/", title="sundog")
    async def root() -> None:
        with framed(source, "Overview") as frame:
            overview.draw(frame)
        await frame.fill()

    @ui.page("/timeline", title="Timeline · sundog")
    async def line(start: str = "", end: str = "") -> None:
        with framed(source, "Timeline") as frame:
            timeline.draw(frame, start, end)
        await frame.fill()

    @ui.page("/serve", title="Serve · sundog")
    async def serve(text: str = "", sort: str = "", descending: str = "", page: str = "") -> None:
        with framed(source, "Serve") as frame:
            serving.draw(frame, wanted_of(text, "", sort, descending, page))
        await frame.fill()

    @ui.page("/charts", title="Metrics · sundog")
    async def history(minutes: str = "") -> None:
        with framed(source, "Metrics") as frame:
            charts.draw(frame, minutes)
        await frame.fill()

    @ui.page("/why", title="Why · sundog")
    async def why(id: str = "") -> None:
        with framed(source, "Why") as frame:
            reasons.draw(frame, id)
        await frame.fill()

    @ui.page("/task/{number}", title="Why · sundog")
    async def task(number: int) -> None:
        with framed(source, "Why") as frame:
            reasons.draw_row(frame, number)
        await frame.fill()


def _register_lists(source: PageSource) -> None:
    @ui.page("/tasks", title="Tasks · sundog")
    async def tasks(
        text: str = "", state: str = "", sort: str = "", descending: str = "", page: str = ""
    ) -> None:
        with framed(source, "Tasks") as frame:
            lists.tasks(frame, wanted_of(text, state, sort, descending, page))
        await frame.fill()

    for kind in lists.KINDS:
        _register_list(source, kind)

    @ui.page("/jobs", title="Jobs · sundog")
    async def all_jobs(text: str = "", sort: str = "", descending: str = "", page: str = "") -> None:
        with framed(source, "Jobs") as frame:
            jobs.draw(frame, wanted_of(text, "", sort, descending, page))
        await frame.fill()

    @ui.page("/objects", title="Objects · sundog")
    async def objects(text: str = "", sort: str = "size", descending: str = "", page: str = "") -> None:
        with framed(source, "Objects") as frame:
            lists.objects(frame, wanted_of(text, "", sort, descending, page))
        await frame.fill()

    @ui.page("/workers", title="Workers · sundog")
    async def workers(text: str = "", sort: str = "", descending: str = "", page: str = "") -> None:
        with framed(source, "Workers") as frame:
            lists.workers(frame, wanted_of(text, "", sort, descending, page))
        await frame.fill()

    @ui.page("/events", title="Events · sundog")
    async def events(text: str = "", sort: str = "", descending: str = "", page: str = "") -> None:
        with framed(source, "Events") as frame:
            lists.events(frame, wanted_of(text, "", sort, descending, page))
        await frame.fill()


def _register_list(source: PageSource, kind: str) -> None:
    @ui.page(f"/{kind}", title=f"{kind.capitalize()} · sundog")
    async def rows(text: str = "", sort: str = "", descending: str = "", page: str = "") -> None:
        with framed(source, kind.capitalize()) as frame:
            lists.listing(frame, kind, wanted_of(text, "", sort, descending, page))
        await frame.fill()


def _register_reading(source: PageSource) -> None:
    @ui.page("/logs", title="Logs · sundog")
    async def logs(file: str = "", text: str = "", id: str = "") -> None:
        with framed(source, "Logs") as frame:
            reading.logs(frame, file, text, id)
        await frame.fill()

    @ui.page("/stacks", title="Stacks · sundog")
    async def stacks(text: str = "") -> None:
        with framed(source, "Stacks") as frame:
            reading.stacks(frame, text)
        await frame.fill()

    @ui.page("/profiles", title="Flame graphs · sundog")
    async def profiles(id: str = "", pid: str = "") -> None:
        with framed(source, "Flame graphs") as frame:
            reading.profiles(frame, id, pid)
        await frame.fill()

    @ui.page("/doctor", title="Doctor · sundog")
    async def doctor() -> None:
        with framed(source, "Doctor") as frame:
            reasons.doctor(frame)
        await frame.fill()

    @ui.page("/debugger", title="Debugger · sundog")
    async def debugger() -> None:
        with framed(source, "Debugger") as frame:
            reasons.debugger(frame)
        await frame.fill()
