"""Call sites: which line of the user's program submitted a task, or waits in `get`.

Owns the writing of them. A site is written when a function is submitted from another line than the time before, with
the first task of it: a loop costs nothing (`observe/sites.py` finds the site of a task again). The caller's frame is at
hand anyway, for each ref keeps it. Runs in every owner, in the submitting thread, without a lock: two threads that
submit one function from two lines at the same moment may be told the other's line.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from sundog import events
from sundog.refs import site_of

if TYPE_CHECKING:
    from sundog.events import NoRing, Ring
    from sundog.owner.rows import Fn

_time = time.time
MARK = "@"  # before the function's name, where the fingerprint of its code would stand


def note(ring: Ring | NoRing, fn: Fn, task_id: bytes, code: Any, at: int) -> None:
    """A function is submitted from here from now on."""
    fn.site_code, fn.site_at = code, at
    now = _time()
    ring.write(events.SITE, task_id, ring.name(site_of(code, at), MARK + fn.name), now, now, now)


def of_user(ring: Ring | NoRing, otherwise: int) -> int:
    """The ring's number for the line of the user's program that led here; `otherwise` if there is none."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if type(name) is not str or not name.startswith("sundog."):
            return ring.name(site_of(frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return otherwise
