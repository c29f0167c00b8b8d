"""2,000 tasks of about 2 ms: what a submission costs beside real, short work. Runs in driver and workers."""

from __future__ import annotations

from typing import Any

ITEMS = range(2_000)
_STEPS = 40_000  # about 2 ms of plain Python on a machine of 2024


def work(item: int) -> int:
    total = item
    for step in range(_STEPS):
        total = (total + step * step) & 0xFFFF
    return total


def serial() -> int:
    return sum(map(work, ITEMS))


def raylike(ray: Any) -> int:
    task = ray.remote(work)
    return sum(ray.get([task.remote(item) for item in ITEMS]))


def futures(executor: Any) -> int:
    return sum(executor.map(work, ITEMS))


def pool(pool: Any) -> int:
    return sum(pool.map(work, ITEMS))


def dask(client: Any) -> int:
    return sum(client.gather(client.map(work, ITEMS, pure=False)))


def joblib(parallel: Any, delayed: Any) -> int:
    return sum(parallel(delayed(work)(item) for item in ITEMS))
