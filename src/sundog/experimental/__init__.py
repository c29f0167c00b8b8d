"""Names that may still change, and older paths of names that do not. Imported on first use."""

from __future__ import annotations

from importlib import import_module

_MODULES = frozenset(
    {
        "dynamic_resources",
        "internal_kv",
        "locations",
        "multiprocessing",
        "queue",
        "shuffle",
        "state",
        "tqdm_ray",
    }
)

_NAMES = {
    "get_local_object_locations": "locations",
    "get_object_locations": "locations",
    "set_resource": "dynamic_resources",
}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _NAMES:
        return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    from sundog import absent

    why = absent.reason(f"experimental.{name}") or absent.NAMES["experimental"].get(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}" + (f": {why}." if why else ""))


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_NAMES})
