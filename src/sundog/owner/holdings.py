"""What this process holds: its references with their kinds, sizes, places and ages, for `sundog memory`.

Owns the making of the report. Runs in a thread made for the look; looks for creation sites without the owner's lock
(that may end objects of the user's), then reads the tables under it. Loaded when somebody asks.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING

from sundog import refs
from sundog.ids import PROCESS_BYTES, task_of
from sundog.owner import context
from sundog.owner.description import describe_objects
from sundog.wire.looks import MemoryReport, Reference, Total

if TYPE_CHECKING:
    from sundog.owner.core import Owner


def report(owner: Owner, most: int) -> MemoryReport:
    """The `most` largest references of this process, and the totals of all."""
    sites = refs.creation_sites()
    found = []
    with owner.lock:
        for row in describe_objects(owner, owner.actors.scopes, os.getpid(), context.facts.mode, sites):
            oid = bytes.fromhex(row["object_id"])
            task = owner.table.get(task_of(oid))
            owned = owner.refs.owned.get(oid) if oid[:PROCESS_BYTES] == owner.me else None
            found.append(
                Reference(
                    row["object_id"],
                    row["object_size"],
                    row["reference_type"],
                    row["task_status"],
                    row["attempt_number"],
                    row["call_site"],
                    _segment(owner, oid) if row["in_shared_memory"] else "",
                    row["local_ref_count"],
                    task.submit_s if task is not None else 0.0,
                    tuple(each.hex() for each in owned.borrowers) if owned is not None else (),
                )
            )
    found.sort(key=lambda each: -each.size_bytes)
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for each in found:
        sums[each.kind][0] += 1
        sums[each.kind][1] += max(0, each.size_bytes)
    totals = tuple(Total(kind, count, size) for kind, (count, size) in sorted(sums.items()))
    return MemoryReport(tuple(found[:most]), totals, max(0, len(found) - most))


def _segment(owner: Owner, oid: bytes) -> str:
    value = owner.objects.value(oid)
    return value[2][0] if value is not None and value[2] else ""
