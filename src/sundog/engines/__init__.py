"""Where a program runs: one small protocol, one implementation per kind of place.

`local` is sundog's own runtime. `current()` is the engine of this process: the driver's after `init()`,
the worker's own inside a task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sundog.engines.local import LocalEngine

_current: LocalEngine | None = None
_make: Callable[[], LocalEngine] | None = None


def current() -> LocalEngine | None:
    """The engine that this process uses now, if any."""
    if _current is None and _make is not None:
        plug(_make())
    return _current


def plug(engine: LocalEngine | None) -> None:
    """Make `engine` the one that this process uses."""
    global _current, _make
    _current, _make = engine, None


def plug_later(make: Callable[[], LocalEngine]) -> None:
    """Make an engine when one is first asked for: most tasks never call the API, and importing it takes time."""
    global _current, _make
    _current, _make = None, make
