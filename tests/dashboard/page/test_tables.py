"""Cells and addresses of tables."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from nicegui import Client, context, core, ui

from sundog.dashboard.page.frame import PageFrame
from sundog.dashboard.page.tables import ROWS, Column, DataTable, clock, seconds, short, size, wanted_of
from sundog.dashboard.source import PageSource, TablePage
from sundog.observe.sessions import Opened


def test_an_address_says_which_part_of_a_list_is_shown() -> None:
    wanted = wanted_of("f", "failed", "duration", "0", "3")
    assert (wanted.text, wanted.state, wanted.sort, wanted.descending) == ("f", "failed", "duration", False)
    assert (wanted.first, wanted.most) == (2 * ROWS, ROWS)


def test_nonsense_in_an_address_counts_as_nothing() -> None:
    wanted = wanted_of("", "", "", "x", "-1")
    assert (wanted.first, wanted.state, wanted.descending) == (0, "all", True)
    assert wanted_of("", "", "", "", "0").first == 0


def test_what_is_not_known_is_empty() -> None:
    assert (seconds(None), size(None), size(-1), clock(None), clock(0), short(None)) == ("",) * 6
    assert short("0123456789abcdef") == "0123456789ab…"


def test_a_browser_that_tells_late_where_a_table_began_does_not_turn_back_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ui.navigate.history, "replace", lambda _: None)  # there is no browser
    rows = TablePage([{"task": str(number)} for number in range(ROWS)], 3 * ROWS)

    async def turn() -> dict[str, object]:
        monkeypatch.setattr(core, "loop", asyncio.get_running_loop())
        with Client(ui.page("/late")):
            made = PageFrame(PageSource(Opened("s", str(tmp_path))), ui.label(), ui.label())
            data = DataTable(
                made, "/tasks", (Column("task", "id"),), lambda _: rows, wanted_of("", "", "", "", "")
            )
            table = next(each for each in context.client.elements.values() if isinstance(each, ui.table))
            began = dict(table.pagination)
            _tell(table, "request", {"pagination": {**began, "page": 2}})
            _tell(table, "update:pagination", began)
            await data._update()
            await asyncio.sleep(0)  # what was asked of the browser begins to wait for it
            return table.pagination

    shown = asyncio.run(turn())
    assert (shown["page"], shown["rowsNumber"]) == (2, 3 * ROWS)


def _tell(table: ui.table, event: str, what: dict[str, object]) -> None:
    """What the browser sends when something happens to a table."""
    for each in table._event_listeners.values():
        if each.type == event:
            table._handle_event({"id": table.id, "listener_id": each.id, "args": what})
