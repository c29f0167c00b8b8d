"""Sessions as values, for notebooks and scripts: what ran, how far it is, what went wrong.

::

    sessions() ──► SessionList ── a table
    session("latest") ──► Session ── a card with its functions and troubles

Owns how both are shown, as text and as HTML. Reads records and asks the node, as commands do; starts and joins nothing.
Runs in the caller's thread.
"""

from __future__ import annotations

import contextlib
import html
import os
import time
from typing import overload

from sundog.observe import cards, index, troubles
from sundog.observe.activity import Activity, Watcher, tally
from sundog.observe.live_totals import LiveTotals
from sundog.observe.sessions import Opened, all_sessions, open_session
from sundog.observe.why_facts import Gatherer
from sundog.observe.words import in_words
from sundog.printable import printable

_SHOWN = 20
_CELL = "style='text-align:left;padding:2px 10px'"


class Session:
    """One session, running or ended.

    Attributes:
        name: its name.
        path: its folder.
        is_live: whether it runs.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self.name, self.path, self.is_live = opened.name, opened.path, opened.is_live

    def activity(self) -> Activity:
        """What the session does now; for an ended session, what its functions have done."""
        if self.is_live:
            with contextlib.suppress(ConnectionError, OSError):
                return Watcher(self._opened.ask, self.path).look()
        return Activity(time.time(), tally((), LiveTotals(self.path, whole=True).read()), [])

    def troubles(self) -> list[str]:
        """What went wrong, the most interesting first, each with the command that tells the whole story."""
        with index.opened(self.path) as found, contextlib.suppress(ConnectionError, OSError):
            return [
                f"{each.text} (sundog why {each.id})" for each in troubles.find(Gatherer(self._opened, found))
            ]
        return []

    def __repr__(self) -> str:
        functions = self.activity().functions
        done, failed = sum(each.done for each in functions), sum(each.failed for each in functions)
        state = "running" if self.is_live else "ended"
        lines = [f"{printable(self.name)}: {state}, {done:,} tasks finished, {failed:,} failed"]
        return "\n".join([*lines, *(f"  {printable(each)}" for each in self.troubles())])

    def _repr_html_(self) -> str:
        """A card, for notebooks."""
        activity = self.activity()
        facts = {
            "Session": html.escape(printable(self.name)),
            "State": "running" if self.is_live else "ended",
            "Files": html.escape(printable(self.path)),
        }
        found = [html.escape(printable(each)) for each in self.troubles()]
        if found:
            facts["Trouble"] = "<br>".join(found)
        if self.is_live:
            return cards.card(facts, activity)
        counts = {
            "Tasks": f"{sum(each.done for each in activity.functions):,} finished, "
            f"{sum(each.failed for each in activity.functions):,} failed"
        }
        rows, bars = cards.facts_html(facts | counts), cards.functions_html(activity.functions)
        return f"<div><b>sundog</b><table>{rows}</table>{bars}</div>"


class SessionList:
    """The sessions of this user, the newest first. Behaves as a tuple."""

    def __init__(self, found: tuple[Session, ...]) -> None:
        self._found = found

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, index: int) -> Session: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Session, ...]: ...
    def __getitem__(self, index: int | slice) -> Session | tuple[Session, ...]:
        return self._found[index]

    def _rows(self) -> list[tuple[str, str, str]]:
        wall_s = time.time()
        rows = []
        for each in self._found[:_SHOWN]:
            with contextlib.suppress(OSError):
                ago = in_words(max(0.0, wall_s - os.stat(each.path).st_mtime))
                rows.append((printable(each.name), "running" if each.is_live else "ended", f"{ago} ago"))
        return rows

    def _left(self) -> str:
        return f"and {len(self._found) - _SHOWN} more" if len(self._found) > _SHOWN else ""

    def __repr__(self) -> str:
        lines = [f"{name}  {state}, last change {ago}" for name, state, ago in self._rows()]
        return "\n".join([*lines, *filter(None, [self._left()])]) or "No session."

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        heads = "".join(f"<th {_CELL}>{each}</th>" for each in ("session", "state", "last change"))
        rows = "".join(
            "<tr>" + "".join(f"<td {_CELL}>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self._rows()
        )
        return f"<table><tr>{heads}</tr>{rows}</table>{self._left()}" if rows else "No session."


def session(which: str = "latest") -> Session:
    """A session to look at: in a notebook a card, elsewhere some lines of text.

    Args:
        which: "latest", a session's name or a part of it, its folder, or a file of `sundog session export`.

    Raises:
        LookupError: there is no such session, or it is another user's.
    """
    return Session(open_session(which))


def sessions() -> SessionList:
    """All sessions of this user on this machine, running and ended, the newest first."""
    return SessionList(tuple(Session(each) for each in all_sessions()))
