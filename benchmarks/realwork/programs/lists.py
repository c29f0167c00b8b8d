"""200 tasks that each give back a list of 5,000 records: large results of plain Python. Runs in driver and workers."""

from __future__ import annotations

from typing import Any

_TASKS = 200
_RECORDS = 5_000


def records(number: int) -> list[tuple[int, str, float]]:
    return [(number, f"name-{row % 100}", row * 0.5) for row in range(_RECORDS)]


def _check(found: Any) -> float:
    return float(sum(rows[-1][2] + len(rows) + rows[7][0] for rows in found))


def serial() -> float:
    return _check(records(number) for number in range(_TASKS))


def raylike(ray: Any) -> float:
    task = ray.remote(records)
    return _check(ray.get([task.remote(number) for number in range(_TASKS)]))


def futures(executor: Any) -> float:
    return _check(executor.map(records, range(_TASKS)))


def pool(pool: Any) -> float:
    return _check(pool.map(records, range(_TASKS)))


def dask(client: Any) -> float:
    return _check(client.gather(client.map(records, range(_TASKS), pure=False)))


def joblib(parallel: Any, delayed: Any) -> float:
    return _check(parallel(delayed(records)(number) for number in range(_TASKS)))
