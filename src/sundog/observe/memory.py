"""Which process holds which object, and where the memory of a session is: the rows of `sundog memory`.

::

    every process ──MemoryReport──► Holding rows (sizes and sites filled in from the owner) ──► groups
    /proc/<pid>/status ──► ProcessMemory        the node's store ──► figures

Owns the joining of these. Pure but for `collect`, which asks the node and reads /proc. Runs in the caller's
process.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from sundog import events
from sundog.plain import JsonMapping, field, plain
from sundog.wire.looks import MEMORY, RETENTION, MemoryReport, Reference, Retention, Who
from sundog.wire.requests import LookAt, Status

if TYPE_CHECKING:
    from sundog.wire.requests import AskNode

KINDS = (
    "LOCAL_REFERENCE",
    "PINNED_IN_MEMORY",
    "USED_BY_PENDING_TASK",
    "CAPTURED_IN_OBJECT",
    "ACTOR_HANDLE",
)
IP = "127.0.0.1"
_PATIENCE_S = 5.0
_MOST = 10_000
_WHY_S = 15.0


@plain(frozen=True)
class ObjectHolding:
    """One process's hold on one object."""

    who: Who
    reference: Reference
    size_bytes: int  # -1: not known, for its task has not ended
    call_site: str  # where this process's ref was made; "made at …" if only the owner's is known
    origin: str  # where the object's owner made it
    age_s: float | None
    where: str  # shared memory, disk, owner's memory, not made yet, ""


@plain(frozen=True)
class ProcessMemory:
    """The memory of one process, as the kernel counts it."""

    pid: int
    what: str
    rss_bytes: int
    shared_bytes: int  # files and shared segments: also in the figures of the others that map them
    store_bytes: int  # of these, shared segments: the object store
    own_bytes: int  # rss - shared: what ends with the process


@plain(frozen=True)
class HoldingGroup:
    """Rows under one heading, with their sums."""

    name: str
    rows: list[ObjectHolding]
    counts: dict[str, int]
    size_bytes: int  # each object once


@plain()
class MemoryPicture:
    """All that `sundog memory` shows."""

    holdings: list[ObjectHolding]
    processes: list[ProcessMemory]
    store: dict[str, int]
    machine: JsonMapping
    silent: list[int] = field(default_factory=list)  # pids that told nothing
    omitted: int = 0  # references that are counted below, and not among the rows
    totals: dict[str, tuple[int, int]] = field(default_factory=dict)  # kind: references, bytes
    retention: dict[tuple[int, str], Retention] = field(default_factory=dict)


def collect(ask: AskNode, session_path: str, shm_root: str) -> MemoryPicture:
    """Ask every process of a session what it holds."""
    told, silent = ask(LookAt(MEMORY, (_MOST,), (), _PATIENCE_S))
    status = ask(Status())
    reports = [(who, row) for who, row in told if isinstance(row, MemoryReport)]
    holdings = join(reports, _made_at(session_path, reports), _places(shm_root, reports), time.time())
    totals: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for _, report in reports:
        for total in report.totals:
            totals[total.kind][0] += total.references
            totals[total.kind][1] += total.size_bytes
    processes = [(who.pid, _what(who)) for who, _ in told] + [(who.pid, _what(who)) for who in silent]
    processes += [(int(status["pid"]), "node"), (int(status.get("zygote_pid") or 0), "zygote")]
    read = [memory for pid, what in processes if (memory := read_process(pid, what)) is not None]
    return MemoryPicture(
        holdings,
        sorted(read, key=lambda each: -each.own_bytes),
        status["store"],
        status["memory"],
        [who.pid for who in silent] + [who.pid for who, row in told if isinstance(row, str)],
        sum(report.omitted for _, report in reports),
        {kind: (count, size) for kind, (count, size) in totals.items()},
    )


def explain(ask: AskNode, picture: MemoryPicture, holdings: Sequence[ObjectHolding]) -> None:
    """Find out by which variables processes hold these; the answers go into the picture."""
    names = tuple(dict.fromkeys(each.reference.object_id for each in holdings))
    only = tuple(dict.fromkeys(each.who.process_id for each in holdings))
    if names:
        told, _ = ask(LookAt(RETENTION, (names,), only, _WHY_S))
        for who, rows in told:
            for row in rows if isinstance(rows, list) else ():
                picture.retention[who.pid, row.object_id] = row


