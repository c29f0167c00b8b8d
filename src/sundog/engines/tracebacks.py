"""Tracebacks that a program ends with: the user's frames, and what went wrong, without sundog's own frames between.

Owns the driver's `sys.excepthook`, unless the program has one of its own or wants `full_tracebacks`; in IPython and in
notebooks, which do not ask that hook, the shell's handler of errors, on the same terms. Folded are errors
that sundog raised on purpose: what came back from a task (`RayError`), and refusals of what the user passed. Anything
else that was raised inside sundog is a defect of ours, and keeps all of its frames. pytest folds the same frames by
`__tracebackhide__` in the public modules. Imported when a program ends with an error. Runs in a driver, on the thread
that ends.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Protocol

from sundog import config
from sundog.exception_transport import hint_at_copy
from sundog.exceptions import RayError

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_PYTHONS = os.path.dirname(os.path.abspath(linecache.__file__)) + os.sep
_INSTALLED = (_PYTHONS + "site-packages", _PYTHONS + "dist-packages")
_CHAIN_MAX = 100


def after_failed_start(system_config: Mapping[str, object] | None) -> None:
    """`init()` is about to raise, before there is a session: have its error shown like those that come later."""
    try:
        wants_all = config.load(system_config).full_tracebacks
    except (TypeError, ValueError):
        wants_all = False  # a bad setting is what `init()` raises for
    if wants_all:
        return
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = show
    if "IPython" in sys.modules:
        show_in_ipython()


def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an uncaught error, as the interpreter does, with our frames folded."""
    try:
        hint_at_copy(error)
        fold(error)
        trace = error.__traceback__
    except Exception:
        pass  # the error itself must be shown, even if folding its traceback fails
    sys.__excepthook__(kind, error, trace)


class Shell(Protocol):
    """What is used of IPython's shell."""

    custom_exceptions: tuple[type[BaseException], ...]

    def set_custom_exc(
        self, kinds: tuple[type[BaseException], ...], handler: Callable[..., None]
    ) -> None: ...

    def showtraceback(
        self,
        exc_tuple: tuple[type[BaseException], BaseException, TracebackType | None],
        *,
        tb_offset: int | None,
        running_compiled_code: bool,
    ) -> None: ...


def show_in_ipython() -> None:
    """The shell that runs this program, if IPython is more than imported."""
    shell = getattr(sys.modules["IPython"], "get_ipython", lambda: None)()
    if shell is not None:
        show_in(shell)


def show_in(shell: Shell) -> None:
    """Have an IPython shell show errors with our frames folded, unless it has a handler already."""
    if shell.custom_exceptions:
        return

    def shown(
        shell: Shell,
        kind: type[BaseException],
        error: BaseException,
        trace: TracebackType | None,
        tb_offset: int | None = None,
    ) -> None:
        try:
            hint_at_copy(error)
            fold(error)
            trace = error.__traceback__
        except Exception:
            pass  # as above
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset, running_compiled_code=True)

    shell.set_custom_exc((Exception,), shown)


def fold(error: BaseException) -> None:
    """Take our frames out of the tracebacks of an error and of those before it in the chain."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting and len(seen) < _CHAIN_MAX:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        if current.__traceback__ is not None:
            current.__traceback__ = _folded(current, current.__traceback__)
        waiting += [current.__cause__, current.__context__]


def _folded(error: BaseException, trace: TracebackType) -> TracebackType:
    steps = []
    step: TracebackType | None = trace
    while step is not None:
        steps.append(step)
        step = step.tb_next
    if not isinstance(error, RayError) and not _is_refusal(steps[-1]):
        return trace
    kept: TracebackType | None = None
    first = next((index for index, step in enumerate(steps) if _is_ours(step)), len(steps))
    last = max((index for index, step in enumerate(steps) if _is_ours(step)), default=0)
    for index, step in reversed(list(enumerate(steps))):
        if not _is_ours(step) and not (first < index < last and _is_pythons(step)):
            kept = TracebackType(kept, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return kept or trace


def _is_ours(step: TracebackType) -> bool:
    return step.tb_frame.f_code.co_filename.startswith(_OURS)


def _is_pythons(step: TracebackType) -> bool:
    """Whether a frame is the standard library's: between two of ours it tells the user nothing."""
    name = step.tb_frame.f_code.co_filename
    return name.startswith(_PYTHONS) and not name.startswith(_INSTALLED)


def _is_refusal(step: TracebackType) -> bool:
    """Whether an error was raised by a statement of ours that says so."""
    if not _is_ours(step):
        return False
    return linecache.getline(step.tb_frame.f_code.co_filename, step.tb_lineno).lstrip().startswith("raise ")
