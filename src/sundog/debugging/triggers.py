"""Breakpoints that were set from outside: a line with a condition, an exception, an attempt.

Owns how a running process is watched for them: `sys.monitoring` from Python 3.12 on (a line that is no breakpoint is
reported once and never again), `sys.settrace` before. Nothing is installed while none is set. A condition is an
expression over the names of the frame; one that raises counts as false, and is told of once. Refuses to stop in
sundog itself and in the standard library. Runs in a worker, in whichever thread meets the line.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from sundog import notices
from sundog.owner import context
from sundog.wire.pauses import Trigger

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
# What was typed: at a prompt, in a cell of IPython. Other such names are of code that Python makes ("<string>": the
# methods of dataclasses and named tuples, and what follows `python -c`).
_TYPED = ("<stdin>", "<ipython-input-")
_CELL = re.compile(r"In ?\[(\d+)\]")
_KERNEL = re.compile(
    r".*/ipykernel_\d+/\d+\.py"
)  # the names that Jupyter's kernel gives to its cells; no such files
_TOOL = 4  # one of sys.monitoring's six tool ids; 0, 1, 2 and 5 have names of their own

# Called at a hit, in the thread that met it; returns what traces the frame from now on, or None.
Stop = Callable[[FrameType, str], object]


class TriggerWatch:
    """The triggers of this process."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._triggers: tuple[Trigger, ...] = ()
        self._told: set[int] = set()
        self._paths: dict[str, tuple[Trigger, ...]] = {}  # co_filename -> what may hit there
        self._is_monitoring = False

    # ------------------------------------------------------------------ arming
    @property
    def is_set(self) -> bool:
        """Whether there is something to watch for."""
        return bool(self._triggers)

    def set(self, triggers: tuple[Trigger, ...]) -> None:
        """Watch for these from now on, and for no others."""
        self._triggers = triggers
        self._paths = {}
        if sys.version_info >= (3, 12):
            self._monitor(bool(triggers))
        else:
            threading.settrace(self.trace if triggers else None)

    def arm_thread(self, frame: FrameType | None) -> None:
        """Before Python 3.12: trace this thread, which stands in this frame; or stop tracing it."""
        if sys.version_info >= (3, 12):
            return
        current = sys.gettrace()
        if current is not None and current != self.trace:
            return  # a debugger is active here
        sys.settrace(self.trace if self._triggers else None)
        while frame is not None and self._triggers:
            if frame.f_trace is None and self._at(frame.f_code):
                frame.f_trace = self.trace
            frame = frame.f_back

    def _monitor(self, wanted: bool) -> None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        if not wanted:
            if self._is_monitoring:
                monitoring.set_events(_TOOL, 0)
                monitoring.free_tool_id(_TOOL)
                self._is_monitoring = False
            return
        if not self._is_monitoring:
            monitoring.use_tool_id(_TOOL, "sundog break")
            monitoring.register_callback(_TOOL, monitoring.events.LINE, self._on_line)
            monitoring.register_callback(_TOOL, monitoring.events.RAISE, self._on_raise)
            self._is_monitoring = True
        events = monitoring.events.LINE if any(each.line for each in self._triggers) else 0
        if any(each.exception for each in self._triggers):
            events |= monitoring.events.RAISE
        monitoring.set_events(_TOOL, events)
        monitoring.restart_events()  # lines that were no breakpoint before may be one now

    # ------------------------------------------------------------------ Python 3.12 and later
    def _on_line(self, code: CodeType, line: int) -> object:
        if not any(each.line == line for each in self._at(code)):
            return sys.monitoring.DISABLE  # type: ignore[attr-defined]
        self._met(sys._getframe(1), line, None)
        return None

    def _on_raise(self, code: CodeType, _offset: int, error: BaseException) -> None:
        if self._at(code):
            self._met(sys._getframe(1), 0, error)

    # ------------------------------------------------------------------ before
    def trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        """What `sys.settrace` calls."""
        if event == "call":
            if not self._triggers:
                sys.settrace(None)
                return None
            return self.trace if self._at(frame.f_code) else None
        if event == "line":
            return self._met(frame, frame.f_lineno, None) or self.trace
        if event == "exception":
            return self._met(frame, 0, arg[1]) or self.trace
        return self.trace

    # ------------------------------------------------------------------ hits
    def _at(self, code: CodeType) -> tuple[Trigger, ...]:
        """What may hit in a file."""
        path = code.co_filename
        found = self._paths.get(path)
        if found is None:
            found = (
                () if is_library(path) else tuple(each for each in self._triggers if fits(each.path, path))
            )
            self._paths[path] = found
        return found

    def _met(self, frame: FrameType, line: int, error: BaseException | None) -> object:
        """A line is about to run, or an exception passes; stop if a trigger says so."""
        for trigger in self._at(frame.f_code):
            if error is None and (not trigger.line or trigger.line != line or trigger.exception):
                continue
            if error is not None and not is_called(error, trigger.exception):
                continue
            if error is not None and trigger.line and trigger.line != frame.f_lineno:
                continue
            if error is not None and getattr(error, "_sundog_stopped", None) == trigger.number:
                continue  # the exception passes through one frame after the other
            running = context.current()
            if running is None or (trigger.attempt and running.attempt + 1 != trigger.attempt):
                continue
            if trigger.when and not self._holds(trigger, frame):
                continue
            if error is not None:
                _mark(error, trigger.number)
            why = (
                f"{type(error).__name__}: {error}" if error is not None else f"sundog break {trigger.text()}"
            )
            return self._stop(frame, why)
        return None

    def _holds(self, trigger: Trigger, frame: FrameType) -> bool:
        try:
            return bool(eval(trigger.when, frame.f_globals, frame.f_locals))
        except Exception as error:
            if trigger.number not in self._told:
                self._told.add(trigger.number)
                notices.warn(
                    f"The condition of breakpoint {trigger.number} ({trigger.when}) raised {type(error).__name__}: "
                    f"{error}. The condition counts as false. Remove the breakpoint with: "
                    f"sundog break --clear {trigger.number}"
                )
            return False


