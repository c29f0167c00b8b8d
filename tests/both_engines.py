"""Which of our integration tests also run on a Ray cluster, unmodified: `make test-ray`.

Owns the list: files, and in each the tests that do not make sense there, with the reason. `tests/conftest.py` reads
it when SUNDOG_ENGINE is ray; `tests/on_ray.py` starts the cluster.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

import pytest

ON_RAY = os.environ.get("SUNDOG_ENGINE") == "ray"

FILES: dict[str, dict[str, str]] = {name: {} for name in os.environ.get("TRY", "").split()}

_THERE = ("num_cpus", "object_store_memory", "log_to_driver")  # of init(): the cluster has its own


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the list; those that do not make sense on Ray are skipped, with the reason."""
    kept, left = [], []
    for item in items:
        path = item.location[0]
        if path not in FILES and not path.startswith("tests/ray_engine/"):
            left.append(item)
            continue
        why = FILES.get(path, {}).get(item.name.partition("[")[0])
        if why is not None:
            item.add_marker(pytest.mark.skip(reason=why))
        kept.append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def connect(sundog: ModuleType, arguments: dict[str, Any]) -> ModuleType:
    """The driver of all tests: one connection, for each new one has to start workers of its own."""
    rest = {name: value for name, value in arguments.items() if name not in _THERE}
    if rest and sundog.is_initialized():
        sundog.shutdown()
    if not sundog.is_initialized():
        sundog.init(address=os.environ["RAY_ADDRESS"], namespace="tests", **rest)
    return sundog
