"""Monte Carlo: 200 tasks of about 20 ms, each with a random generator of its own. Runs in driver and workers."""

from __future__ import annotations

from typing import Any

import numpy as np

_TASKS = 200
_POINTS = 1_000_000


def inside(seed: int) -> int:
    points = np.random.default_rng(seed).random((2, _POINTS))
    return int((points[0] ** 2 + points[1] ** 2 < 1).sum())


def serial() -> int:
    return sum(map(inside, range(_TASKS)))


def raylike(ray: Any) -> int:
    task = ray.remote(inside)
    return sum(ray.get([task.remote(seed) for seed in range(_TASKS)]))


def futures(executor: Any) -> int:
    return sum(executor.map(inside, range(_TASKS)))


def pool(pool: Any) -> int:
    return sum(pool.imap_unordered(inside, range(_TASKS)))


def dask(client: Any) -> int:
    return sum(client.gather(client.map(inside, range(_TASKS), pure=False)))


def joblib(parallel: Any, delayed: Any) -> int:
    return sum(parallel(delayed(inside)(seed) for seed in range(_TASKS)))
