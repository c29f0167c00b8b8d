"""Where the main thread is when a signal comes, and whether a handler of the program may run there.

Owns the list of our own code: what must not be interrupted, what calls the user's functions, and what a worker rests
in. Looks at frames and changes nothing. Called by `interrupts` on the main thread, only when there is a signal.

::

    user's code ─► verb ─► … ─► signal           the verb is to end first
    user's code ─► signal                        now
    worker's loop ─► executor ─► user's code     now; an exception fails the task
    worker's loop ─► … ─► signal                 what the loop has called is to end first; then there is no code of the
                                                 user's to raise anything in
"""

from __future__ import annotations

import os
from types import CodeType, FrameType

from sundog.owner import context

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# These packages use the public API, as the user's code does.
# At a debugger's prompt the user's code runs too, and a task that stands there can be cancelled.
_APPLICATIONS = ("util/", "experimental/", "cli/", "compat/", "observe/", "debugging/")
# Functions of these that are one step nevertheless: they wait only in a verb, where handlers run.
_STEPS = (
    ("util/queue.py", "_called"),
    ("debugging/desk.py", "stop"),
    ("debugging/desk.py", "go_on"),
    ("debugging/desk.py", "_close"),
)
# Functions in which a task waits for an editor: it can be cancelled there, as at a prompt.
_STANDS = tuple(
    ("worker/breakpoints.py", name)
    for name in (
        "_hook",
        "stop",
        "post_mortem",
        "_hand_to_editor",
        "error_in_editor",
        "stop_in_editor",
        "_await_editor",
    )
)
_GUARD = ("owner/interrupts.py", "owner/moments.py")
_RUNS_HANDLERS = "_run"
_PATCHES = ("install", "uninstall", "_signal", "_getsignal")
# Functions that call the user's code. Once such a function sets the variable named here, the user's code has
# returned, and the function counts and sends the results of the task.
_CALLERS: dict[tuple[str, str], str] = {
    ("worker/executor.py", "run"): "end",
    ("worker/executor.py", "_run_any"): "end",
    ("worker/executor.py", "<lambda>"): "",
    ("worker/results.py", "split"): "",
    ("worker/results.py", "only_item"): "",
    ("worker/results.py", "_pack_each"): "",
    ("worker/results.py", "_stream"): "",
    ("worker/results.py", "_close"): "",
    ("worker/actor_life.py", "_instance"): "",
    ("worker/async_start.py", "_make"): "",
    ("worker/inline.py", "_call"): "",
    ("worker/async_actor.py", "_one"): "meta",
    ("worker/async_actor.py", "_stream"): "",
    ("worker/async_actor.py", "_as_async"): "",
    ("worker/inspection.py", "kept_run"): "",
    ("worker/inspection.py", "profiled_run"): "",
    ("worker/inspection.py", "_awaited"): "",
    ("worker/inspection.py", "_iterated"): "",
    ("worker/inspection.py", "_awaited_items"): "",
    ("worker/profiles.py", "call"): "",
    ("worker/profiles.py", "_awaited"): "",
}
# Functions of a worker that run as long as the process.
_LOOPS = (
    ("worker/serving.py", "run"),
    ("worker/async_actor.py", "run"),
    ("worker/actor_life.py", "run"),
    ("worker/process.py", "run"),
    ("worker/process.py", "_serve"),
)
_FINALISERS = ("__del__", "_view_died", "_function_died")
_FUTURES = "concurrent/futures/_base.py"
_NEVER = 1 << 30
_ends: dict[CodeType, int] = {}


def find(frame: FrameType | None) -> tuple[FrameType | None, bool]:
    """What has to end before a handler may run, seen from the frame that a signal interrupted.

    Returns:
        The outermost frame of ours that is in the middle of something; None if a handler may run now. And whether
        no code of the user's is interrupted, so that an exception of the handler has nowhere to go.
    """
    ours = None
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(_PACKAGE):
            part = code.co_filename[len(_PACKAGE) :]
            place = part, code.co_name
            if part in _GUARD:
                if code.co_name == _RUNS_HANDLERS:
                    return ours, False  # the frame belongs to a handler that runs now
                if code.co_name in _PATCHES:
                    ours = frame
            elif place in _CALLERS:
                if context.current_id() is None or frame.f_lasti >= _end_of_call(code, _CALLERS[place]):
                    return frame, True
                return ours, False
            elif place in _LOOPS:
                return ours, True
            elif place in _STEPS or not (part.startswith(_APPLICATIONS) or place in _STANDS):
                ours = frame
        elif is_finaliser(frame) or _is_of_future(frame):
            ours = frame
        frame = frame.f_back
    return ours, False


def calls_users(code: CodeType) -> bool:
    """Whether code of sundog is a function that calls the user's code in a worker."""
    path = code.co_filename
    return path.startswith(_PACKAGE) and (path[len(_PACKAGE) :], code.co_name) in _CALLERS


def _is_of_future(frame: FrameType) -> bool:
    """Whether a frame is a method of one of our futures (`futures`), which has its lock, or is about to."""
    if not frame.f_code.co_filename.endswith(_FUTURES):
        return False
    return type(frame.f_locals.get("self")).__module__ == "sundog.owner.futures"


def is_finaliser(frame: FrameType) -> bool:
    """Whether an exception in a frame is lost, in user code as in sundog's: Python calls the frame when an
    object dies.
    """
    return frame.f_code.co_name in _FINALISERS


def _end_of_call(code: CodeType, variable: str) -> int:
    """The first instruction of a function that sets a variable."""
    if not variable:
        return _NEVER
    found = _ends.get(code)
    if found is None:
        import dis  # slow to import, and most programs have no handlers

        found = _NEVER
        for step in dis.get_instructions(code):
            # In newer Pythons one instruction may store one variable and load another.
            if step.opname.startswith("STORE_FAST"):
                stored = step.argval[0] if type(step.argval) is tuple else step.argval
                if stored == variable or (step.opname == "STORE_FAST_STORE_FAST" and variable in step.argval):
                    found = step.offset
                    break
        _ends[code] = found
    return found
