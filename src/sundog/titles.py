"""Process titles: what `ps`, `top` and `htop` show for the processes of a session.

::

    sundog::node   sundog::zygote   sundog::IDLE (a worker)   sundog::<task>   sundog::<class>, sundog::<class>.<method>

Owns the title of this process. Refuses to touch its environment in `/proc`, which the library behind it would overwrite
by default. `Title` is a worker's: the thread that runs tasks says what it runs, at most once a millisecond, so a flood
of short tasks pays for a comparison each; the sampler's thread mends what that left out, and says when nothing runs.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable

from sundog.config import set_child_environ, user_environ
from sundog.printable import printable

_PREFIX = "sundog::"
_IDLE = "IDLE"
_AGAIN_S = 1e-3
_TITLE_MAX = 200
_PACKAGE, _MODULE = "setproctitle", "setproctitle._setproctitle"
_KEEP_ENVIRON = "SPT_NOENV"

_set: Callable[[str], None] | None = None


def show(name: str) -> None:
    """Give this process a title."""
    if _set is not None:
        # Only text that can be encoded: names are the user's.
        _set(f"{_PREFIX}{printable(name)[:_TITLE_MAX]}".encode("utf-8", "replace").decode("utf-8"))
        if threading.get_ident() != threading.main_thread().ident:
            # This named the calling thread; programs that list processes show the name of the main thread.
            with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="utf-8") as file:
                file.write(_PREFIX + printable(name))


def begin(name: str) -> None:
    """The first title of this process; its children inherit the means."""
    global _set
    if _set is None:
        with contextlib.suppress(
            Exception
        ):  # an error in that package must not end the process for the sake of a title
            _set = _load()
    environ = user_environ()
    set_child_environ({_KEEP_ENVIRON: "1"})
    try:
        show(name)
    finally:
        set_child_environ({_KEEP_ENVIRON: environ.get(_KEEP_ENVIRON)})


def _load() -> Callable[[str], None]:
    """The package's function, without the package: that would import `logging`, thirty times as slow as itself."""
    if _MODULE not in sys.modules:
        for finder in sys.meta_path:
            package = finder.find_spec(_PACKAGE, None)
            if package is not None:
                break
        else:
            raise ImportError(_PACKAGE)
        for finder in sys.meta_path:
            spec = finder.find_spec(_MODULE, package.submodule_search_locations)
            if spec is not None and spec.loader is not None:
                module = spec.loader.create_module(spec)
                assert module is not None
                spec.loader.exec_module(module)
                sys.modules[_MODULE] = module
                break
    function: Callable[[str], None] = sys.modules[_MODULE].setproctitle
    return function


class Title:
    """The title of a worker. `runs` is for the thread that runs its tasks, `seen` for the sampler's."""

    __slots__ = ("base", "name", "again_at")

    def __init__(self) -> None:
        self.base = ""  # the class of its actor
        self.name = ""  # the task or method that is shown; "": none
        self.again_at = 0.0
        show(_IDLE)

    def become(self, class_name: str) -> None:
        """The worker is an actor's from now on."""
        self.base = class_name
        self.seen("")

    def runs(self, name: str, now: float) -> None:
        """A task or call of this name begins. The caller asks first whether `name` is shown, and `again_at` is over."""
        self.again_at = now + _AGAIN_S
        self.seen(name)

    def seen(self, name: str) -> None:
        """The process runs the task of this name now; "" if none."""
        self.name = name
        if not self.base:
            show(name or _IDLE)
        else:
            show(f"{self.base}.{name}" if name else self.base)
