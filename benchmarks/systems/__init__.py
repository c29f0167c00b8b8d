"""The tiny adapter between the cases and a system: remote, actor, get, put, wait, kill.

Runs in the host, and in workers whose task calls the system again. Refuses to emulate: a system that lacks a
feature does not list it in `features`, and the cases that need it are left out for that system. Imports
nothing heavy: what a system costs to import is measured, and must be paid in `load`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

WORKERS = 2
NAMES = ("sundog", "ray", "dask", "ppe", "pool", "raw")
TITLES = {
    "sundog": "sundog",
    "ray": "Ray",
    "dask": "Dask",
    "ppe": "ProcessPoolExecutor",
    "pool": "multiprocessing.Pool",
    "raw": "raw limit",
}


class System:
    """One system under test. Subclasses implement what they list in `features`.

    Features: workers (they run what they are sent), tasks, wait, put (any value), puts_large (buffers), spills,
    actors, async_actors, threaded_actors, nested (workers may call the system again),
    groups (placement groups), echo (the raw limit alone).
    """

    name: ClassVar[str]
    features: ClassVar[frozenset[str]]

    def load(self) -> None:
        """Import the system."""
        raise NotImplementedError

    def start(self) -> None:
        """Start it with WORKERS workers."""
        raise NotImplementedError

    def start_with_store(self, size_bytes: int) -> None:
        """Start it with a small store for objects (feature: spills)."""
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def version(self) -> str:
        import platform

        return platform.python_version()

    def remote(self, function: Callable[..., object]) -> Any:
        """An object whose `.remote(*args)` submits `function` and returns a ref."""
        raise NotImplementedError

    def actor(self, cls: type, **options: object) -> Any:
        """An object whose `.remote(*args)` creates an actor; `handle.method.remote(*args)` calls it."""
        raise NotImplementedError

    def get(self, refs: Any) -> Any:
        raise NotImplementedError

    def put(self, value: object) -> Any:
        raise NotImplementedError

    def wait(
        self, refs: Sequence[Any], num_returns: int = 1, fetch_local: bool = True
    ) -> tuple[list[Any], list[Any]]:
        raise NotImplementedError

    def kill(self, handle: Any) -> None:
        raise NotImplementedError

    def pin(self, cores: set[int], echo_cores: set[int]) -> None:
        """Bind this process and the one that answers to cores."""
        raise NotImplementedError

    def create_groups(self, count: int) -> list[Any]:
        """Create placement groups of one small bundle each and wait until all are ready."""
        raise NotImplementedError

    def remove_groups(self, groups: Sequence[Any]) -> None:
        raise NotImplementedError


class Submitter:
    """`.remote(*args)` over any function that submits; what systems without that spelling return."""

    __slots__ = ("remote",)

    def __init__(self, submit: Callable[..., Any]) -> None:
        self.remote = submit


_MODULES = {
    "sundog": "raylike",
    "ray": "raylike",
    "dask": "dask_cluster",
    "ppe": "executor",
    "pool": "executor",
    "raw": "raw",
}


def open_system(name: str) -> System:
    """The system called `name`, not loaded yet. Raises ValueError for an unknown name."""
    if name not in _MODULES:
        raise ValueError(f"unknown system {name!r}; known: {', '.join(NAMES)}")
    module = importlib.import_module(f"benchmarks.systems.{_MODULES[name]}")
    system: System = module.SYSTEMS[name]()
    return system
