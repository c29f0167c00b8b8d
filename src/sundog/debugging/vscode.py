"""debugpy in a worker, for VS Code and other editors that speak its protocol.

Owns the one port of this process: on 127.0.0.1, opened at the first request for it, served by a thread of this process
(no adapter process is left behind). debugpy is an extra (`pip install 'sundog[debug]'`). A client of this port can run
code here, so a connection of another user is closed before a byte is read from it. Runs in a worker, in the thread of
the task.
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
# Threads of a worker that run no code of the user's ("sundog-default_0" and "sundog-default-loop" do).
OWN_THREADS = frozenset(
    f"sundog-{name}"
    for name in (
        "collect",
        "debug",
        "flush",
        "futures",
        "profile",
        "profile-switch",
        "reader",
        "sampler",
    )
)


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
    gate.settimeout(None)  # the program may have called socket.setdefaulttimeout()
    open_socket = pydevd.create_server_socket
    vars(pydevd)["create_server_socket"] = lambda host, port: (
        gate
    )  # its one caller is the thread that accepts
    try:
        gate.bind((_HOST, 0))
        _State.port = int(gate.getsockname()[1])
        spare_own_threads()
        debugpy.listen((_HOST, _State.port), in_process_debug_adapter=True)  # noqa: T100
        pydevd.get_global_debugger().wait_for_server_socket_ready()
        # Else each use of sys.settrace by pdb would be a warning in the user's terminal. debugpy does without.
        sys.modules["pydevd_tracing"].restore_sys_set_trace_func()
    except Exception as error:
        gate.close()
        _State.port = 0
        raise NoDebugpy(f"debugpy cannot listen: {type(error).__name__}: {error}") from error
    finally:
        vars(pydevd)["create_server_socket"] = open_socket
        sys.breakpointhook = hook
    return _State.port


def spare_own_threads() -> None:
    """Keep debugpy from sundog's own threads: a stop in the user's code stops all threads that it traces.

    Without the reader thread the worker answers no other process, and a `get` in the editor's console waits for ever.
    """
    for thread in threading.enumerate():
        if thread.name in OWN_THREADS:
            vars(thread)["pydev_do_not_trace"] = True


def wait_for_editor() -> None:
    """Wait until an editor is attached."""
    import debugpy  # noqa: T100

    is_attached()  # an editor that has vanished does not count
    debugpy.wait_for_client()  # noqa: T100
    if sys.version_info < (3, 12) and threading.gettrace() is None:
        threading.settrace(sys.modules["pydevd"].get_global_debugger().trace_dispatch)


def stop_at(frame: FrameType, *, now: bool = False) -> None:
    """Have the attached editor stop at the next line of this frame.

    Args:
        now: The frame stands before a line that was announced to another debugger. From Python 3.12 on debugpy does not
            hear of that line any more, so the stop is here, until the editor lets the task continue.
    """
    pydevd = sys.modules["pydevd"]
    spare_own_threads()
    if not now or sys.version_info < (3, 12):
        pydevd.settrace(
            suspend=True, trace_only_current_thread=True, patch_multiprocessing=False, stop_at_frame=frame
        )
        let_go()
        return
    pydevd.settrace(suspend=False, trace_only_current_thread=True, patch_multiprocessing=False)
    debugger, thread = pydevd.get_global_debugger(), threading.current_thread()
    debugger.set_suspend(thread, pydevd.CMD_SET_BREAK)
    let_go()
    debugger.do_wait_suspend(thread, frame, "line", None)


def stop_at_error(error: BaseException, frame: FrameType) -> None:
    """Have the attached editor show where an exception came from, until it lets the task continue.

    Args:
        error: the exception, with its traceback.
        frame: the innermost frame of the user's.
    """
    pydevd = sys.modules["pydevd"]
    spare_own_threads()
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
    if debugpy is None or not debugpy.is_client_connected():
        return False
    pydevd = sys.modules["pydevd"]
    debugger = pydevd.get_global_debugger()
    if debugger.reader is None or debugger.reader.is_alive():
        return True
    # The editor was killed: debugpy would wait for its farewell for ever.
    pydevd.PyDevdAPI().request_disconnect(debugger, resume_threads=True)
    return False


def let_go() -> None:
    """Have the tasks that debugpy has stopped, or is about to stop, go on if no editor is attached any more."""
    if not is_attached():
        sys.modules["pydevd"].PyDevdAPI().request_resume_thread("*")


def release_thread() -> None:
    """Before Python 3.12: trace this thread no more if no editor is attached. Traced code takes nine times as long."""
    if sys.version_info < (3, 12) and is_tracer(sys.gettrace()) and not is_attached():
        sys.settrace(None)


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
