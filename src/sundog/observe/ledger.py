"""A session's rings read on and on: totals that stay complete though rings forget.

::

    <session>/rings/*.ring ──drain──► Totals (by function)        ──► summary, admission
                                      position in each ring  ──save──► <session>/usage.json

Owns how far each ring has been read. The node keeps one for its session and drains it every second, in
small portions; a finished session is read from what the node saved, and from what the rings hold beyond
that. If a ring went round before it was read, the events that are lost are counted (`missed`). Runs on one
thread; reads files and takes what it needs of their bytes.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any

from sundog import event_names, events
from sundog.observe.usage import Key, Totals
from sundog.plain import field, plain

_FILE = "usage.json"
_COUNTED = frozenset({events.TASK, events.CALL, events.CREATE, events.LOST})
_CONSTRUCTOR = ".__init__"

# Called with a function's name and the peak of own memory of one of its attempts, in bytes.
Observer = Callable[[str, int], None]


@plain()
class Tail:
    """How far a ring has been read."""

    path: str
    after: int = 0
    class_name: str = ""  # of the actor that lives there
    hole: int = 0  # the number of an event that was not there at the last look, though later ones were
    names: dict[int, tuple[str, str]] = field(default_factory=dict)
    names_at: int = 0  # how far the file of its names has been read
    unwritten: int = 0  # events for which its process found no room on the disk, as far as they are counted


class Ledger:
    """Totals of one session, and the place in each of its rings up to which they go."""

    def __init__(self, session_path: str) -> None:
        self.path = session_path
        self.totals = Totals()
        self.missed = 0
        self.forgotten = 0  # events of rings that were removed: in the totals, and nowhere else
        self.tails: dict[str, Tail] = {}
        self.observers: list[Observer] = []

    # ------------------------------------------------------------------ reading
    def drain_all(self) -> None:
        """Read every ring of the session to its end."""
        for path in glob.glob(f"{glob.escape(self.path)}/rings/*.ring"):
            while self.drain(path, final=True):
                pass

    def drain(self, path: str, most: int = 1 << 30, final: bool = False) -> int:
        """Read up to `most` events of one ring; returns how many it read.

        Args:
            path: The ring.
            most: Where to stop, so that a program with other things to do can do them.
            final: Its process is gone: an event that is not there by now never will be.
        """
        name = os.path.basename(path)
        tail = self.tails.get(name) or self.tails.setdefault(name, Tail(path))
        slots = events.read_slots(path, tail.after, most)
        if slots is None:
            return 0
        self.missed += slots.info.unwritten - tail.unwritten
        tail.unwritten = slots.info.unwritten
        if not slots.data:
            return 0
        self.missed += slots.first - 1 - tail.after
        last = slots.first + len(slots.data) // events.EVENT_BYTES - 1
        alike = slots.columns()
        if alike is not None:
            groups = [alike] if alike.kind in _COUNTED else []
        else:
            groups, last = self._sort(tail, slots, last, final)
        read = last - tail.after
        tail.after = last
        for columns in groups:
            self._count(tail, columns)
        if final and read < most:
            tail.names, tail.names_at = {}, 0  # no more will come of it
        return read

    def forget(self, path: str) -> None:
        """A ring that was read to its end is removed."""
        tail = self.tails.pop(os.path.basename(path), None)
        if tail is not None:
            self.forgotten += tail.after

    def _sort(
        self, tail: Tail, slots: events.Slots, last: int, final: bool
    ) -> tuple[list[events.Columns], int]:
        """Events of several names or kinds, or with holes among them: one by one; and the last that counts as read."""
        found: dict[tuple[int, int], list[tuple[Any, ...]]] = defaultdict(list)
        expected = slots.first
        for fields in slots.raw():
            if fields[10] != expected:
                if not final and tail.hole != expected:
                    tail.hole, last = expected, expected - 1  # being written: come back for it, once
                    break
                self.missed += fields[10] - expected
            expected = fields[10] + 1
            if fields[5] in _COUNTED:
                found[fields[4], fields[5]].append(fields)
        return [events.Columns.of(rows) for rows in found.values()], last

    def _count(self, tail: Tail, found: events.Columns) -> None:
        name, code = self._name(tail, found.name)
        kind, count = found.kind, len(found.seconds)
        if kind == events.CREATE:
            tail.class_name = name.removesuffix(_CONSTRUCTOR)
        class_name = tail.class_name if kind != events.TASK else ""
        if kind == events.LOST:
            class_name = self._class_of(code)
        usage = self.totals.row(Key(name, class_name))
        usage.count += count
        usage.failed += sum(found.flags.count(flags) for flags in set(found.flags) if flags & events.FAILED)
        usage.duration_s.add(found.seconds)
        peaks: Sequence[float] = found.own_bytes
        seen: Iterable[float] = compress(peaks, map(events.MEASURED.__and__, found.flags))
        if kind == events.LOST:
            usage.lost += count
            # What it used is not known, but for the memory it was last seen with.
            peaks = seen = [peak for peak in peaks if peak]
        else:
            usage.cpu_s.add(found.cpu_s)
        usage.peak_memory.add(peaks)
        if self.observers and kind in (events.TASK, events.LOST) and not class_name:
            for peak in seen:
                for observe in self.observers:
                    observe(name, int(peak))

    def _name(self, tail: Tail, number: int) -> tuple[str, str]:
        if number not in tail.names:
            more, tail.names_at = event_names.read_more_names(tail.path, tail.names_at)
            tail.names.update(more)
        return tail.names.get(number, ("?", ""))

    def _class_of(self, process: str) -> str:
        """The class of the actor that lived in a process; "" if none did."""
        tail = self.tails.get(f"{process}.ring")
        return tail.class_name if tail is not None else ""

    # ------------------------------------------------------------------ keeping
    def save(self) -> None:
        """Write what is known to the session's folder, for those who read it when the node is gone."""
        state = {
            "missed": self.missed,
            "forgotten": self.forgotten,
            "rings": {
                name: [tail.after, tail.class_name, tail.unwritten] for name, tail in self.tails.items()
            },
            "functions": self.totals.dump(),
        }
        temporary = f"{self.path}/{_FILE}.new"
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump(state, file)
            os.replace(temporary, f"{self.path}/{_FILE}")
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # half of it helps nobody, and the disk may be full
            raise

    def load(self) -> None:
        """Take up what `save` wrote; nothing if there is none."""
        state: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError), open(f"{self.path}/{_FILE}", encoding="utf-8") as file:
            state = json.load(file)
        self.missed = state.get("missed", 0)
        self.forgotten = state.get("forgotten", 0)
        self.totals.load(state.get("functions", []))
        for name, (after, class_name, unwritten) in state.get("rings", {}).items():
            tail = self.tails[name] = Tail(f"{self.path}/rings/{name}", after, class_name)
            tail.unwritten = unwritten


def forgotten_events(session_path: str) -> int:
    """How many events were in rings that a session's node has removed, as of its last word."""
    with contextlib.suppress(OSError, ValueError), open(f"{session_path}/{_FILE}", encoding="utf-8") as file:
        return int(json.load(file).get("forgotten", 0))
    return 0


def session_usage(session_path: str) -> dict[str, Any]:
    """What a session's functions and classes used, as `Usage.figures`; works when its node is gone.

    Returns:
        "functions" and "classes", each by name, and "missed": events that no total contains.
    """
    ledger = Ledger(session_path)
    ledger.load()
    ledger.drain_all()
    return {
        "functions": ledger.totals.functions(),
        "classes": ledger.totals.classes(),
        "missed": ledger.missed,
    }
