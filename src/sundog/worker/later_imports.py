"""Modules that later workers of a program will need, loaded one by one in moments when no fork is asked for.

Owns the lists: a module that a driver wants early (`isolation.workers_want`) names them, the most urgent first. `SOON`
is loaded between two forks, `LATER` when nothing was asked for a while. A fork that is asked for meanwhile waits for
one module at most; a worker that comes too early imports what it needs by itself. Runs in the zygote.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections import deque
from collections.abc import Iterable

_SOON_MS = 1
_LATER_MS = 250  # arbitrary: long after the start of a program, which needs the processor for itself


class LaterImports:
    """What is still to be loaded."""

    def __init__(
        self, soon: Iterable[str] = (), later: Iterable[str] = (), folders: Iterable[str] = ()
    ) -> None:
        self._soon, self._later = deque(soon), deque(later)
        self._folders = list(folders)

    def __bool__(self) -> bool:
        return bool(self._soon or self._later)

    def quiet_ms(self) -> int:
        """How long nothing must have been asked for before the next one is loaded."""
        return _SOON_MS if self._soon else _LATER_MS

    def load_next(self) -> None:
        """Import one module; after the last of a list, keep what was loaded out of the collector's way."""
        names = self._soon or self._later
        collects = gc.isenabled()
        gc.disable()
        try:
            import_from(names.popleft(), self._folders)
            if not names:
                gc.freeze()
        finally:
            if collects:
                gc.enable()


def import_from(name: str, folders: Iterable[str]) -> None:
    """Import a module; what it imports may be found in these folders too. One that fails is left to the workers."""
    added = [folder for folder in folders if folder not in sys.path]
    sys.path += added
    try:
        # a worker that fails to import the module can report it to the user
        with contextlib.suppress(Exception):
            __import__(name)
    finally:
        for folder in added:
            sys.path.remove(folder)


def import_wanted(names: Iterable[str], folders: list[str]) -> LaterImports:
    """Import modules that all workers of a driver need; returns what these modules want to be loaded later."""
    soon: list[str] = []
    later: list[str] = []
    for name in names:
        import_from(name, folders)
        soon += getattr(sys.modules.get(name), "SOON", ())
        later += getattr(sys.modules.get(name), "LATER", ())
    return LaterImports(soon, later, folders)
