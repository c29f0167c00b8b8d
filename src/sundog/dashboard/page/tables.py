"""Tables of any length: filtered, sorted and cut at the server, and only the page that is looked at is sent.

Owns columns and their cells, and the address that a choice of filter, order and page has. Runs in the head process'
event loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from nicegui import ui

from sundog.dashboard.page.frame import PageFrame, address, ask, live
from sundog.dashboard.source import TablePage, Wanted
from sundog.observe.words import in_units, in_words
from sundog.plain import NamedTuple
from sundog.printable import printable

if TYPE_CHECKING:
    from nicegui.events import GenericEventArguments, ValueChangeEventArguments

ROWS = 50


class Column(NamedTuple):
    """One column: the key in a row, its heading, and how a value is shown."""

    key: str
    label: str
    show: Callable[[object], str] = lambda value: "" if value is None else printable(str(value))
    right: bool = False
    sortable: bool = True
    link: str = ""  # where a value leads: a path to which the value is added
    state: bool = False  # shown as a badge
    link_key: str = ""  # the key of the value that is added, if it is another
    wraps: bool = False  # a sentence: shown in several lines


def number(value: object) -> float | None:
    """A value as a number; None if it is not known, or is no number."""
    return value if isinstance(value, int | float) else None


def seconds(value: object) -> str:
    """A time for people; "" if it is not known.

    >>> seconds(0.00002), seconds(0.5), seconds(90)
    ('20 µs', '500 ms', '1 min 30 s')
    """
    took_s = number(value)
    if took_s is None:
        return ""
    if took_s < 1e-3:
        return f"{took_s * 1e6:.0f} µs"
    return f"{took_s * 1e3:.0f} ms" if took_s < 1 else in_words(float(took_s))


def size(value: object) -> str:
    """An amount of memory for people."""
    size_bytes = number(value)
    return "" if not size_bytes or size_bytes < 0 else in_units(int(size_bytes))


def clock(value: object) -> str:
    """A time of day."""
    at_s = number(value)
    return time.strftime("%H:%M:%S", time.localtime(at_s)) if at_s else ""


def short(value: object) -> str:
    """An id, cut; the whole is in the link."""
    return "" if not value else f"{str(value)[:12]}…" if len(str(value)) > 12 else str(value)


class DataTable:
    """A table that asks for its page again and again.

    Args:
        frame: the view.
        path: the address of the view.
        columns: from left to right.
        fetch: gives a page; called in a thread.
        wanted: what to begin with.
        states: choices of a state filter; none without.
        empty: what stands there when there is nothing.
    """

    def __init__(
        self,
        frame: PageFrame,
        path: str,
        columns: tuple[Column, ...],
        fetch: Callable[[Wanted], TablePage],
        wanted: Wanted,
        *,
        states: tuple[str, ...] = (),
        empty: str = "Nothing here yet.",
        more: Callable[[], dict[str, object]] = dict,
    ) -> None:
        self.path, self.columns, self.fetch, self.wanted = path, columns, fetch, wanted
        self._more, self._total = more, 1
        with ui.element("div").classes("sd-row"):
            ui.input(placeholder="filter (/)", value=wanted.text, on_change=self._filtered).props(
                "dense outlined clearable debounce=300 aria-label='Filter'"
            ).classes("sd-filter").style("width:320px")
            if states:
                ui.toggle(list(states), value=wanted.state, on_change=self._state).props(
                    "dense no-caps unelevated"
                )
            self._count = ui.label("loading …").classes("sd-dim").props("data-count")
        self._table = ui.table(
            rows=[],
            columns=[
                {
                    "name": each.key,
                    "label": each.label,
                    "field": each.key,
                    "sortable": each.sortable,
                    "align": "right" if each.right else "left",
                    "classes": "sd-wraps" if each.wraps else "",
                }
                for each in columns
            ],
            row_key="key",
            pagination=self._pagination(),
        ).classes("sd-table")
        self._table.props(f'dense flat :rows-per-page-options="[{ROWS}]" no-data-label="loading …"')
        self._empty = empty
        for each in columns:
            self._slot(each)
        self._table.on("request", self._requested)
        # The browser reports the first row of a table too, and on a busy machine only after the user has
        # moved on.
        self._table.on_pagination_change(lambda _: self._paginate())
        self.refresh = live(frame, self._update)

    def _slot(self, column: Column) -> None:
        name = f"body-cell-{column.key}"
        if column.state:
            self._table.add_slot(
                name,
                """<q-td :props="props"><span :class="'b ' + String(props.value||'').split('_')[0]">
                {{props.value}}</span></q-td>""",
            )
        elif column.link:
            key = column.link_key or column.key
            self._table.add_slot(
                name,
                f"""<q-td :props="props"><a v-if="props.row['_{key}']" :href="'{column.link}' +
                encodeURIComponent(props.row['_{key}'])" :title="props.row['_{key}']">{{{{props.value}}}}</a>
                <span v-else>{{{{props.value}}}}</span></q-td>""",
            )

    def _pagination(self) -> dict[str, object]:
        """Which part is shown, as it is wanted: what the browser holds may be older."""
        return {
            "rowsPerPage": ROWS,
            "page": self.wanted.first // ROWS + 1,
            "sortBy": self.wanted.sort or None,
            "descending": self.wanted.descending,
            "rowsNumber": self._total,
        }

    def _paginate(self) -> None:
        self._table.pagination = self._pagination()

    async def _update(self) -> None:
        page = await ask(self.fetch, self.wanted)
        rows = []
        for row in page.rows:
            shown: dict[str, object] = {each.key: each.show(row.get(each.key)) for each in self.columns}
            shown |= {
                f"_{each.link_key or each.key}": row.get(each.link_key or each.key)
                for each in self.columns
                if each.link
            }
            shown["key"] = str(row.get("key") or row.get(self.columns[0].key))
            rows.append(shown)
        if self._empty:
            self._table.props(f'no-data-label="{self._empty}"')
            self._empty = ""
        self._count.set_text(f"{page.total:,} row{'s' * (page.total != 1)}")
        self._table.rows = rows
        self._total = page.total
        self._paginate()

    def _chosen(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self._paginate()
        ui.navigate.history.replace(
            address(
                self.path,
                text=wanted.text,
                state="" if wanted.state == "all" else wanted.state,
                sort=wanted.sort,
                descending="" if wanted.descending else "0",
                page=wanted.first // ROWS + 1 if wanted.first else "",
                **self._more(),
            )
        )
        self.refresh()

    def _filtered(self, event: ValueChangeEventArguments[str | None]) -> None:
        self._chosen(self.wanted._replace(text=str(event.value or ""), first=0))

    def _state(self, event: ValueChangeEventArguments[str]) -> None:
        self._chosen(self.wanted._replace(state=str(event.value), first=0))

    def _requested(self, event: GenericEventArguments) -> None:
        wanted = event.args["pagination"]
        first = (max(1, int(wanted.get("page") or 1)) - 1) * ROWS
        sort = str(wanted.get("sortBy") or "")
        self._chosen(self.wanted._replace(first=first, sort=sort, descending=bool(wanted.get("descending"))))


def wanted_of(text: str, state: str, sort: str, descending: str, page: str) -> Wanted:
    """What an address asks for; nonsense counts as nothing."""
    number = int(page) if page.isdigit() else 1
    return Wanted(text[:200], state or "all", sort, descending != "0", (max(1, number) - 1) * ROWS, ROWS)
