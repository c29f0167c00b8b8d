"""`sundog.util.ray_debugpy`: a breakpoint for an editor, by a call.

Owns nothing: the stop waits for VS Code on a port of 127.0.0.1, whatever the setting `debugger` says. Runs in the
caller's thread, in a task or actor; in a driver it is debugpy's own.
"""

from __future__ import annotations

import sys

__all__ = ["POST_MORTEM_ERROR_UUID", "set_trace"]

POST_MORTEM_ERROR_UUID = "post_mortem"


def set_trace(breakpoint_uuid: str | bytes | None = None) -> None:
    """Stop at the next line of the caller, for an editor; `breakpoint_uuid` is taken for programs written for Ray."""
    frame = sys._getframe(1)
    breakpoints = getattr(sys.breakpointhook, "__self__", None)
    if breakpoints is not None and hasattr(breakpoints, "stop_in_editor"):
        breakpoints.stop_in_editor(frame, "breakpoint()")
        return
    from sundog.debugging import vscode

    port = vscode.listen()
    print(f"The debugger is listening on 127.0.0.1:{port}.", file=sys.stderr, flush=True)
    vscode.stop_at(frame)
