"""Totals per function and class, counted from events: exact however many rows are kept.

::

    slots of a ring or segment ──count──► Totals (by function) ──► `usage` in summaries

Owns which events count, and for which class. Refuses: reading files; the caller gives slots and names. The index counts
what it reads (`observe/index.py`), and what is dropped beyond the quota is counted before it goes
(`observe/dropped.py`). Runs on one thread.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sundog import events
from sundog.observe.usage import FunctionKey, Totals

if TYPE_CHECKING:
    from sundog.plain import JsonObject

_COUNTED = frozenset({events.TASK, events.CALL, events.CREATE, events.LOST})
_CONSTRUCTOR = ".__init__"

# The text and the fingerprint of a name, by its number.
NameOf = Callable[[int], tuple[str, str]]


class Ledger:
    """Totals of one session, and the classes of its actors."""

    def __init__(self) -> None:
        self.totals = Totals()
        self.classes: dict[str, str] = {}  # process, in hexadecimal: the class of the actor that lives there

    def count(self, process: str, name_of: NameOf, slots: events.Slots) -> None:
        """Count the events of one process, each once.

        Args:
            process: its id, in hexadecimal.
            name_of: its names.
            slots: what it wrote.
        """
        if not slots.data:
            return
        alike = slots.columns()
        if alike is not None:
            if alike.kind in _COUNTED:
                self.count_columns(process, name_of, alike)
            return
        found: dict[tuple[int, int], list[events.RawEvent]] = defaultdict(list)
        for fields in slots.raw():
            if fields[5] in _COUNTED:
                found[fields[4], fields[5]].append(fields)
        for rows in found.values():
            self.count_columns(process, name_of, events.Columns.of(rows))

    def count_columns(self, process: str, name_of: NameOf, found: events.Columns) -> None:
        """Count many events of one name and kind, which is one that counts."""
        name, code = name_of(found.name)
        kind, count = found.kind, len(found.seconds)
        if kind == events.CREATE:
            self.classes[process] = name.removesuffix(_CONSTRUCTOR)
        class_name = self.classes.get(process, "") if kind != events.TASK else ""
        if kind == events.LOST:
            class_name = self.classes.get(code, "")
        usage = self.totals.row(FunctionKey(name, class_name))
        usage.count += count
        usage.failed += sum(found.flags.count(flags) for flags in set(found.flags) if flags & events.FAILED)
        again = (
            [flags for flags, attempt in zip(found.flags, found.attempts) if attempt]
            if any(found.attempts)
            else []
        )
        usage.retried += len(again)
        usage.retried_failed += sum(1 for flags in again if flags & events.FAILED)
        usage.duration_s.add(found.seconds)
        peaks: Sequence[float] = found.own_bytes
        if kind == events.LOST:
            usage.lost += count
            # What it used is not known, but for the memory it was last seen with.
            peaks = [peak for peak in peaks if peak]
        else:
            usage.cpu_s.add(found.cpu_s)
        usage.peak_memory.add(peaks)

    def dump(self) -> JsonObject:
        """As values that JSON can hold; `load` reads them back."""
        return {"functions": self.totals.dump(), "classes": self.classes}

    def load(self, dumped: JsonObject) -> None:
        """Add what `dump` gave."""
        self.totals.load(dumped.get("functions", []))
        self.classes.update(dumped.get("classes", {}))

    def figures(self) -> JsonObject:
        """What functions and classes used, each by name, as `Usage.figures`."""
        return {"functions": self.totals.functions(), "classes": self.totals.classes()}
