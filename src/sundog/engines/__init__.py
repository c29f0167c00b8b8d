"""Where a program runs: one small protocol, one implementation per kind of place.

`local` is sundog's own runtime. `current()` is the engine of this process: the driver's after `init()`,
the worker's own inside a task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sundog.engines.local import LocalEngine

_current: LocalEngine | None = None


def current() -> LocalEngine | None:
    """The engine that this process uses now, if any."""
    return _current


def plug(engine: LocalEngine | None) -> None:
    """Make `engine` the one that this process uses."""
    global _current
    _current = engine
