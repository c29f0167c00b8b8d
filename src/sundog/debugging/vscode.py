"""debugpy in a worker, for VS Code and other editors that speak its protocol.

Owns the one port of this process: on 127.0.0.1, opened at the first request for it, served by a thread of
this process (no adapter process is left behind). debugpy is an extra (`pip install 'sundog[debug]'`). Who is served
there can run code here, so a connection of another user is closed before a byte is read from it. Runs in a worker, in
the thread of the task.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import traceback
from types import FrameType

from sundog import trust

_HOST = "127.0.0.1"


class NoDebugpy(Exception):
    """debugpy cannot be used here; the text says why."""


class _State:
    port = 0


class DebugGate(socket.socket):
    """A listening socket that takes connections of this user (and root) alone: TCP has no other guard."""

    def accept(self) -> tuple[socket.socket, object]:
        """The next connection of this user's."""
        while True:
            connection, address = super().accept()
            if trust.connected_user(connection) in (0, os.geteuid()):
                return connection, address
            connection.close()


def listen() -> int:
    """Open the port, once; returns it.

    Raises:
        NotThere: debugpy is not installed, or cannot listen.
    """
    if _State.port:
        return _State.port
    hook = sys.breakpointhook
    try:
        import debugpy  # noqa: T100
        import debugpy.server.api
    except ImportError:
        raise NoDebugpy(
            "debugpy is not installed in the worker's Python. Install it with: pip install 'sundog[debug]'"
        ) from None
    sys.breakpointhook = hook  # debugpy's own passes a breakpoint() over while no editor is attached
    pydevd = sys.modules["pydevd"]
    if not hasattr(pydevd, "create_server_socket"):
        raise NoDebugpy("This version of debugpy listens in a way that sundog cannot guard.")
    gate = DebugGate(socket.AF_INET, socket.SOCK_STREAM)
    open_socket = pydevd.create_server_socket
    vars(pydevd)["create_server_socket"] = lambda host, port: (
        gate
    )  # its one caller is the thread that accepts
    try:
        gate.bind((_HOST, 0))
        _State.port = int(gate.getsockname()[1])
        debugpy.listen((_HOST, _State.port), in_process_debug_adapter=True)  # noqa: T100
        pydevd.get_global_debugger().wait_for_server_socket_ready()
    except Exception as error:
        gate.close()
        _State.port = 0
        raise NoDebugpy(f"debugpy cannot listen: {type(error).__name__}: {error}") from error
    finally:
        vars(pydevd)["create_server_socket"] = open_socket
        sys.breakpointhook = hook
    return _State.port


def stop_at(frame: FrameType, *, now: bool = False) -> None:
    """Wait for an editor, and have it stop at the next line of this frame.

    Args:
        now: The frame stands before a line that was announced to another debugger. From Python 3.12 on debugpy does not
            hear of that line any more, so the stop is here, until the editor lets the task continue.
    """
    import debugpy  # noqa: T100

    debugpy.wait_for_client()  # noqa: T100
    pydevd = sys.modules["pydevd"]
    if not now or sys.version_info < (3, 12):
        pydevd.settrace(
            suspend=True, trace_only_current_thread=True, patch_multiprocessing=False, stop_at_frame=frame
        )
        return
    pydevd.settrace(suspend=False, trace_only_current_thread=True, patch_multiprocessing=False)
    debugger, thread = pydevd.get_global_debugger(), threading.current_thread()
    debugger.set_suspend(thread, pydevd.CMD_SET_BREAK)
    debugger.do_wait_suspend(thread, frame, "line", None)


def stop_at_error(error: BaseException, frame: FrameType) -> None:
    """Wait for an editor, and have it show where an exception came from, until it lets the task continue.

    Args:
        error: the exception, with its traceback.
        frame: the innermost frame of the user's.
    """
    import debugpy  # noqa: T100

    debugpy.wait_for_client()  # noqa: T100
    pydevd = sys.modules["pydevd"]
    thread = threading.current_thread()
    debugger = pydevd.get_global_debugger()
    frames = {id(each): each for each, _ in traceback.walk_tb(error.__traceback__)}
    told = (type(error), error, error.__traceback__)
    info = pydevd.set_additional_thread_info(thread)
    # debugpy must not examine this thread while it stops it (before Python 3.12, and since): it would stop in
    # itself.
    monitoring = sys.modules.get("_pydevd_sys_monitoring.pydevd_sys_monitoring")
    info.is_tracing += 1
    if monitoring is not None:
        monitoring.stop_monitoring(False)
    try:
        debugger.do_stop_on_unhandled_exception(thread, frame, frames, told)
    finally:
        info.is_tracing -= 1
        if monitoring is not None:
            monitoring.start_monitoring(False)


def is_attached() -> bool:
    """Whether an editor is connected."""
    debugpy = sys.modules.get("debugpy")
    return debugpy is not None and bool(debugpy.is_client_connected())


def is_tracer(tracer: object) -> bool:
    """Whether a trace function is debugpy's: it stays when the editor has gone."""
    return "pydevd" in (getattr(tracer, "__module__", None) or type(tracer).__module__)


def launch_configuration(port: int, name: str) -> str:
    """The entry for `.vscode/launch.json` that connects to a paused task."""
    entry = {
        "name": f"sundog: {name}",
        "type": "debugpy",
        "request": "attach",
        "connect": {"host": _HOST, "port": port},
        "justMyCode": False,
    }
    return json.dumps(entry, indent=4)