# ---------------------------------------------------------------------- joining
def join(
    reports: Iterable[tuple[Who, MemoryReport]],
    made_at: dict[str, float],
    places: dict[str, tuple[str, float]],
    now: float,
) -> list[ObjectHolding]:
    """Rows of all processes; what a borrower does not know is taken from the owner's row.

    Args:
        reports: What each process told.
        made_at: When puts were made, by object.
        places: Of segments: where they are, and since when.
        now: The time.
    """
    reports = list(reports)
    owned: dict[str, Reference] = {}
    for who, report in reports:
        for each in report.references:
            if each.object_id.startswith(who.process_id):
                owned[each.object_id] = each
    rows = []
    for who, report in reports:
        for each in report.references:
            origin = owned.get(each.object_id, each)
            size = each.size_bytes if each.size_bytes >= 0 else origin.size_bytes
            where, since = _place(each if each.segment else origin, size, places)
            since = since or made_at.get(each.object_id) or origin.since_s or each.since_s
            site = each.call_site or (f"made at {origin.call_site}" if origin.call_site else "")
            age_s = max(0.0, now - since) if since else None
            rows.append(
                ObjectHolding(who, each, size, site, origin.call_site or each.call_site, age_s, where)
            )
    return rows


def _place(reference: Reference, size: int, places: dict[str, tuple[str, float]]) -> tuple[str, float]:
    if reference.segment:
        return places.get(reference.segment, ("disk", 0.0))
    if reference.kind == "ACTOR_HANDLE":
        return "", 0.0
    return ("owner's memory" if size >= 0 else "not made yet"), 0.0


def group(picture: MemoryPicture, by: str, sort_by: str) -> list[HoldingGroup]:
    """Rows by "node" or "stack-trace", sorted by "size" (largest first), "pid" or "kind"."""
    found: dict[str, list[ObjectHolding]] = {}
    for each in picture.holdings:
        found.setdefault(IP if by == "node" else each.origin or "(unknown)", []).append(each)
    groups = [_group(name, rows, sort_by) for name, rows in found.items()]
    return sorted(groups, key=lambda each: -each.size_bytes)


def _group(name: str, rows: list[ObjectHolding], sort_by: str) -> HoldingGroup:
    rows.sort(key=_SORTS[sort_by])
    counts: dict[str, int] = dict.fromkeys(KINDS, 0)
    for each in rows:
        counts[each.reference.kind] = counts.get(each.reference.kind, 0) + 1
    objects = {each.reference.object_id: each.size_bytes for each in rows}
    return HoldingGroup(name, rows, counts, sum(max(0, size) for size in objects.values()))


_SORTS: dict[str, Callable[[ObjectHolding], tuple[object, ...]]] = {
    "size": lambda each: (-each.size_bytes, each.reference.object_id, each.who.pid),
    "pid": lambda each: (each.who.pid, -each.size_bytes),
    "kind": lambda each: (each.reference.kind, -each.size_bytes),
}


# ---------------------------------------------------------------------- reading
def read_process(pid: int, what: str) -> ProcessMemory | None:
    """The memory of a process; None if it has ended."""
    found: dict[str, int] = {}
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key in ("VmRSS", "RssFile", "RssShmem"):
                    found[key] = int(value.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    if "VmRSS" not in found:
        return None  # a zombie
    store = found.get("RssShmem", 0)
    shared = found.get("RssFile", 0) + store
    return ProcessMemory(pid, what, found["VmRSS"], shared, store, max(0, found["VmRSS"] - shared))


def _what(who: Who) -> str:
    if who.kind == "driver":
        return f"driver {who.entrypoint}".rstrip()
    return f"actor {who.actor_name or who.actor_class}" if who.actor_class else "worker"


def _places(shm_root: str, reports: Iterable[tuple[Who, MemoryReport]]) -> dict[str, tuple[str, float]]:
    """Segments that are in shared memory, and since when: a segment is renamed when an object gets it."""
    found: dict[str, tuple[str, float]] = {}
    for _, report in reports:
        for each in report.references:
            if each.segment and each.segment not in found:
                # The name of a segment of another node of the session ends with that node's tag.
                tag = each.segment.partition("@")[2]
                root = f"{shm_root}.{tag}" if tag else shm_root
                with contextlib.suppress(OSError):
                    found[each.segment] = ("shared memory", os.stat(f"{root}/{each.segment}").st_ctime)
    return found


def _made_at(session_path: str, reports: Iterable[tuple[Who, MemoryReport]]) -> dict[str, float]:
    """When each `put` that is still held was made, as far as the recorders of their processes still say."""
    found: dict[str, float] = {}
    for who, report in reports:
        puts = {
            each.object_id[:32]: each.object_id
            for each in report.references
            if each.object_id.startswith(who.process_id) and each.object_id.endswith("0" * 8)
        }
        if not puts:
            continue
        slots = events.read_slots(os.path.join(session_path, "rings", f"{who.process_id}.ring"))
        for fields in slots.raw() if slots is not None else ():
            if fields[5] == events.PUT and (name := puts.get(fields[0].hex())) is not None:
                found[name] = fields[3]
    return found