def fits(wanted: str, path: str) -> bool:
    """Whether a file is the one that was named: by its whole path or the end of it, or by its number in IPython.

    >>> fits("jobs/f.py", "/home/me/jobs/f.py"), fits("f.py", "/home/me/of.py"), fits("", "/x.py")
    (True, False, True)
    >>> fits("In[6]", "<ipython-input-6-066dca5cfbf4>"), fits("In[6]", "<ipython-input-61-066dca5cfbf4>")
    (True, False)
    """
    if not wanted or path == wanted:
        return True
    cell = _CELL.fullmatch(wanted)
    if cell is not None:
        return path.startswith(f"<ipython-input-{cell[1]}-")
    if os.path.isabs(wanted):
        return os.path.realpath(path) == os.path.realpath(wanted)
    return path.endswith(os.sep + wanted.removeprefix(f".{os.sep}"))


def is_cell(path: str) -> bool:
    """Whether a path is of code that was typed in IPython or in a notebook, which is in no file.

    >>> [is_cell(each) for each in ("In[6]", "<ipython-input-6-066dca>", "/tmp/ipykernel_71/2204.py", "f.py")]
    [True, True, True, False]
    """
    return path.startswith(_TYPED) or bool(_CELL.fullmatch(path) or _KERNEL.fullmatch(path))


def is_called(error: BaseException, name: str) -> bool:
    """Whether an exception is of a class of this name, with or without its module.

    >>> is_called(KeyError(1), "LookupError"), is_called(KeyError(1), "builtins.KeyError"), is_called(KeyError(1), "")
    (True, True, False)
    """
    return any(
        name in (each.__name__, f"{each.__module__}.{each.__qualname__}") for each in type(error).__mro__
    )


def is_library(path: str) -> bool:
    """Whether a file is not the user's: of sundog, of Python or of an installed package."""
    if path.startswith("<"):
        return not path.startswith(_TYPED)
    if path.startswith(_PACKAGE):
        return True
    return path.startswith(_LIBRARY) or f"{os.sep}site-packages{os.sep}" in path


def _mark(error: BaseException, number: int) -> None:
    try:
        error._sundog_stopped = number  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        return  # a class with slots: it may be met twice
