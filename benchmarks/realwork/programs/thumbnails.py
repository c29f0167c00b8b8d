"""Thumbnails of 200 photographs in three sizes with `Pool.starmap`: 600 calls. Runs in driver and workers."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from benchmarks.realwork import WORKERS

_PHOTOS = 200
_SIZES = (16, 32, 64)
_EDGE = 256


def photo(number: int) -> Any:
    """A photograph as a camera's file gives it: grey values of one byte."""
    return np.random.default_rng(number).integers(0, 256, (_EDGE, _EDGE), dtype=np.uint8)


def thumbnail(picture: Any, size: int) -> Any:
    step = _EDGE // size
    return picture.reshape(size, step, size, step).mean(axis=(1, 3)).astype(np.uint8)


def _jobs() -> list[tuple[Any, int]]:
    return [(picture, size) for picture in map(photo, range(_PHOTOS)) for size in _SIZES]


def _check(thumbnails: list[Any]) -> int:
    return sum(int(each.sum()) * each.shape[0] for each in thumbnails)


def serial() -> int:
    return _check([thumbnail(*job) for job in _jobs()])


def raylike(ray: Any) -> int:
    module = importlib.import_module(f"{ray.__name__}.util.multiprocessing")
    with module.Pool(WORKERS) as pool:
        return _check(pool.starmap(thumbnail, _jobs()))


def pool(pool: Any) -> int:
    return _check(pool.starmap(thumbnail, _jobs()))


def futures(executor: Any) -> int:
    return _check(list(executor.map(thumbnail, *zip(*_jobs(), strict=True), chunksize=75)))


def dask(client: Any) -> int:
    return _check(client.gather(client.map(thumbnail, *map(list, zip(*_jobs(), strict=True)), pure=False)))


def joblib(parallel: Any, delayed: Any) -> int:
    return _check(parallel(delayed(thumbnail)(*job) for job in _jobs()))
