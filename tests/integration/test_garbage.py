"""Refs in cycles that nobody collects do not keep the object store full."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

GET_S = 120
MB = 1 << 20


def test_every_process_collects_its_garbage_when_the_store_fills(
    ray_session: Callable[..., ModuleType],
) -> None:
    ray = ray_session(num_cpus=1, object_store_memory=100 * MB)

    @ray.remote
    class Hoarder:
        def __init__(self) -> None:
            gc.collect()
            gc.disable()
            self.collections = 0
            gc.callbacks.append(self._collected)

        def _collected(self, phase: str, _info: dict[str, int]) -> None:
            self.collections += phase == "stop"

        def hoard(self, megabytes: int) -> None:
            cycle: list[Any] = [ray.put(np.ones(megabytes * MB, np.uint8))]
            cycle.append(cycle)

        def count(self) -> int:
            return self.collections

    hoarder = Hoarder.remote()
    for _ in range(6):
        ray.get(hoarder.hoard.remote(10), timeout=GET_S)
    assert ray.get(hoarder.count.remote(), timeout=GET_S) == 0
    for _ in range(2):
        ray.get(hoarder.hoard.remote(10), timeout=GET_S)
    deadline = time.monotonic() + GET_S
    while not ray.get(hoarder.count.remote(), timeout=GET_S):
        assert time.monotonic() < deadline
    while len(ray.util.state.list_objects()) > 1:  # the last may have come after the collection
        assert time.monotonic() < deadline
