"""`sundog.util.pdb`: a breakpoint by a call, as Ray's programs set one.

Owns nothing: in a task or actor it stops as `breakpoint()` does (`sundog debug` attaches), in a driver it is pdb in
its own terminal. Runs in the caller's thread.
"""

from __future__ import annotations

import sys
from types import FrameType

__all__ = ["post_mortem", "set_trace"]


def set_trace(breakpoint_uuid: str | bytes | None = None) -> None:
    """Stop at the next line of the caller.

    Args:
        breakpoint_uuid: Taken for the sake of programs written for Ray; a stop has a number of its own here.
    """
    stop_at(sys._getframe(1))


def post_mortem() -> None:
    """Stop where the exception that is being handled came from; in a task or actor.

    Raises:
        ValueError: no exception is being handled.
    """
    error = sys.exception()
    if error is None:
        raise ValueError("post_mortem() works only in an except clause: no exception is being handled here.")
    breakpoints = getattr(sys.breakpointhook, "__self__", None)
    if breakpoints is not None and hasattr(breakpoints, "post_mortem"):
        breakpoints.post_mortem(error)
    else:
        import pdb  # noqa: T100

        pdb.post_mortem(error.__traceback__)


def stop_at(frame: FrameType) -> None:
    """Stop at the next line of a frame of this thread."""
    breakpoints = getattr(sys.breakpointhook, "__self__", None)
    if breakpoints is not None and hasattr(breakpoints, "stop"):
        breakpoints.stop(frame)
    else:
        import pdb  # noqa: T100

        pdb.Pdb().set_trace(frame)
