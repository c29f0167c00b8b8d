"""Totals of segments that are dropped: counted when they go, so that sums stay complete though rows do not.

::

    oldest segment ──fold──► <session>/usage.json: totals of all events before `upto` ──► removed

Owns that file. The node folds, one segment at a time, when the quota asks for it; the index takes the totals over when
segments that it has not read are gone. Runs on the caller's only thread; a segment takes some 50 ms.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING

from sundog import event_names, events
from sundog.observe import segments
from sundog.observe.ledger import Ledger, NameOf

if TYPE_CHECKING:
    from sundog.plain import JsonObject

_FILE = "usage.json"


def read(session_path: str) -> JsonObject:
    """What was folded so far: totals, and how many events of segments they are of; {} if nothing was."""
    with contextlib.suppress(OSError, ValueError), open(f"{session_path}/{_FILE}", encoding="utf-8") as file:
        found = json.load(file)
        if isinstance(found, dict):
            return found
    return {}


def fold(session_path: str, path: str) -> None:
    """Count the events of a segment that is about to be removed.

    Raises:
        OSError: the totals cannot be written.
    """
    ledger = Ledger()
    before = read(session_path)
    ledger.load(before)
    upto = int(before.get("upto", 0))
    found = [each for each in segments.list_segments(session_path) if each.path == path]
    names: dict[bytes, dict[int, tuple[str, str]]] = {}
    for segment in found:
        if segment.before < upto:
            return  # the file was folded, but could not be removed
        upto = segment.before
        for block in segments.scan(segment):
            upto += block.slots
            if block.kind != segments.EVENTS:
                continue
            if block.process_id not in names:
                names[block.process_id] = _names(session_path, block.process_id)
            info = events.RingInfo(block.pid, block.role, 0, 0)
            slots = events.Slots(info, block.first, segments.payload(segment, block))
            ledger.count(block.process_id.hex(), _namer(names[block.process_id]), slots)
    _save(session_path, {**ledger.dump(), "upto": upto})


def _namer(known: dict[int, tuple[str, str]]) -> NameOf:
    return lambda number: known.get(number, ("?", ""))


def _names(session_path: str, process_id: bytes) -> dict[int, tuple[str, str]]:
    ring = f"{session_path}/rings/{process_id.hex()}.ring"
    if os.path.exists(f"{ring}.names"):
        return event_names.read_names(ring)
    for segment in reversed(segments.list_segments(session_path)):
        for block in segments.scan(segment):
            if block.kind == segments.NAMES and block.process_id == process_id:
                return event_names.parse_names(segments.payload(segment, block))
    return {}


def _save(session_path: str, state: dict[str, object]) -> None:
    temporary = f"{session_path}/{_FILE}.new"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(state, file)
        os.replace(temporary, f"{session_path}/{_FILE}")
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # an incomplete file is useless, and the disk may be full
        raise
