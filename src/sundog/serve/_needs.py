"""What Serve needs before its own modules are imported: packages that may be missing, and no collector meanwhile.

Owns the check for the extra `sundog[serve]`. Its import is the first of Serve's: it turns the garbage collector off,
for next to nothing of what is imported is garbage, and `loaded` turns it on again. Runs in any process.
"""

from __future__ import annotations

import gc
from importlib import import_module
from importlib.util import find_spec

for _name in ("pydantic", "starlette", "uvicorn"):
    if find_spec(_name) is None:  # only looked up, not imported: only proxies need uvicorn
        raise ModuleNotFoundError(
            f"sundog.serve needs {_name}, which is not installed: pip install 'sundog[serve]'",
            name=_name,
        )

_collects = gc.isenabled()
gc.disable()
import_module("starlette.requests")  # with Ray, `import starlette` gives its requests too


def loaded() -> None:
    """Serve is imported."""
    if _collects:
        gc.enable()
