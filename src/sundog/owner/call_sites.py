"""Call sites: which line of the user's program submitted a task, or waits in `get`.

Owns the writing of them. A site is written when a function is submitted from another line than the time before, with
the first task of it: a loop costs nothing (`observe/sites.py` finds the site of a task again). The caller's frame is at
hand anyway, for each ref keeps it. Runs in every owner, in the submitting thread, without a lock: two threads that
submit one function from two lines at the same moment may be told the other's line.
"""

from __future__ import annotations

import time
from sys import _getframe
from typing import TYPE_CHECKING

from sundog import events
from sundog.refs import site_of

if TYPE_CHECKING:
    from types import FrameType

    from sundog.events import NoRing, Ring
    from sundog.owner.rows import Fn

_time = time.time
_SITES_MAX = 4096
_ours: set[int] = set()  # ids of the globals of sundog's own modules
MARK = "@"  # stands before the function's name, in the place of the fingerprint of its code


def note(ring: Ring | NoRing, fn: Fn, task_id: bytes, code: object, at: int) -> None:
    """A function is submitted from here from now on."""
    fn.site_code, fn.site_at = code, at
    frame: FrameType | None = _getframe(1)
    while frame is not None and _is_ours(frame.f_globals):
        frame = frame.f_back  # a Pool or a queue submits for the user: find the user's line that called it
    if frame is not None:
        code, at = frame.f_code, frame.f_lasti
    now = _time()
    ring.write(events.SITE, task_id, ring.name(site_of(code, at), MARK + fn.name), now, now, now)


def of_user(ring: Ring | NoRing, otherwise: int, depth: int = 1) -> int:
    """The ring's number for the line of the user's program that led here; `otherwise` if there is none.

    Args:
        ring: of this process.
        otherwise: the number for a call that no code of the user's led to.
        depth: how many frames back the public verb is, on the way that is taken most: those between are passed over.
    """
    verb = _getframe(depth)
    frame: FrameType | None = verb
    if id(verb.f_globals) not in _ours:
        frame = _getframe(1)  # this instruction is seen for the first time
    while frame is not None:
        if id(frame.f_globals) not in _ours:
            found = ring.sites.get((id(frame.f_code), frame.f_lasti))
            if found is not None:
                return found[1]
            if not _is_ours(frame.f_globals):
                return _number(ring, frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return otherwise


def _is_ours(names: dict[str, object]) -> bool:
    name = names.get("__name__")
    if type(name) is not str or not name.startswith("sundog."):
        return False
    _ours.add(id(names))  # a module of sundog stays loaded, so no other dict gets this id
    return True


def _number(ring: Ring | NoRing, code: object, at: int) -> int:
    if len(ring.sites) >= _SITES_MAX:
        ring.sites.clear()
    number = ring.name(site_of(code, at))
    # the ring keeps the code object, so no other code object gets this id
    ring.sites[id(code), at] = code, number
    return number
