"""2,000 items through two models with `ActorPool`; elsewhere an initializer loads the model. In driver and workers."""

from __future__ import annotations

import importlib
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from benchmarks.realwork import WORKERS

_ITEMS = 2_000


class Model:
    """Weights that take some time to make, and a score that needs them."""

    def __init__(self) -> None:
        self.weights = [(number * 7919) % 1000 for number in range(50_000)]

    def score(self, item: int) -> int:
        return sum(self.weights[item * 13 % 40_000 : item * 13 % 40_000 + 2_000])


def serial() -> int:
    model = Model()
    return sum(model.score(item) for item in range(_ITEMS))


def raylike(ray: Any) -> int:
    actors = [ray.remote(Model).remote() for _ in range(WORKERS)]
    pool = importlib.import_module(f"{ray.__name__}.util").ActorPool(actors)
    return sum(pool.map_unordered(lambda actor, item: actor.score.remote(item), range(_ITEMS)))


_models: list[Model] = []


def _load() -> None:
    _models.append(Model())


def _score(item: int) -> int:
    return _models[0].score(item)


def pool(pool: Any) -> int:
    with multiprocessing.Pool(WORKERS, initializer=_load) as own:
        return sum(own.imap_unordered(_score, range(_ITEMS)))


def futures(executor: Any) -> int:
    with ProcessPoolExecutor(WORKERS, initializer=_load) as own:
        return sum(own.map(_score, range(_ITEMS)))


def dask(client: Any) -> int:
    models = client.gather([client.submit(Model, actor=True, pure=False) for _ in range(WORKERS)])
    asked = [models[item % WORKERS].score(item) for item in range(_ITEMS)]
    return sum(each.result() for each in asked)
