"""120 images of 1 MB are made, blurred and measured: arrays that go out and come back. Runs in driver and workers."""

from __future__ import annotations

from typing import Any

import numpy as np

_IMAGES = 120
_SIDE = 1024


def make(number: int) -> Any:
    return np.random.default_rng(number).integers(0, 255, (_SIDE, _SIDE), dtype=np.uint8)


def blur(image: Any) -> Any:
    wide = np.pad(image.astype(np.uint16), 1, mode="edge")
    rows = wide[:-2] + wide[1:-1] + wide[2:]
    return ((rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) // 9).astype(np.uint8)


def _sum(images: Any) -> int:
    return sum(int(image[::7, ::5].sum()) for image in images)


def serial() -> int:
    return _sum(blur(make(number)) for number in range(_IMAGES))


def raylike(ray: Any) -> int:
    task = ray.remote(blur)
    return _sum(ray.get([task.remote(make(number)) for number in range(_IMAGES)]))


def futures(executor: Any) -> int:
    return _sum(executor.map(blur, (make(number) for number in range(_IMAGES))))


def pool(pool: Any) -> int:
    return _sum(pool.imap(blur, (make(number) for number in range(_IMAGES))))


def dask(client: Any) -> int:
    return _sum(client.gather([client.submit(blur, make(number), pure=False) for number in range(_IMAGES)]))


def joblib(parallel: Any, delayed: Any) -> int:
    return _sum(parallel(delayed(blur)(make(number)) for number in range(_IMAGES)))
