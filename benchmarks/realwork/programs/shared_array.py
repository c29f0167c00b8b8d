"""64 tasks that each read one array of 64 MB: is it copied for each of them? Runs in driver and workers."""

from __future__ import annotations

from typing import Any

import numpy as np

_TASKS = 64
_LENGTH = 8_000_000


def make() -> Any:
    return np.arange(_LENGTH, dtype=np.float64) % 1000


def total(array: Any, index: int) -> float:
    return float(array[index::_TASKS].sum())


def serial() -> float:
    array = make()
    return sum(total(array, index) for index in range(_TASKS))


def raylike(ray: Any) -> float:
    task = ray.remote(total)
    array = ray.put(make())
    return float(sum(ray.get([task.remote(array, index) for index in range(_TASKS)])))


_shared: dict[str, Any] = {}


def _attach(name: str) -> Any:
    from multiprocessing import shared_memory

    if name not in _shared:
        memory = shared_memory.SharedMemory(name)
        _shared[name] = (memory, np.ndarray((_LENGTH,), dtype=np.float64, buffer=memory.buf))
    return _shared[name][1]


def _total_shared(job: tuple[str, int]) -> float:
    return total(_attach(job[0]), job[1])


def _through_shared_memory(run: Any) -> float:
    from multiprocessing import shared_memory

    array = make()
    memory = shared_memory.SharedMemory(create=True, size=array.nbytes)
    try:
        np.ndarray(array.shape, array.dtype, buffer=memory.buf)[:] = array
        return float(sum(run(_total_shared, [(memory.name, index) for index in range(_TASKS)])))
    finally:
        memory.close()
        memory.unlink()


def futures(executor: Any) -> float:
    return _through_shared_memory(executor.map)


def pool(pool: Any) -> float:
    return _through_shared_memory(pool.map)


def dask(client: Any) -> float:
    array = client.scatter(make(), broadcast=True)
    return float(sum(client.gather([client.submit(total, array, i, pure=False) for i in range(_TASKS)])))


def joblib(parallel: Any, delayed: Any) -> float:
    array = make()
    return float(sum(parallel(delayed(total)(array, index) for index in range(_TASKS))))
