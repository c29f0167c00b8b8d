"""Tells the node which installed packages this worker has imported, so that the zygote can learn them.

Owns what was told already. Looks when the worker has nothing to do, and at the count of modules first: a look that
finds nothing new costs less than a microsecond. Main thread only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from sundog.isolation import PACKAGES, SITE_FOLDERS

_MODULES_MAX = 5000  # arbitrary: a worker with more modules is not used as an example for others


class Imports:
    """The modules that this process has imported and the zygote had not. `tell` gets (folder, module) of
    each, in order.
    """

    def __init__(self, tell: Callable[[list[tuple[str, str]]], None] | None) -> None:
        self.tell = tell
        self._count = len(sys.modules)
        self._seen = set(sys.modules)

    def look(self) -> None:
        """Report what was imported since the last call."""
        if len(sys.modules) == self._count or self.tell is None:
            return
        self._count = len(sys.modules)
        fresh = [name for name in list(sys.modules) if name not in self._seen]
        self._seen.update(fresh)
        folders: dict[str, str] = {}
        found = []
        for name in fresh:
            package = name.partition(".")[0]
            if package not in folders:
                folders[package] = installed_in(package)
            if folders[package]:
                found.append((folders[package], name))
        if found and len(self._seen) < _MODULES_MAX:
            self.tell(found)


def installed_in(package: str) -> str:
    """The folder in which a loaded package is installed; "" for any other module."""
    file = getattr(sys.modules.get(package), "__file__", None)
    if not isinstance(file, str) or package == "sundog" or package in PACKAGES:
        return ""  # a module of sundog, which the zygote loads anyway
    folder = os.path.dirname(file)
    if os.path.basename(file).startswith("__init__."):
        folder = os.path.dirname(folder)
    return folder if os.path.basename(folder) in SITE_FOLDERS else ""
