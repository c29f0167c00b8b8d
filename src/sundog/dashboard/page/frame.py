"""What every view has: the bar on top, the list of views, keys, colours, and the line that tells how the session is.

Owns the addresses of views, their keys, the style sheet, and how a view is kept up to date. Runs in the head process'
event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlencode

from nicegui import background_tasks, ui

from sundog.dashboard.source import PageSource
from sundog.plain import NamedTuple, field, plain

if TYPE_CHECKING:
    from nicegui.events import KeyEventArguments

T = TypeVar("T")

ICON = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'><circle cx='16' cy='16' r='7' fill='#f5a623'/>"
    "<path d='M3 16a13 13 0 0 1 26 0' fill='none' stroke='#f5a623' stroke-width='2'/>"
    "<circle cx='3.5' cy='16' r='2.5' fill='#f7c873'/><circle cx='28.5' cy='16' r='2.5' fill='#f7c873'/></svg>"
)
_FIRST_S = 0.5
EVERY_S = 0.7  # with the time for reading, an event is shown within a second


class PageView(NamedTuple):
    """One address of the page."""

    path: str
    title: str
    key: str


VIEWS = (
    PageView("/", "Overview", "o"),
    PageView("/tasks", "Tasks", "t"),
    PageView("/actors", "Actors", "a"),
    PageView("/objects", "Objects", "m"),
    PageView("/workers", "Workers", "w"),
    PageView("/nodes", "Nodes", "n"),
    PageView("/jobs", "Jobs", "j"),
    PageView("/serve", "Serve", "v"),
    PageView("/timeline", "Timeline", "l"),
    PageView("/charts", "Metrics", "c"),
    PageView("/events", "Events", "e"),
    PageView("/logs", "Logs", "g"),
    PageView("/stacks", "Stacks", "s"),
    PageView("/profiles", "Flame graphs", "f"),
    PageView("/doctor", "Doctor", "r"),
    PageView("/debugger", "Debugger", "b"),
)

CSS = resources.files("sundog.dashboard.page").joinpath("style.css").read_text()
# Of this page's own: remembers the choice of colours in the browser.
_DARK = """
const kept = localStorage.getItem('sundog-dark');
if (kept !== null) Quasar.Dark.set(kept === '1');
window.sundogDark = () => {
  Quasar.Dark.toggle();
  localStorage.setItem('sundog-dark', Quasar.Dark.isActive ? '1' : '0');
};
"""
_HELP = (
    "Keys: "
    + ", ".join(f"{view.key} {view.title}" for view in VIEWS)
    + ", / search, d dark or light, ? this list"
)


@plain()
class PageFrame:
    """What a view needs to say."""

    source: PageSource
    status: ui.label
    problem: ui.label
    first: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    then: list[Callable[[], None]] = field(default_factory=list)

    async def fill(self) -> None:
        """Read what the view shows before its page is sent, so that it comes with its data.

        A session that takes longer to be read is sent empty, and its data follow.
        """
        client = ui.context.client

        async def read(update: Callable[[], Awaitable[None]]) -> None:
            with client:
                await update()

        if self.first:
            await asyncio.wait([background_tasks.create(read(each)) for each in self.first], timeout=_FIRST_S)
        for begin in self.then:
            begin()


def address(path: str, **query: object) -> str:
    """The address of a view with its choices; what is empty is left out.

    >>> address("/tasks", text="f g", page=1, sort="")
    '/tasks?text=f+g&page=1'
    """
    kept = {key: value for key, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(kept)}" if kept else path


@contextmanager
def framed(source: PageSource, title: str) -> Iterator[PageFrame]:
    """The surroundings of a view; what is built inside is its body."""
    ui.add_css(CSS)
    ui.page_title(f"{title} · sundog")
    ui.add_body_html(f"<script>window.addEventListener('load',()=>{{{_DARK}}})</script>")
    with ui.element("div").classes("sd-top"):
        ui.html("<b><a href='/'>sundog</a></b>", sanitize=False)
        ui.label(source.name).classes("sd-dim")
        ui.element("div").classes("sd-grow")
        status = ui.label("live" if source.is_live else "ended").classes("sd-dim").props("data-status")
        ui.button("Dark / light", on_click=lambda: ui.run_javascript("sundogDark()")).props(
            "flat dense no-caps size=sm aria-label='Dark or light (d)'"
        )
        ui.button("?", on_click=lambda: ui.notify(_HELP, multi_line=True, timeout=15000)).props(
            "flat dense size=sm"
        )
    if not source.is_live:
        ui.label("This session has ended. What is shown comes from its records.").classes("sd-banner").props(
            "data-ended"
        )
    with ui.element("div").classes("sd-main"):
        with ui.element("nav").classes("sd-nav"):
            for view in VIEWS:
                with (
                    ui.element("a").props(f'href="{view.path}"').classes("on" if view.title == title else "")
                ):
                    ui.html(f"<span>{view.title}</span><kbd>{view.key}</kbd>", sanitize=False)
        with ui.element("div").classes("sd-body"):
            with ui.element("h1"):
                ui.label(title)
            problem = ui.label("").classes("sd-bad")
            problem.set_visibility(False)
            yield PageFrame(source, status, problem)
    _keys()


def _keys() -> None:
    by_key = {view.key: view.path for view in VIEWS}

    def pressed(event: KeyEventArguments) -> None:
        if not event.action.keydown or event.modifiers.ctrl or event.modifiers.alt or event.modifiers.meta:
            return
        name = str(event.key.name)
        if name in by_key:
            ui.navigate.to(by_key[name])
        elif name == "d":
            ui.run_javascript("sundogDark()")
        elif name == "?":
            ui.notify(_HELP, multi_line=True, timeout=15000)
        elif name == "/":
            ui.run_javascript("document.querySelector('.sd-filter input')?.focus()")

    ui.keyboard(on_key=pressed, repeating=False)


async def ask(function: Callable[..., T], *args: object) -> T:
    """Call what blocks, beside the event loop."""
    return await asyncio.get_running_loop().run_in_executor(None, function, *args)


def live(
    frame: PageFrame, update: Callable[[], Awaitable[None]], every_s: float = EVERY_S
) -> Callable[[], None]:
    """Refresh a view now, and again while its session runs and its browser is connected.

    Returns:
        Refreshes it out of turn: after a click.
    """
    busy = [False, False]  # running; requested again in the meantime

    async def refresh() -> None:
        if busy[0]:
            busy[1] = True
            return
        busy[0] = True
        try:
            await update()
            frame.problem.set_visibility(False)
        except Exception as error:  # a page that shows the error is better than a page that no longer changes
            with contextlib.suppress(Exception):
                frame.problem.set_text(f"This could not be read: {type(error).__name__}: {error}")
                frame.problem.set_visibility(True)
        finally:
            busy[0] = False
        if busy[1]:
            busy[1] = False
            await refresh()

    def begin() -> None:
        async def tick() -> None:
            await refresh()
            if not frame.source.is_live:
                timer.deactivate()

        timer = ui.timer(every_s, tick)

    frame.first.append(refresh)
    frame.then.append(begin)  # a timer needs the browser, and the page is sent as soon as any part is ready

    def at_once() -> None:
        background_tasks.create(refresh())

    return at_once
