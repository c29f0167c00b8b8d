"""The addresses of the page: which function draws which.

Owns the table of addresses and what an address may say. Each view is in a module of its own kind. Runs in the head
process' event loop, when a browser asks.
"""

from __future__ import annotations

from nicegui import ui

from sundog.dashboard.page import charts, jobs, lists, overview, reading, reasons, serving, timeline
from sundog.dashboard.page.frame import framed
from sundog.dashboard.page.tables import wanted_of
from sundog.dashboard.source import Source


def register(source: Source) -> None:
    """Make the addresses known. Once in a process."""
    _register_lists(source)
    _register_reading(source)

    @ui.page("/", title="sundog")
    def root() -> None:
        with framed(source, "Overview") as frame:
            overview.draw(frame)

    @ui.page("/timeline", title="Timeline · sundog")
    def line(start: str = "", end: str = "") -> None:
        with framed(source, "Timeline") as frame:
            timeline.draw(frame, start, end)

    @ui.page("/serve", title="Serve · sundog")
    def serve(text: str = "", sort: str = "", descending: str = "", page: str = "") -> None:
        with framed(source, "Serve") as frame:
            serving.draw(frame, wanted_of(text, "", sort, descending, page))

    @ui.page("/charts", title="Metrics · sundog")
    def history(minutes: str = "") -> None:
        with framed(source, "Metrics") as frame:
            charts.draw(frame, minutes)

    @ui.page("/why", title="Why · sundog")
    def why(id: str = "") -> None:
        with framed(source, "Why") as frame:
            reasons.draw(frame, id)

    @ui.page("/task/{number}", title="Why · sundog")
    def task(number: int) -> None:
        with framed(source, "Why") as frame:
            reasons.draw_row(frame, number)


def _register_lists(source: Source) -> None:
    @ui.page("/tasks", title="Tasks · sundog")
    def tasks(text: str = "", state: str = "", sort: str = "", descending: str = "", page: str = "") -> None:
        with framed(source, "Tasks") as frame:
            lists.tasks(frame, wanted_of(text, state, sort, descending, page))

    for kind in lists.KINDS:
        _register_list(source, kind)

    @ui.page("/jobs", title="Jobs · sundog")
    def all_jobs(text: str = "", sort: str = "", descending: str = "", page: str = "") -> None:
        with framed(source, "Jobs") as frame:
            jobs.draw(frame, wanted_of(text, "", sort, descending, page))

    @ui.page("/objects", title="Objects · sundog")
    def objects(text: str = "", sort: str = "size", descending: str = "", page: str = "") -> None:
        with framed(source, "Objects") as frame:
            lists.objects(frame, wanted_of(text, "", sort, descending, page))

    @ui.page("/workers", title="Workers · sundog")
    def workers(text: str = "", sort: str = "", descending: str = "", page: str = "") -> None:
        with framed(source, "Workers") as frame:
            lists.workers(frame, wanted_of(text, "", sort, descending, page))

    @ui.page("/events", title="Events · sundog")
    def events(text: str = "", sort: str = "", descending: str = "", page: str = "") -> None:
        with framed(source, "Events") as frame:
            lists.events(frame, wanted_of(text, "", sort, descending, page))


def _register_list(source: Source, kind: str) -> None:
    @ui.page(f"/{kind}", title=f"{kind.capitalize()} · sundog")
    def rows(text: str = "", sort: str = "", descending: str = "", page: str = "") -> None:
        with framed(source, kind.capitalize()) as frame:
            lists.listing(frame, kind, wanted_of(text, "", sort, descending, page))


def _register_reading(source: Source) -> None:
    @ui.page("/logs", title="Logs · sundog")
    def logs(file: str = "", text: str = "", id: str = "") -> None:
        with framed(source, "Logs") as frame:
            reading.logs(frame, file, text, id)

    @ui.page("/stacks", title="Stacks · sundog")
    def stacks(text: str = "") -> None:
        with framed(source, "Stacks") as frame:
            reading.stacks(frame, text)

    @ui.page("/profiles", title="Flame graphs · sundog")
    def profiles(id: str = "", pid: str = "") -> None:
        with framed(source, "Flame graphs") as frame:
            reading.profiles(frame, id, pid)

    @ui.page("/doctor", title="Doctor · sundog")
    def doctor() -> None:
        with framed(source, "Doctor") as frame:
            reasons.doctor(frame)

    @ui.page("/debugger", title="Debugger · sundog")
    def debugger() -> None:
        with framed(source, "Debugger") as frame:
            reasons.debugger(frame)
