"""Names that may still change, and older paths of names that do not. Imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = frozenset({"dynamic_resources", "multiprocessing", "queue", "shuffle", "state", "tqdm_ray"})


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name == "set_resource":
        return import_module(f"{__name__}.dynamic_resources").set_resource
    from sundog import absent

    why = absent.reason(f"experimental.{name}") or absent.NAMES["experimental"].get(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}" + (f": {why}." if why else ""))


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, "set_resource"})
