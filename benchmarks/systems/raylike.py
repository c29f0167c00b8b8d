"""sundog and Ray behind one adapter: the two share an API, so they run exactly the same lines.

Runs in the host, and in their workers for nested cases (the adapter pickles as its class and joins the module
that the worker has already loaded).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from benchmarks.systems import WORKERS, System


class RayLike(System):
    features: ClassVar[frozenset[str]] = frozenset(
        {
            "workers",
            "tasks",
            "wait",
            "put",
            "puts_large",
            "spills",
            "actors",
            "async_actors",
            "threaded_actors",
            "nested",
            "groups",
        }
    )

    def __init__(self) -> None:
        self._module: Any = None
        self._functions: dict[Callable[..., object], Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return (_in_worker, (self.name,))

    def load(self) -> None:
        self._module = importlib.import_module(self.name)

    def start(self) -> None:
        # Everything else stays at the system's own defaults: those are what a user gets.
        self._module.init(num_cpus=WORKERS, resources={"custom": 100})

    def start_with_store(self, size_bytes: int) -> None:
        self._module.init(num_cpus=WORKERS, object_store_memory=size_bytes)

    def stop(self) -> None:
        self._module.shutdown()

    def version(self) -> str:
        return str(self._module.__version__)

    def remote(self, function: Callable[..., object]) -> Any:
        # One wrapper per function, as a decorator at module level would give: both systems export it once.
        wrapped = self._functions.get(function)
        if wrapped is None:
            wrapped = self._functions[function] = self._module.remote(function)
        return wrapped

    def actor(self, cls: type, **options: object) -> Any:
        return self._module.remote(**options)(cls) if options else self._module.remote(cls)

    def get(self, refs: Any) -> Any:
        return self._module.get(refs)

    def put(self, value: object) -> Any:
        return self._module.put(value)

    def wait(
        self, refs: Sequence[Any], num_returns: int = 1, fetch_local: bool = True
    ) -> tuple[list[Any], list[Any]]:
        ready, rest = self._module.wait(refs, num_returns=num_returns, fetch_local=fetch_local)
        return ready, rest

    def kill(self, handle: Any) -> None:
        self._module.kill(handle)

    def create_groups(self, count: int) -> list[Any]:
        util = importlib.import_module(f"{self.name}.util")
        groups = [util.placement_group(bundles=[{"custom": 0.001}]) for _ in range(count)]
        for group in groups:
            if not group.wait(timeout_seconds=30):
                raise TimeoutError(f"a placement group of {count} was not ready within 30 s")
        return groups

    def remove_groups(self, groups: Sequence[Any]) -> None:
        util = importlib.import_module(f"{self.name}.util")
        for group in groups:
            util.remove_placement_group(group)


class Sundog(RayLike):
    name = "sundog"


class Ray(RayLike):
    name = "ray"

    def load(self) -> None:
        # Measurements must not depend on a network: no usage report, and no question about one.
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        super().load()


SYSTEMS = {"sundog": Sundog, "ray": Ray}
_joined: dict[str, RayLike] = {}


def _in_worker(name: str) -> RayLike:
    """The adapter as it arrives in a worker: one per process, so its function wrappers are made once."""
    adapter = _joined.get(name)
    if adapter is None:
        adapter = _joined[name] = SYSTEMS[name]()
        adapter.load()
    return adapter
