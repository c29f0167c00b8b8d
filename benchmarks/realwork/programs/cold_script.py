"""20 tasks of about 10 ms: a script that hardly pays for its own start. Runs in driver and workers."""

from __future__ import annotations

from typing import Any

from benchmarks.realwork.programs.short_tasks import work as _work

ITEMS = range(20)


def work(item: int) -> int:
    return sum(_work(item + part) for part in range(5))


def serial() -> int:
    return sum(map(work, ITEMS))


def raylike(ray: Any) -> int:
    task = ray.remote(work)
    return sum(ray.get([task.remote(item) for item in ITEMS]))


def futures(executor: Any) -> int:
    return sum(executor.map(work, ITEMS))


def pool(pool: Any) -> int:
    return sum(pool.map(work, ITEMS, chunksize=1))


def dask(client: Any) -> int:
    return sum(client.gather(client.map(work, ITEMS, pure=False)))


def joblib(parallel: Any, delayed: Any) -> int:
    return sum(parallel(delayed(work)(item) for item in ITEMS))
