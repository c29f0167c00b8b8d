"""`breakpoint()` in a task or actor: a worker has no terminal, so it says what to do instead, and goes on.

Owns `sys.breakpointhook` of a worker, unless the program chose another by PYTHONBREAKPOINT or a debugger is attached.
Without it pdb would read the end of its input at once and end the task with `BdbQuit`. Runs in a worker, on any
thread.
"""

from __future__ import annotations

import sys
from typing import Any

from sundog import notices
from sundog.config import user_environ

_told: set[tuple[str, int]] = set()


def install() -> None:
    """Have `breakpoint()` do as this file says."""
    if "PYTHONBREAKPOINT" not in user_environ():
        sys.breakpointhook = _hook


def _hook(*args: Any, **kwargs: Any) -> Any:
    if sys.gettrace() is not None:
        return sys.__breakpointhook__(*args, **kwargs)  # noqa: T100 (a debugger is here already)
    frame = sys._getframe(1)
    place = (frame.f_code.co_filename, frame.f_lineno)
    if place not in _told:
        _told.add(place)
        notices.warn(
            f"breakpoint() at {place[0]}:{place[1]} is passed over: a worker has no terminal to debug in. Call the "
            "function itself in the driver instead, where breakpoint() works (a remote function f as "
            "f._function(...)), or name a debugger of your own in the variable PYTHONBREAKPOINT."
        )
    return None
