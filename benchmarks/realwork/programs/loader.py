"""A loader of training data: 300 batches of 768 KB, eight ahead of who reads them. Runs in driver and workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

_BATCHES = 300
_AHEAD = 8
_SHAPE = (64, 3, 32, 32)


def batch(number: int) -> Any:
    """Pictures as bytes, made into numbers around zero."""
    raw = np.random.default_rng(number).integers(0, 256, _SHAPE, dtype=np.uint8)
    return (raw.astype(np.float32) - 127.5) / 127.5


def _step(images: Any) -> int:
    return int(images[::8, 0].sum() * 100)


def _ahead(submit: Callable[[int], Any], result: Callable[[Any], Any]) -> int:
    pending: deque[Any] = deque(submit(number) for number in range(_AHEAD))
    total = 0
    for number in range(_AHEAD, _BATCHES + _AHEAD):
        total += _step(result(pending.popleft()))
        if number < _BATCHES:
            pending.append(submit(number))
    return total


def serial() -> int:
    return sum(_step(batch(number)) for number in range(_BATCHES))


def raylike(ray: Any) -> int:
    return _ahead(ray.remote(batch).remote, ray.get)


def futures(executor: Any) -> int:
    return _ahead(lambda number: executor.submit(batch, number), lambda future: future.result())


def pool(pool: Any) -> int:
    return sum(_step(images) for images in pool.imap(batch, range(_BATCHES)))


def dask(client: Any) -> int:
    return _ahead(lambda number: client.submit(batch, number, pure=False), lambda future: future.result())


def joblib(parallel: Any, delayed: Any) -> int:
    return sum(_step(images) for images in parallel(delayed(batch)(number) for number in range(_BATCHES)))
