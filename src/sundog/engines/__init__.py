"""Where a program runs: one small protocol, one implementation per kind of place.

`local` is sundog's own runtime. `current()` is the engine of this process: the driver's after `init()`,
the worker's own inside a task.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sundog.engines.local import LocalEngine

_current: LocalEngine | None = None
_make: Callable[[], LocalEngine] | None = None
_making = threading.RLock()
_leaving: list[Callable[[], None]] = []


def when_leaving(do: Callable[[], None]) -> None:
    """Call `do` once when this process leaves its session: for applications that keep threads beside the runtime's."""
    _leaving.append(do)


def leave() -> None:
    """The session is about to be left: have those told who asked for it."""
    while _leaving:
        _leaving.pop()()


def _look() -> LocalEngine | None:
    if _current is None and _make is not None:
        with _making:  # threads of an actor may ask for the first time together
            if _current is None and _make is not None:
                plug(_make())
    return _current


current: Callable[[], LocalEngine | None] = _look
"""The engine that this process uses now, if any."""


def when_main_thread_comes(do: Callable[[], None]) -> None:
    """Call `do` on the main thread: now, or at the beginning of its next call of the API."""
    global current
    if threading.current_thread() is threading.main_thread():
        do()
        return

    def look_first() -> LocalEngine | None:
        global current
        if threading.current_thread() is threading.main_thread():
            current = _look
            do()
        return _look()

    current = look_first


def plug(engine: LocalEngine | None) -> None:
    """Make `engine` the one that this process uses."""
    global _current, _make
    _current, _make = engine, None


def plug_later(make: Callable[[], LocalEngine]) -> None:
    """Make an engine when one is first asked for: most tasks never call the API, and importing it takes time."""
    global _current, _make
    _current, _make = None, make


# Called with each engine of a driver: when it has begun, and before it ends (in the thread that ends it).
after_begin: list[Callable[[LocalEngine], None]] = []
before_end: list[Callable[[LocalEngine], None]] = []
