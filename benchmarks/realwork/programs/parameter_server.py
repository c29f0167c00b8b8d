"""Weights in one stateful object, gradients from two workers, 100 rounds in step. Runs in driver and workers."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.realwork import WORKERS

_ROUNDS = 100
_LENGTH = 50_000


class Server:
    def __init__(self) -> None:
        self.weights = np.zeros(_LENGTH)

    def apply(self, *gradients: Any) -> Any:
        for gradient in gradients:
            self.weights = self.weights + 0.1 * gradient
        return self.weights


class Worker:
    def __init__(self, number: int) -> None:
        self.target = np.random.default_rng(number).random(_LENGTH)

    def gradient(self, weights: Any) -> Any:
        return self.target - weights


def _check(weights: Any) -> float:
    return round(float(weights.sum()), 6)


def serial() -> float:
    server, workers = Server(), [Worker(number) for number in range(WORKERS)]
    weights = server.weights
    for _ in range(_ROUNDS):
        weights = server.apply(*[worker.gradient(weights) for worker in workers])
    return _check(weights)


def raylike(ray: Any) -> float:
    server = ray.remote(num_cpus=0)(Server).remote()
    workers = [ray.remote(Worker).remote(number) for number in range(WORKERS)]
    weights = server.apply.remote()
    for _ in range(_ROUNDS):
        weights = server.apply.remote(*[worker.gradient.remote(weights) for worker in workers])
    return _check(ray.get(weights))


def dask(client: Any) -> float:
    server = client.submit(Server, actor=True, pure=False).result()
    workers = [client.submit(Worker, number, actor=True, pure=False).result() for number in range(WORKERS)]
    weights = server.apply().result()
    for _ in range(_ROUNDS):
        gradients = [worker.gradient(weights) for worker in workers]
        weights = server.apply(*[each.result() for each in gradients]).result()
    return _check(weights)
