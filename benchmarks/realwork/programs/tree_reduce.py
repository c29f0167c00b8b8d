"""256 arrays of 80 KB are made and added up in pairs, level by level, as a tree. Runs in driver and workers."""

from __future__ import annotations

from typing import Any

import numpy as np

_LEAVES = 256
_LENGTH = 10_000


def leaf(number: int) -> Any:
    return np.random.default_rng(number).integers(0, 1000, _LENGTH)


def add(left: Any, right: Any) -> Any:
    return left + right


def _check(array: Any) -> int:
    return int(array.sum())


def _pairs(level: list[Any]) -> list[tuple[Any, Any]]:
    return list(zip(level[::2], level[1::2]))


def serial() -> int:
    level = [leaf(number) for number in range(_LEAVES)]
    while len(level) > 1:
        level = [add(*pair) for pair in _pairs(level)]
    return _check(level[0])


def raylike(ray: Any) -> int:
    make, join = ray.remote(leaf), ray.remote(add)
    level = [make.remote(number) for number in range(_LEAVES)]
    while len(level) > 1:
        level = [join.remote(*pair) for pair in _pairs(level)]
    return _check(ray.get(level[0]))


def dask(client: Any) -> int:
    level = client.map(leaf, range(_LEAVES), pure=False)
    while len(level) > 1:
        level = [client.submit(add, *pair, pure=False) for pair in _pairs(level)]
    return _check(level[0].result())


def futures(executor: Any) -> int:
    level = list(executor.map(leaf, range(_LEAVES)))
    while len(level) > 1:
        level = list(executor.map(add, level[::2], level[1::2]))
    return _check(level[0])


def pool(pool: Any) -> int:
    level = pool.map(leaf, range(_LEAVES))
    while len(level) > 1:
        level = pool.starmap(add, _pairs(level))
    return _check(level[0])


def joblib(parallel: Any, delayed: Any) -> int:
    level = parallel(delayed(leaf)(number) for number in range(_LEAVES))
    while len(level) > 1:
        level = parallel(delayed(add)(*pair) for pair in _pairs(level))
    return _check(level[0])
