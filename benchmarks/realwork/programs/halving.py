"""Sixteen models are trained, and the worse half is stopped early, four times. Runs in driver and workers."""

from __future__ import annotations

from typing import Any

import numpy as np

_MODELS = 16
_ROUNDS = 4
_EPOCHS = 30
_ROWS, _COLUMNS = 2_000, 20

Score = tuple[float, int]


class Model:
    """A linear model with its own learning rate, trained on data that it makes at its start."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.rate = 0.002 * 1.3**number
        rng = np.random.default_rng(7)
        self.x = rng.normal(size=(_ROWS, _COLUMNS))
        self.y = self.x @ rng.normal(size=_COLUMNS) + rng.normal(size=_ROWS)
        self.weights = np.zeros(_COLUMNS)

    def train(self) -> Score:
        for _ in range(_EPOCHS):
            off = self.x @ self.weights - self.y
            self.weights -= self.rate * (self.x.T @ off) / _ROWS
        return round(float(np.mean((self.x @ self.weights - self.y) ** 2)), 6), self.number


def _best(scores: list[Score]) -> list[int]:
    """The numbers of the better half."""
    return [number for _, number in sorted(scores)[: max(1, len(scores) // 2)]]


def serial() -> list[int]:
    models = {number: Model(number) for number in range(_MODELS)}
    history = []
    for _ in range(_ROUNDS):
        models = {number: models[number] for number in _best([model.train() for model in models.values()])}
        history += list(models)
    return history


def raylike(ray: Any) -> list[int]:
    remote = ray.remote(num_cpus=0)(Model)
    models = {number: remote.remote(number) for number in range(_MODELS)}
    history = []
    for _ in range(_ROUNDS):
        running = [model.train.remote() for model in models.values()]
        scores = []
        while running:
            (done,), running = ray.wait(running, num_returns=1)
            scores.append(ray.get(done))
        kept = _best(scores)
        for number in set(models) - set(kept):
            ray.kill(models[number])
        models = {number: models[number] for number in kept}
        history += kept
    return history


def dask(client: Any) -> list[int]:
    made = client.gather([client.submit(Model, n, actor=True, pure=False) for n in range(_MODELS)])
    models = dict(enumerate(made))
    history = []
    for _ in range(_ROUNDS):
        kept = _best([each.result() for each in [model.train() for model in models.values()]])
        models = {number: models[number] for number in kept}
        history += kept
    return history


def _trained(model: Model) -> tuple[Score, Model]:
    return model.train(), model


def _rounds(train: Any) -> list[int]:
    models = [Model(number) for number in range(_MODELS)]
    history = []
    for _ in range(_ROUNDS):
        outcomes = {model.number: (score, model) for score, model in train(models)}
        kept = _best([score for score, _ in outcomes.values()])
        models = [outcomes[number][1] for number in kept]
        history += kept
    return history


def futures(executor: Any) -> list[int]:
    return _rounds(lambda models: executor.map(_trained, models))


def pool(pool: Any) -> list[int]:
    return _rounds(lambda models: pool.map(_trained, models, chunksize=1))


def joblib(parallel: Any, delayed: Any) -> list[int]:
    return _rounds(lambda models: parallel(delayed(_trained)(model) for model in models))
