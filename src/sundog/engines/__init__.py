"""Where a program runs: one small protocol, one implementation per kind of place.

`local` is sundog's own runtime. `current()` is the engine of this process: the driver's after `init()`,
the worker's own inside a task. A program on another system (`ray_engine`) has none of these: there `current()` is None,
and a caller that gets None asks `elsewhere()`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from sundog import config

if TYPE_CHECKING:
    from sundog.engines.foreign import ForeignEngine
    from sundog.engines.local import LocalEngine

_current: LocalEngine | None = None
_make: Callable[[], LocalEngine] | None = None
_making = threading.RLock()
_leaving: list[Callable[[], None]] = []
foreign: ForeignEngine | None = None
"""The engine of a process that works on another system."""

LOCAL, RAY = "local", "ray"
_HOMES = {RAY: "sundog.ray_engine"}  # modules that implement an engine, loaded on demand


def when_leaving(do: Callable[[], None]) -> None:
    """Call `do` once when this process leaves its session: for applications that keep threads beside the runtime's."""
    _leaving.append(do)


def leave() -> None:
    """The session is about to be left: tell the functions that asked for it."""
    while _leaving:
        _leaving.pop()()


def _look() -> LocalEngine | None:
    if _current is None and _make is not None:
        with _making:  # several threads of an actor may ask for the engine at the same time
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


def chosen(engine: str | None, address: str | None) -> str:
    """Which engine a call of `init()` means: its own word, its address, or the setting.

    Raises:
        ValueError: there is no such engine, or its word and its address name two.
    """
    by_address = RAY if str(address or "").startswith("ray://") else None
    word = engine or by_address or config.engine_asked()
    if word not in (LOCAL, RAY):
        raise ValueError(f"There is no engine {word!r}: 'local' is this machine, 'ray' is a Ray cluster.")
    if by_address and word != by_address:
        raise ValueError(f"address={address!r} is the address of a Ray cluster: leave out engine={word!r}.")
    return word


def elsewhere(*, start: bool = False) -> ForeignEngine | None:
    """The engine of a process that works on another system; `start` lets one begin that the setting names."""
    if foreign is None and config.engine_asked() == RAY:
        found: ForeignEngine | None = import_module(_HOMES[RAY]).attach_or_start(start)
        return found
    return foreign


def init_elsewhere(asked: dict[str, object]) -> dict[str, object]:
    """`init()` of a program on another system, or one that is in such a session already: what it returns.

    Raises:
        RuntimeError: this program is in a session already.
    """
    other = foreign
    if other is None and current() is None:
        other = import_module(_HOMES[RAY]).join(asked)
    elif other is None or (other.is_driver and not asked["ignore_reinit_error"]):
        raise RuntimeError(
            "sundog.init() was called twice: this program is in a session already. Call sundog.shutdown() first, or "
            "pass ignore_reinit_error=True."
        )
    return other.describe()


def refuse_elsewhere() -> None:
    """What calls this needs sundog's own runtime.

    Raises:
        RuntimeError: this process works on another system.
    """
    if (other := elsewhere()) is not None:
        raise RuntimeError(
            "This function needs sundog's own runtime, and the program runs on engine "
            f"{other.name!r}. Run it on engine "
            "'local', or leave out the call."
        )


def plug_foreign(engine: ForeignEngine | None) -> None:
    """Make an engine of another system the one that this process uses."""
    global foreign
    foreign = engine


def plug(engine: LocalEngine | None) -> None:
    """Make `engine` the one that this process uses."""
    global _current, _make
    _current, _make = engine, None


def plug_later(make: Callable[[], LocalEngine]) -> None:
    """Make an engine when one is first asked for: most tasks never call the API, and importing it takes time."""
    global _current, _make
    _current, _make = None, make


# Called with each engine of a driver: after it has begun, and before it ends (in the thread that ends it).
after_begin: list[Callable[[LocalEngine], None]] = []
before_end: list[Callable[[LocalEngine], None]] = []
