"""Whether a profiler of the user's looks at this thread: cProfile, or what speaks its protocol.

Owns that question, imports that such a profile is not to show, and which modules are imported already. A profile of a
driver is read by people: it shows `remote`, `get` and `wait`, not the thousands of calls of an import on first use, nor
the looks of a get that spins. Runs in any process, any thread; imports nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType

_PROFILER_ID = 2  # sys.monitoring.PROFILER_ID

profiler: Callable[[], object]
"""The profiler that is at work, or None. A function of C: asking takes 30 ns, and leaves no frame in the profile."""

if sys.version_info >= (3, 12):
    profiler = partial(sys.monitoring.get_tool, _PROFILER_ID)
else:
    profiler = sys.getprofile


def load(name: str) -> ModuleType:
    """Import a module; while a profiler is at work, in a thread that it does not look at.

    From Python 3.12 on cProfile looks at all threads of the process, so there a first call shows its imports.

    Raises:
        ImportError: as `import` does.
    """
    if profiler() is not None and name not in sys.modules:
        import threading

        helper = threading.Thread(target=_try, args=(name,), name="sundog-import")
        try:
            helper.start()
            helper.join()
        except RuntimeError:
            pass  # the system allows no more threads
    if loaded(name) is None:
        _import(name)
    return sys.modules[name]


def loaded(name: str) -> ModuleType | None:
    """A module that is imported already, to its end.

    Another thread may be importing it: then it is in `sys.modules`, and its names are not there yet. The import
    statement waits for that thread; a look into `sys.modules` does not.
    """
    module = sys.modules.get(name)
    return None if getattr(getattr(module, "__spec__", None), "_initializing", False) else module


def _import(name: str) -> None:
    """Import a module without a break for the collector, which would look at what the module makes again and again."""
    import gc

    was_on = gc.isenabled()
    gc.disable()
    try:
        __import__(name)
    finally:
        if was_on:
            gc.enable()


def _try(name: str) -> None:
    try:
        __import__(name)
    except Exception:
        return  # the error is raised in the thread that asked
