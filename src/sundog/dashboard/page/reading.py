"""Long texts: logs that are followed, stacks, flame graphs.

Owns which file a name or an id means, and what part of it is shown. A name that is no log of this session opens
nothing. Runs in the head process' event loop.
"""

from __future__ import annotations

import contextlib
import html
import os
from typing import TYPE_CHECKING

from nicegui import app, ui
from starlette.requests import Request
from starlette.responses import HTMLResponse

from sundog.dashboard.page.frame import PageFrame, address, ask, live
from sundog.observe import log_reading
from sundog.printable import printable

if TYPE_CHECKING:
    from nicegui.events import ValueChangeEventArguments

    from sundog.dashboard.source import PageSource
    from sundog.observe.stacks import StackGroup
    from sundog.util.state.logs import Log

LINES_MAX = 2000
PROFILE = "/profile-page/{name}"
_WINDOW_S = 5.0


# ---------------------------------------------------------------------- logs
def logs(frame: PageFrame, file: str, text: str, id_: str) -> None:
    """Log files: chosen, searched, followed."""
    source = frame.source
    chosen = {"file": file, "text": text}
    with ui.element("div").classes("sd-row"):
        files = ui.select([], label="file", with_input=True).props("dense outlined").style("width:420px")
        find = ui.input(placeholder="search (/)", value=text).props("dense outlined clearable debounce=300")
        find.classes("sd-filter").style("width:260px")
        follow = ui.switch("follow", value=True)
        shown = ui.label("loading …").classes("sd-dim").props("data-lines")
    body = ui.html("", sanitize=False, tag="pre").classes("sd-pre").style("max-height:72vh;overflow:auto")
    body.props("data-log")
    seen = [("", "", 0.0)]

    def changed() -> None:
        chosen["file"], chosen["text"] = str(files.value or ""), str(find.value or "")
        seen[0] = ("", "", 0.0)
        ui.navigate.history.replace(address("/logs", file=chosen["file"], text=chosen["text"]))
        refresh()

    async def update() -> None:
        names = await ask(log_names, source.path)
        if id_ and not chosen["file"]:
            chosen["file"] = await ask(log_of, source.path, id_)
        if not chosen["file"] and names:
            chosen["file"] = names[0]
        if files.options != names or files.value != chosen["file"]:
            files.options = names
            files.value = chosen["file"] if chosen["file"] in names else None
            files.update()
        if chosen["file"] not in names:
            shown.set_text(
                f"There is no log of {id_ or chosen['file']}." if id_ or chosen["file"] else "No log yet."
            )
            return
        path = os.path.join(source.path, "logs", chosen["file"])
        mark = (path, chosen["text"], await ask(_size, path))
        if mark == seen[0] or (seen[0][0] == path and seen[0][1] == chosen["text"] and not follow.value):
            return
        seen[0] = mark
        lines, total = await ask(matching, path, chosen["text"])
        body.set_content(html.escape("\n".join(lines)))
        cut = f", the last {len(lines):,} shown" if total > len(lines) else ""
        shown.set_text(f"{total:,} line{'s' * (total != 1)}{cut}")
        if follow.value:
            ui.run_javascript(
                "{const e=document.querySelector('[data-log]'); if(e) e.scrollTop=e.scrollHeight}"
            )

    refresh = live(frame, update)
    files.on_value_change(lambda event: changed() if event.value != chosen["file"] else None)
    find.on_value_change(lambda event: changed() if (event.value or "") != chosen["text"] else None)


def _size(path: str) -> float:
    try:
        return os.stat(path).st_mtime_ns + os.stat(path).st_size
    except OSError:
        return 0.0


def log_names(session_path: str) -> list[str]:
    """The logs of a session: workers' output first, the newest of them first."""
    from sundog.util.state.logs import files_of

    groups = files_of(session_path, "*")
    order = ("worker_out", "worker_err", "driver", "internal")
    return [
        name
        for group in order
        for name in sorted(groups.get(group, []), key=lambda each: _age(session_path, each))
    ]


def _age(session_path: str, name: str) -> float:
    try:
        return -os.stat(os.path.join(session_path, "logs", name)).st_mtime
    except OSError:
        return 0.0


def log_of(session_path: str, id_: str) -> str:
    """The log of a process, an actor or a task, by its id or its pid; "" if there is none."""
    from sundog.util.state import logs as found

    for look in (found.logs_of_worker, found.logs_of_actor, _logs_of_task):
        with contextlib.suppress(Exception):
            for log in look(session_path, id_, "out"):
                return os.path.basename(log.path)
    return ""


def _logs_of_task(session_path: str, id_: str, suffix: str) -> list[Log]:
    from sundog.util.state.logs import logs_of_task

    return list(logs_of_task(session_path, id_, suffix))


def matching(path: str, text: str) -> tuple[list[str], int]:
    """The last lines of a log that have a text in them, and how many there are in all."""
    wanted = text.lower().encode()
    found: list[bytes] = []
    total = 0
    for line in log_reading.read(path):
        if not wanted or wanted in line.lower():
            total += 1
            found.append(line)
            if len(found) >= 2 * LINES_MAX:
                del found[:LINES_MAX]
    return [printable(line.decode(errors="replace").rstrip("\n")) for line in found[-LINES_MAX:]], total


