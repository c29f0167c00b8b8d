"""What Serve needs before its own modules are imported: packages that may be missing, and no collector meanwhile.

Owns the check for the extra `sundog[serve]`, and the import of a module with the garbage collector off, for next to
nothing of what an import makes is garbage. Runs in any process.
"""

from __future__ import annotations

import gc
from importlib import import_module
from importlib.util import find_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

for _name in ("pydantic", "starlette", "uvicorn"):
    if find_spec(_name) is None:  # only looked up, not imported: only proxies need uvicorn
        raise ModuleNotFoundError(
            f"sundog.serve needs {_name}, which is not installed: pip install 'sundog[serve]'",
            name=_name,
        )


class AbsentFinder:
    """Tells why a module of Ray Serve is not here, after all other finders have not found it."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Nothing.

        Raises:
            ModuleNotFoundError: Ray Serve has such a module and sundog has not; without a name, for the import system
                hides the text of one that names the module after `from sundog.serve import`.
        """
        if name.startswith("sundog.serve."):
            from sundog import absent

            why = absent.reason(name.removeprefix("sundog."))
            if why is not None:
                raise ModuleNotFoundError(f"No module named {name!r}: {why}.")


def load(name: str) -> ModuleType:
    """A module, imported with the collector off."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        if collects:
            gc.enable()
