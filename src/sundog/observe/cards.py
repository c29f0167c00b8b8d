"""A session as a card of HTML, for notebooks: its name, what it does now, what went wrong. No script.

::

    Activity, facts ──card──► HTML ──display──► the cell
                                  └── LiveCard: the same again each second, while the session runs

Owns the card and its refreshing. Refuses to import IPython unless a notebook has. Runs in the driver; the refreshing in
a thread of its own, `sundog-card`, which ends with the session or when the figures have not changed for some minutes.
"""

from __future__ import annotations

import contextlib
import html
import sys
import threading
import time
from collections.abc import Callable, Mapping

from sundog.observe.activity import Activity, Function, Watcher
from sundog.observe.words import in_units, in_words
from sundog.printable import printable

EVERY_S = 1.0
QUIET_S = 300.0
_FUNCTIONS_MAX = 8
_CELL = "style='text-align:left;padding:2px 10px'"


def facts_html(facts: Mapping[str, str]) -> str:
    """Names and values as rows of a table."""
    return "".join(
        f"<tr><th {_CELL}>{html.escape(name)}</th><td {_CELL}>{value}</td></tr>"
        for name, value in facts.items()
    )


def activity_rows(activity: Activity) -> dict[str, str]:
    """What a session does now, in words: rows of the card."""
    running, waiting, done, failed = (
        sum(getattr(each, name) for each in activity.functions)
        for name in ("running", "waiting", "done", "failed")
    )
    memory, store = activity.memory, activity.store
    found = {
        "Tasks": f"{running:,} running, {waiting:,} waiting, {done:,} finished, {failed:,} failed",
        "Machine": f"{activity.machine_share:.0%} of {activity.cores} cores, "
        f"{in_units(memory.get('used_bytes', 0))} of {in_units(memory.get('total_bytes', 0))} memory",
        "Objects": f"{in_units(store.get('used_bytes', 0))} of {in_units(store.get('limit_bytes', 0))}"
        + (f", {in_units(store['spilled_bytes'])} spilled" if store.get("spilled_bytes") else ""),
    }
    pending = activity.status.get("pending", ())
    if pending:
        found["Waits"] = html.escape(f"{in_words(float(pending[0]['waited_s']))}: {pending[0]['why']}")
    return found


def functions_html(functions: list[Function]) -> str:
    """A bar for each function that is not done, the largest first."""
    order = sorted(functions, key=lambda each: (each.ended == each.total, -each.total))[:_FUNCTIONS_MAX]
    rows = []
    for each in order:
        shares = (
            (each.done, "#2a9d4a"),
            (each.failed, "#c0392b"),
            (each.running, "#e0a030"),
        )
        bars = "".join(
            f"<div style='width:{100 * count / max(1, each.total):.1f}%;background:{colour}'></div>"
            for count, colour in shares
        )
        left = f", {in_words(each.left_s)} left" if each.left_s is not None else ""
        name, far = html.escape(printable(each.name)), f"{each.ended:,} of {each.total:,}{left}"
        rows.append(
            f"<tr><td {_CELL}>{name}</td><td {_CELL}><div style='display:flex;width:200px;height:10px;"
            f"background:#8884'>{bars}</div></td><td {_CELL}>{far}</td></tr>"
        )
    return f"<table>{''.join(rows)}</table>" if rows else ""


def card(facts: Mapping[str, str], activity: Activity | None) -> str:
    """The card. Values of `facts` are HTML already."""
    rows = dict(facts)
    if activity is not None:
        rows |= activity_rows(activity)
    bars = functions_html(activity.functions) if activity is not None else ""
    return f"<div><b>sundog</b><table>{facts_html(rows)}</table>{bars}</div>"


def in_notebook() -> bool:
    """Whether cells of a notebook show what this process displays."""
    found = sys.modules.get("IPython")
    shell = found.get_ipython() if found is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


class LiveCard:
    """A card in a cell that is drawn again while its session runs.

    Args:
        watcher: looks at the session.
        draw: makes the HTML of a look; of None when the session has ended.
        is_there: whether this process is still in the session.
        display: shows HTML, and returns what updates it.
    """

    def __init__(
        self,
        watcher: Watcher,
        draw: Callable[[Activity | None], str],
        is_there: Callable[[], bool],
        display: Callable[[str], Callable[[str], None]],
    ) -> None:
        self._watcher, self._draw, self._is_there = watcher, draw, is_there
        self._ended = threading.Event()
        self._update = display(draw(self._look()))
        self._thread = threading.Thread(target=self._run, name="sundog-card", daemon=True)
        self._thread.start()

    def _look(self) -> Activity | None:
        with contextlib.suppress(Exception):  # the session may end at any moment
            return self._watcher.look()
        return None

    def _run(self) -> None:
        shown, changed_s = "", time.monotonic()
        while not self._ended.wait(EVERY_S):
            activity = self._look() if self._is_there() else None
            text = self._draw(activity)
            if text != shown:
                shown = text
                with contextlib.suppress(Exception):  # the kernel's front end may be gone
                    self._update(text)
            counts = activity is not None and any(each.running or each.waiting for each in activity.functions)
            changed_s = time.monotonic() if counts else changed_s
            if activity is None or time.monotonic() - changed_s > QUIET_S:
                return

    def stop(self) -> None:
        """End; what is shown stays."""
        self._ended.set()
        if self._thread is not threading.current_thread():
            self._thread.join(5.0)


def show_html(text: str) -> Callable[[str], None]:
    """Display HTML in the cell that runs; what it returns replaces it."""
    display = __import__("IPython.display").display
    handle = display.display(display.HTML(text), display_id=True)
    return lambda more: handle.update(display.HTML(more))
