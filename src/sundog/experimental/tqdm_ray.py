"""Progress bars that tasks and actors advance and the driver draws.

```
 worker: tqdm.update() ──state as one JSON line on stdout──► log stream ──► driver: show_line()
 driver: tqdm.update() ───────────────────────────────────────────────────► Board ──► the tqdm package
```

A worker has no terminal, so its bar only describes itself, at most once per `flush_interval_s`. In
the driver one `Board` owns every bar on screen, behind a lock: the user's thread and the one that
receives log lines both write to it. The tqdm package is needed in the driver only, and optional.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import json
import logging
import os
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import sundog
from sundog.plain import JsonObject
from sundog.util.addresses import get_node_ip_address
from sundog.util.debug import log_once

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Drawn(Protocol):
        """A bar of the package tqdm, as far as it is used here."""

        n: float
        pos: int
        total: float | None

        def set_description(self, desc: str, *, refresh: bool) -> None: ...

        def refresh(self) -> object: ...

        def clear(self) -> None: ...

        def close(self) -> None: ...


logger = logging.getLogger(__name__)

# What marks a line on a worker's stdout as the state of a bar.
RAY_TQDM_MAGIC = "__ray_tqdm_magic_token__"

State = JsonObject


def _in_worker() -> bool:
    if not sundog.is_initialized():
        return False
    context = sundog.get_runtime_context()
    return context.get_task_id() is not None or context.get_actor_id() is not None


class tqdm:
    """A progress bar that works in drivers, tasks and actors, with the basics of the tqdm package.

    Args:
        iterable: What to iterate over; each item advances the bar by one.
        desc: Text before the bar.
        total: The end; by default the length of `iterable`, if it has one.
        unit: What is counted; "it" by default.
        position: Line among the bars of this process, 0 first.
        flush_interval_s: Seconds between two updates of the display; 1 by default.

    Example:
        >>> for item in tqdm(range(100), desc="resize"):  # doctest: +SKIP
        ...     ...
    """

    DEFAULT_FLUSH_INTERVAL_SECONDS = 1.0

    def __init__(
        self,
        iterable: Iterable[object] | None = None,
        desc: str | None = None,
        total: int | None = None,
        unit: str | None = None,
        position: int | None = None,
        flush_interval_s: float | None = None,
    ) -> None:
        if total is None and iterable is not None:
            try:
                total = len(iterable)  # type: ignore[arg-type]  # asked, not assumed
            except (TypeError, AttributeError):
                total = None
        self.total = total
        self.n = 0
        self._iterable = iterable
        self._desc = desc or ""
        self._unit = unit or "it"
        self._position = position or 0
        self._interval_s = (
            self.DEFAULT_FLUSH_INTERVAL_SECONDS if flush_interval_s is None else flush_interval_s
        )
        self._uuid = uuid.uuid4().hex
        self._flushed_s = float("-inf")
        self._closed = False
        self._ip = get_node_ip_address()

    def set_description(self, desc: str) -> None:
        """Change the text before the bar."""
        self._desc = desc
        self._flush()

    def update(self, n: int = 1) -> None:
        """Advance by `n`."""
        self.n += n
        self._flush()

    def refresh(self) -> None:
        """Show the state now, if the last time is long enough ago."""
        self._flush()

    def close(self) -> None:
        """Show the last state and release the line. Closing twice is no error."""
        if not self._closed:
            self._closed = True
            self._flush(force=True)

    def __iter__(self) -> Iterator[Any]:
        if self._iterable is None:
            raise ValueError("This tqdm was made without an iterable; call update() instead.")
        try:
            for item in self._iterable:
                # Counted before it is worked on, so that a bar seen from outside never lags behind.
                self.update(1)
                yield item
        finally:
            self.close()

    def __enter__(self) -> tqdm:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _flush(self, force: bool = False) -> None:
        now_s = time.monotonic()
        if not force and now_s - self._flushed_s < self._interval_s:
            return
        self._flushed_s = now_s
        if _in_worker():
            # One write: a line that is cut in two would be shown as text.
            sys.stdout.write(json.dumps(self._state()) + "\n")
            sys.stdout.flush()
        else:
            instance().process_state_update(self._state())

    def _state(self) -> State:
        return {
            "__magic_token__": RAY_TQDM_MAGIC,
            "x": self.n,
            "pos": self._position,
            "desc": self._desc,
            "total": self.total,
            "unit": self._unit,
            "ip": self._ip,
            "pid": os.getpid(),
            "uuid": self._uuid,
            "closed": self._closed,
        }


@functools.cache
def _drawing_class() -> Callable[..., Drawn]:
    drawn = importlib.import_module("tqdm.auto").tqdm
    # Without tqdm's watching thread, which outlives the last bar: states come at regular intervals.
    return type("tqdm", (drawn,), {"monitor_interval": 0})


class BarBoard:
    """The bars on this process's screen, at most one line each, grouped by process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._bars: dict[str, tuple[State, Drawn]] = {}
        # Processes in the order they appeared: bars of one process stay together.
        self._processes: dict[tuple[str, int], int] = {}
        self._print: Callable[..., None] | None = None

    def process_state_update(self, state: State) -> None:
        """Show the state of a bar: a new one, a changed one, or one that is closed."""
        try:
            draw = _drawing_class()
        except ImportError:
            if log_once("tqdm_ray.no_tqdm"):
                logger.warning("Progress bars are not shown: the tqdm package is missing (pip install tqdm).")
            return
        with self._lock:
            key = state["uuid"]
            if key in self._bars:
                self._change(key, state)
            elif not state["closed"] or state["x"]:
                self._open(draw, state)
            if state["closed"] and key in self._bars:
                self._close(key)

    def _title(self, state: State) -> str:
        if state["pid"] == os.getpid():
            return str(state["desc"])
        where = "" if state["ip"] == get_node_ip_address() else f", ip={state['ip']}"
        return f"(pid={state['pid']}{where}) {state['desc']}"

    def _open(self, draw: Callable[..., Drawn], state: State) -> None:
        if not self._bars:
            self._wrap_print()
        self._processes.setdefault((state["ip"], state["pid"]), len(self._processes))
        bar = draw(
            desc=self._title(state),
            total=state["total"],
            unit=state["unit"],
            initial=0,
            position=len(self._bars),
            dynamic_ncols=True,
            unit_scale=True,
        )
        self._bars[state["uuid"]] = (state, bar)
        self._advance(bar, state["x"])
        self._arrange()

    def _change(self, key: str, state: State) -> None:
        before, bar = self._bars[key]
        self._bars[key] = (state, bar)
        if state["desc"] != before["desc"]:
            bar.set_description(self._title(state), refresh=False)
        bar.total = state["total"]
        self._advance(bar, state["x"] - before["x"])

    @staticmethod
    def _advance(bar: Drawn, count: float) -> None:
        # Not bar.update(), which may draw nothing: states arrive rarely enough to draw each.
        bar.n += count
        bar.refresh()

    def _close(self, key: str) -> None:
        _, bar = self._bars.pop(key)
        bar.close()
        self._arrange()
        if not self._bars:
            self._processes.clear()
            self._unwrap_print()

    def _arrange(self) -> None:
        """Give every bar its line again: by process, then by the position it asked for."""
        rows = sorted(
            self._bars.values(),
            key=lambda row: (self._processes[row[0]["ip"], row[0]["pid"]], row[0]["pos"]),
        )
        for line, (_, bar) in enumerate(rows):
            if abs(bar.pos) != line:
                bar.clear()
                # tqdm keeps the line of a bar that is to be cleared at its end as a negative number.
                bar.pos = -line
        for _, bar in rows:
            bar.refresh()

    def hide_bars(self) -> None:
        """Take the bars off the screen, so that text can be written."""
        with self._lock:
            for _, bar in self._bars.values():
                bar.clear()

    def unhide_bars(self) -> None:
        """Draw the bars again below the text."""
        with self._lock:
            for _, bar in self._bars.values():
                bar.refresh()

    def _wrap_print(self) -> None:
        # Only while bars are on screen: a print in the driver would land in the middle of one.
        if builtins.print is not safe_print:
            self._print = builtins.print
            builtins.print = safe_print

    def _unwrap_print(self) -> None:
        if builtins.print is safe_print and self._print is not None:
            builtins.print = self._print
        self._print = None

    def write(self, *args: object, **kwargs: Any) -> None:
        """`print`, with the bars out of the way."""
        with self._lock:
            original = self._print or _original_print
            if kwargs.get("file") not in (None, sys.stdout, sys.stderr):
                original(*args, **kwargs)
                return
            self.hide_bars()
            try:
                original(*args, **kwargs)
            finally:
                self.unhide_bars()


_original_print = builtins.print
_board = BarBoard()


def instance() -> BarBoard:
    """Give the board of this process."""
    return _board


def safe_print(*args: object, **kwargs: object) -> None:
    """`print` that does not tear the bars on screen."""
    _board.write(*args, **kwargs)


def show_line(line: str) -> bool:
    """Draw a line of a worker's output if it is the state of a bar.

    Returns:
        True when it was one and must not be printed as text.
    """
    if RAY_TQDM_MAGIC not in line:
        return False
    try:
        state = json.loads(line)
    except ValueError:
        return False
    if not isinstance(state, dict) or state.get("__magic_token__") != RAY_TQDM_MAGIC:
        return False
    _board.process_state_update(state)
    return True