# ---------------------------------------------------------------------- stacks
def stacks(frame: PageFrame, text: str) -> None:
    """What every process is doing right now."""
    with ui.element("div").classes("sd-row"):
        find = ui.input(placeholder="filter (/)", value=text).props("dense outlined clearable debounce=300")
        find.classes("sd-filter").style("width:320px")
        go_on = ui.switch("look again each second", value=False)
        ui.button("look", on_click=lambda: refresh()).props("dense no-caps unelevated")
    body = (
        ui.html("<div class='sd-empty'>loading …</div>", sanitize=False)
        .style("width:100%")
        .props("data-stacks")
    )
    looked = [False]

    async def update() -> None:
        if looked[0] and not go_on.value and not again[0]:
            return
        again[0], looked[0] = False, True
        groups = await ask(frame.source.stacks)
        body.set_content(stacks_html(groups, str(find.value or ""), frame.source.is_live))

    again = [True]
    run = live(frame, update)

    def refresh() -> None:
        again[0] = True
        run()

    def filtered(event: ValueChangeEventArguments[str | None]) -> None:
        ui.navigate.history.replace(address("/stacks", text=event.value or ""))
        refresh()

    find.on_value_change(filtered)


def stacks_html(groups: list[tuple[str, StackGroup]], text: str, is_live: bool) -> str:
    """Each group of equal stacks under its heading."""
    if not is_live:
        return "<div class='sd-empty'>The session has ended: no process is left to look at.</div>"
    words = text.lower().split()
    found = []
    for heading, group in groups:
        lines = "\n".join(group.lines)
        if all(word in f"{heading}\n{lines}".lower() for word in words):
            found.append(
                f"<h2>{html.escape(printable(heading))}</h2><pre class='sd-pre'>{html.escape(lines) or 'idle'}</pre>"
            )
    return "".join(found) or "<div class='sd-empty'>No process matches.</div>"


# ---------------------------------------------------------------------- flame graphs
def profiles(frame: PageFrame, id_: str, pid: str) -> None:
    """Profiles that were taken, and taking one."""
    source = frame.source
    _serve_profiles(source.path)
    with ui.element("div").classes("sd-row"):
        who = (
            ui.input(placeholder="pid, empty for all processes", value=pid)
            .props("dense outlined")
            .style("width:220px")
        )
        kind = ui.toggle(["cpu", "wall"], value="cpu").props("dense no-caps unelevated")
        take = ui.button(f"profile {_WINDOW_S:.0f} s", on_click=lambda: begin()).props(
            "dense no-caps unelevated"
        )
        told = ui.label("").classes("sd-dim").props("data-told")
    rows = ui.html("", sanitize=False).props("data-profiles")
    picture = ui.html("", sanitize=False).style("width:100%")
    if not source.is_live:
        take.disable()

    async def update() -> None:
        found = await ask(profile_rows, source.path)
        rows.set_content(profiles_html(found, id_))
        if id_ in [each[0] for each in found] and not picture.content:
            picture.set_content(
                f"<iframe title='flame graph' src='/profile-page/{html.escape(id_)}' "
                "style='width:100%;height:75vh;border:1px solid var(--line)'></iframe>"
            )

    refresh = live(frame, update, 2.0)

    async def begin() -> None:
        take.disable()
        told.set_text("measuring …")
        try:
            pids = [int(word) for word in str(who.value or "").split() if word.isdigit()]
            made = await ask(measure, source, str(kind.value), pids)
            told.set_text("")
            ui.navigate.to(address("/profiles", id=made))
        except Exception as error:
            told.set_text(f"It could not be taken: {error}")
        finally:
            take.enable()
            refresh()


def measure(source: PageSource, kind: str, pids: list[int]) -> str:
    """Take a profile of some seconds; its id.

    Raises:
        ValueError: no process has one of these pids.
    """
    import time

    from sundog.profiling.session import RunningProfile

    what = f"pid {pids[0]}" if pids else "all processes"
    running = RunningProfile(source.opened.ask, source.path, kind, what, pids, limit_s=_WINDOW_S + 60)
    if not running.pids:
        raise ValueError("no process of the session has this pid")
    time.sleep(_WINDOW_S)
    return running.end().id


def profile_rows(session_path: str) -> list[tuple[str, str, str]]:
    """Id, kind and subject of the profiles, the newest first."""
    from sundog.profiling.rows import profiles_of

    return [(each.id, each.kind, each.what) for each in profiles_of(session_path)]


def profiles_html(rows: list[tuple[str, str, str]], chosen: str) -> str:
    """A line for each profile."""
    if not rows:
        return "<div class='sd-empty'>None yet. Take one here, or with: sundog profile run script.py</div>"
    return "".join(
        f"<div{' style=font-weight:600' if name == chosen else ''}><a href='/profiles?id={html.escape(name)}'>"
        f"{html.escape(name)}</a> {html.escape(kind)} of {html.escape(printable(what))}</div>"
        for name, kind, what in rows
    )


_served: set[str] = set()


def _serve_profiles(session_path: str) -> None:
    """The flame graph of a profile at an address of its own, for the frame that shows it."""
    if session_path in _served:
        return
    _served.add(session_path)

    @app.get(PROFILE)
    def page(request: Request, name: str) -> HTMLResponse:
        from sundog.profiling import flame
        from sundog.profiling.rows import profiles_of

        found = [each for each in profiles_of(session_path) if each.id == name]
        text = flame.page(found[0]) if found else "<p>There is no such profile.</p>"
        return HTMLResponse(text, 200 if found else 404, {"x-frame-options": "SAMEORIGIN"})
