"""Map and reduce with large arrays between: 16 mappers cut 2 MB into 8 parts each, 8 reducers join and sort theirs.

Runs in driver and workers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_MAPPERS = 16
_REDUCERS = 8
_LENGTH = 250_000


def split(number: int) -> list[Any]:
    values = np.random.default_rng(number).integers(0, 1 << 30, _LENGTH)
    return [values[values % _REDUCERS == part] for part in range(_REDUCERS)]


def merge(*parts: Any) -> list[int]:
    joined = np.sort(np.concatenate(parts))
    return [int(joined[0]), int(joined[len(joined) // 2]), int(joined[-1])]


def _check(medians: list[list[int]]) -> list[int]:
    return [value for each in medians for value in each]


def serial() -> list[int]:
    parts = [split(number) for number in range(_MAPPERS)]
    return _check([merge(*column) for column in zip(*parts, strict=True)])


def raylike(ray: Any) -> list[int]:
    cut, join = ray.remote(num_returns=_REDUCERS)(split), ray.remote(merge)
    parts = [cut.remote(number) for number in range(_MAPPERS)]
    return _check(ray.get([join.remote(*column) for column in zip(*parts, strict=True)]))


def dask(client: Any) -> list[int]:
    from operator import itemgetter

    cut = client.map(split, range(_MAPPERS), pure=False)
    parts = [[client.submit(itemgetter(part), each, pure=False) for part in range(_REDUCERS)] for each in cut]
    joined = [client.submit(merge, *column, pure=False) for column in zip(*parts, strict=True)]
    return _check(client.gather(joined))


def futures(executor: Any) -> list[int]:
    parts = list(executor.map(split, range(_MAPPERS)))
    return _check(list(executor.map(merge, *parts)))


def pool(pool: Any) -> list[int]:
    parts = pool.map(split, range(_MAPPERS))
    return _check(pool.starmap(merge, list(zip(*parts, strict=True))))


def joblib(parallel: Any, delayed: Any) -> list[int]:
    parts = parallel(delayed(split)(number) for number in range(_MAPPERS))
    return _check(parallel(delayed(merge)(*column) for column in zip(*parts, strict=True)))
