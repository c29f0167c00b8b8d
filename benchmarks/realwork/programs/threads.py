"""A driver with eight threads, each of which runs 200 short tasks, one after the other. Runs in driver and workers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_THREADS = 8
_CALLS = 200


def work(item: int) -> int:
    total = item
    for step in range(2_000):
        total = (total + step * step) & 0xFFFF
    return total


def _in_threads(call: Callable[[int], int]) -> int:
    def run(thread: int) -> int:
        return sum(call(thread * _CALLS + number) for number in range(_CALLS))

    with ThreadPoolExecutor(_THREADS) as threads:
        return sum(threads.map(run, range(_THREADS)))


def serial() -> int:
    return sum(work(item) for item in range(_THREADS * _CALLS))


def raylike(ray: Any) -> int:
    task = ray.remote(work)
    return _in_threads(lambda item: int(ray.get(task.remote(item))))


def futures(executor: Any) -> int:
    return _in_threads(lambda item: int(executor.submit(work, item).result()))


def pool(pool: Any) -> int:
    return _in_threads(lambda item: int(pool.apply(work, (item,))))


def dask(client: Any) -> int:
    return _in_threads(lambda item: int(client.submit(work, item, pure=False).result()))
