"""Large values: a warm 1 MB put, a cold 128 MB put, and a get of 128 MB.

"Cold" means memory that the system has not used in this session: every ref is kept while the samples are
taken, and the case runs first in its host. "Warm" means that each ref is dropped before the next put.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.cases import measured, rate
from benchmarks.sampling import Effort, Reading, time_call
from benchmarks.systems import System

MB = 1_000_000
COLD_PUTS = 4


def _array(size_bytes: int) -> Any:
    import numpy as np

    # Ones, not zeros: untouched zeros are all one page of the kernel, which no real array is.
    return np.ones(size_bytes // 8, dtype=np.int64)


@measured("put 128 MB cold", group="sizes", needs="puts_large", headline=True)
def put_cold(api: System, effort: Effort) -> list[Reading]:
    array = _array(128 * MB)
    kept: list[Any] = []
    seconds = [time_call(lambda: kept.append(api.put(array))) for _ in range(COLD_PUTS)]
    return [Reading("put 128 MB cold", "GB/s", array.nbytes / 1e9 / s) for s in seconds]


@rate("put 1 MB warm", group="sizes", needs="puts_large", per_call=MB / 1e9, unit="GB/s", headline=True)
def put_warm(api: System) -> Callable[[], object]:
    array = _array(MB)
    return lambda: api.put(array)


@rate("get 128 MB", group="sizes", needs="put puts_large")
def get_large(api: System) -> Callable[[], object]:
    ref = api.put(_array(128 * MB))
    return lambda: api.get(ref)
