"""Attempts that ended with their process: written into the owner's own ring, for the dead write nothing.

Owns one decision: what is known of such an attempt. Its start and its memory come from the dead process's
flight recorder, its name, attempt and submission from the owner's table. Runs in the owner, on whichever
thread reads the node's word of a death; never on the path of a task that ends well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog import events
from sundog.owner.rows import DONE
from sundog.wire.lanes import EXTRA_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sundog.owner.basics import Basics
    from sundog.owner.control import Control
    from sundog.owner.rows import Task


def record_lost(basics: Basics, control: Control, tasks: Iterable[Task], worker: bytes) -> None:
    """Record attempts that `worker` had begun, or may have, when it died."""
    path = control.ring_path(worker)
    began, began_at = events.sent_last(path)
    sample = events.last_sample(path)
    now = basics.wall_s()
    for task in tasks:
        if task.state == DONE:
            continue
        start = began_at if task.id == began and began_at <= now else now
        seen = sample.own_bytes if sample is not None and sample.task_id == task.id else 0
        # The id of the dead process takes the place of the function's fingerprint: both are written once per
        # name.
        given = (task.extra or {}).get(EXTRA_NAME)
        name = basics.ring.name(given or task.fn.name, worker.hex(), task.fn.name if given else "")
        basics.ring.write(
            events.LOST, task.id, name, task.submit_s, start, now, events.FAILED, task.attempt, 0.0, seen
        )
