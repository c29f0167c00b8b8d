"""Past the store's limit: how fast values are put when each pushes another to disk, and how fast they come back.

The system is started anew with a small store. Three times its size is put, all refs kept; then every value is read
once, in the order of the puts, so that each has to come back from disk. Reading touches every page.
"""

from __future__ import annotations

from typing import Any

from benchmarks.cases import measured
from benchmarks.sampling import Effort, Reading, time_call
from benchmarks.systems import System

MB = 1_000_000
STORE = 400 * MB
TIMES = 3
VALUES = ((1 * MB, "1 MB"), (32 * MB, "32 MB"))
PAGE = 4096


@measured("spill and restore", group="spilling", needs="puts_large spills", once=True, timeout_s=180.0)
def spill_and_restore(api: System, effort: Effort) -> list[Reading]:
    readings: list[Reading] = []
    for size, name in VALUES:
        api.stop()
        api.start_with_store(STORE)
        readings += _measure(api, size, name)
    return readings


def _measure(api: System, size: int, name: str) -> list[Reading]:
    import numpy as np

    count = TIMES * STORE // size
    value = np.ones(size, dtype=np.uint8)
    total = count * size / 1e9
    refs: list[Any] = []

    def put() -> None:
        refs.extend(api.put(value) for _ in range(count))

    def read() -> None:
        for ref in refs:
            api.get(ref)[::PAGE].sum()

    put_s, read_s = time_call(put), time_call(read)
    return [
        Reading(f"put {name} past the limit", "GB/s", total / put_s),
        Reading(f"get {name} past the limit", "GB/s", total / read_s),
    ]
