"""`progress()`: live bars of the functions that run, in terminals, pipes and notebooks.

::

    with progress(): ──starts──► thread: observe.activity, each half second ──► Screen | LineBars | NotebookBars

Owns the thread and the three ways of showing. On a terminal bars are drawn by rich, on standard error; piped, a line is
written when something changed, at most every few seconds; a notebook gets HTML that is updated in place. What tasks
print goes above the bars. Runs in a driver; waits for the session if there is none yet, and starts none.
"""

from __future__ import annotations

import contextlib
import html
import sys
import threading
import time
from collections.abc import Sequence
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TextIO

from sundog import api
from sundog.observe.activity import Function, Watcher, since
from sundog.observe.words import in_words
from sundog.owner import context
from sundog.printable import printable

if TYPE_CHECKING:
    from typing import Protocol

    from rich.progress import TaskID

    class _Display(Protocol):
        """What IPython gives for something that is displayed."""

        def update(self, page: object) -> None: ...


_INTERVAL_S = 0.5
_LINES_S = 5.0
_SHOWN_MAX = 20
_JOIN_S = 5.0
_SETTLE_LOOKS = 50
_SAME_LOOKS = 2
_SETTLE_S = 0.02
_WIDTH = 24


class Bars(Protocol):
    """A way of showing functions."""

    def show(self, functions: Sequence[Function], *, last: bool) -> None:
        """Show how far they are; `last`: there will be no more."""


class progress:
    """Show a live bar for each function while a with-block runs.

    A bar counts attempts: done, running, waiting and failed, with the rate and the time left. Only what ends within the
    block is counted.

    Args:
        file: Where to; by default standard error.
        interval_s: How often to look.

    Example:
        with sundog.util.progress():
            sundog.get([work.remote(i) for i in range(1000)])
    """

    def __init__(self, file: TextIO | None = None, interval_s: float = _INTERVAL_S) -> None:
        if not interval_s > 0:
            raise ValueError(
                f"progress: interval_s must be a number of seconds above zero, not {interval_s!r}."
            )
        self._file = file
        self._interval_s = interval_s
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._before: dict[str, tuple[int, int]] = {}
        self._watcher: Watcher | None = None

    def __enter__(self) -> progress:
        if self._thread is not None:
            raise RuntimeError(
                "This progress() is in use already; call progress() again for another with-block."
            )
        if api.is_initialized():
            self._begin(whole=False)  # in this thread: what ends before the other thread runs is counted
        self._thread = threading.Thread(target=self._run, name="sundog-progress", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Show the last state and end."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    def _begin(self, *, whole: bool) -> Watcher:
        """Watch the session that this process is in; one that began within the block from its beginning on."""
        self._watcher = Watcher(api.control, str(context.facts.session["path"]), whole=whole)
        if not whole:
            self._before = self._watcher.ended()
        return self._watcher

    def _look(self) -> list[Function]:
        watcher = self._watcher or self._begin(whole=True)
        return since(watcher.functions(), self._before)

    def _run(self) -> None:
        view = choose_view(self._file or sys.stderr)
        latest: Sequence[Function] = ()
        while not self._ended.wait(self._interval_s):
            latest = self._try() or latest
            if latest:
                view.show(latest, last=False)
            if self._watcher is not None and not api.is_initialized():
                break  # the session has ended: what is shown is the last known state
        view.show(self._settled() or latest, last=True)

    def _try(self) -> list[Function]:
        """Look once; nothing happens while there is no session."""
        with contextlib.suppress(Exception):  # the session may end at any moment
            if api.is_initialized():
                return self._look()
        return []

    def _settled(self) -> list[Function]:
        """The last look. A worker records a task a moment after it has sent the result: look until nothing changes."""
        latest, same = self._try(), 0
        for _ in range(_SETTLE_LOOKS):
            if same == _SAME_LOOKS or not latest:
                break
            time.sleep(_SETTLE_S)
            again = self._try()
            same = same + 1 if [each.total for each in again] == [each.total for each in latest] else 0
            latest = again or latest
        return latest


def choose_view(file: TextIO) -> Bars:
    """The way of showing that suits where the program runs."""
    notebook = sys.modules.get("IPython")
    shell = notebook.get_ipython() if notebook is not None else None
    if type(shell).__name__ == "ZMQInteractiveShell":
        return NotebookBars()
    return Screen(file) if file.isatty() else LineBars(file)


def ordered(functions: Sequence[Function]) -> list[Function]:
    """The bars that fit: functions that are not done first, the largest first."""
    found = sorted(functions, key=lambda each: (each.ended == each.total, -each.total, each.name))
    return found[:_SHOWN_MAX]


def in_one_line(each: Function) -> str:
    """How far a function is, in words.

    >>> in_one_line(Function("f", done=3, running=1, waiting=6, rate=2.0, left_s=3.5))
    'f: 3 of 10 done, 1 running, 6 waiting; 2.0/s, 3.5 s left'
    """
    parts = [f"{each.done} of {each.total} done"]
    for count, what in ((each.running, "running"), (each.waiting, "waiting"), (each.failed, "failed")):
        if count:
            parts.append(f"{count} {what}")
    text = f"{printable(each.name)}: {', '.join(parts)}"
    if each.ended < each.total and each.rate > 0:
        text += f"; {each.rate:,.1f}/s"
        text += f", {in_words(each.left_s)} left" if each.left_s is not None else ""
    return text


def in_short(each: Function) -> str:
    """The same for a narrow terminal.

    >>> in_short(Function("f", done=3, running=1, waiting=6, rate=2.0, left_s=3.5))
    '3/10  1 running  2.0/s  3.5 s left'
    """
    parts = [f"{each.done}/{each.total}"]
    if each.running:
        parts.append(f"{each.running} running")
    if each.failed:
        parts.append(f"{each.failed} failed")
    if each.ended < each.total and each.rate > 0:
        parts.append(f"{each.rate:,.1f}/s")
        if each.left_s is not None:
            parts.append(f"{in_words(each.left_s)} left")
    return "  ".join(parts)


class LineBars:
    """For pipes and files: a line when something changed, now and then."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._said: dict[str, tuple[int, int, int, int]] = {}
        self._again_at = time.monotonic() + _LINES_S

    def show(self, functions: Sequence[Function], *, last: bool) -> None:
        """Write what has changed since the last lines."""
        if not last and time.monotonic() < self._again_at:
            return
        self._again_at = time.monotonic() + _LINES_S
        for each in ordered(functions):
            state = (each.done, each.failed, each.running, each.waiting)
            if self._said.get(each.name) != state:
                self._said[each.name] = state
                print(in_one_line(each), file=self._file, flush=True)


class Screen:
    """For terminals: bars that rich draws."""

    def __init__(self, file: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(_WIDTH),
            TextColumn("{task.fields[told]}"),
            console=Console(file=file),
            auto_refresh=False,
        )
        self._bars: dict[str, TaskID] = {}

    def show(self, functions: Sequence[Function], *, last: bool) -> None:
        """Draw."""
        if not self._bars and functions:
            self._progress.start()
        for each in ordered(functions):
            name = printable(each.name)
            told = in_short(each)
            if name not in self._bars:
                self._bars[name] = self._progress.add_task(name, total=each.total, told=told)
            self._progress.update(self._bars[name], completed=each.ended, total=each.total, told=told)
        if self._bars:
            self._progress.refresh()
        if last and self._bars:
            self._progress.stop()


class NotebookBars:
    """For notebooks: HTML that replaces itself."""

    def __init__(self) -> None:
        self._handle: _Display | None = None

    def show(self, functions: Sequence[Function], *, last: bool) -> None:
        """Display, or update what is displayed."""
        display = import_module("IPython.display")
        page = display.HTML(as_html(functions))
        if self._handle is None:
            self._handle = display.display(page, display_id=True)
        else:
            self._handle.update(page)


def as_html(functions: Sequence[Function]) -> str:
    """The bars as HTML: widths and words, no script."""
    rows = []
    for each in ordered(functions):
        name = html.escape(printable(each.name))
        told = html.escape(in_one_line(each).removeprefix(f"{printable(each.name)}: "))
        shares = [
            (count * 100 / max(1, each.total), colour)
            for count, colour in ((each.done, "#2a9d4a"), (each.failed, "#c0392b"), (each.running, "#e0a030"))
        ]
        bars = "".join(
            f'<div style="width:{share:.2f}%;background:{colour};height:100%"></div>'
            for share, colour in shares
        )
        rows.append(
            f'<tr><td style="text-align:left">{name}</td><td><div style="display:flex;width:240px;height:12px;'
            f'background:#ddd">{bars}</div></td><td style="text-align:left">{told}</td></tr>'
        )
    return f"<table>{''.join(rows)}</table>"
