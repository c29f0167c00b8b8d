"""Predict in batches with one model that every worker reads from the object store.

The model (about 8 MB) is put once and passed by reference: workers on this machine read the same memory. The
same batches go through tasks and through a pool of actors that keep the model; both must agree with a loop.
"""

from dataclasses import dataclass

import numpy as np
import ray
from ray.util import ActorPool

FEATURES = 1_000
HIDDEN = 1_000
CLASSES = 5
BATCHES = 12
BATCH_ROWS = 64


@dataclass
class Model:
    """Two dense layers; the weights are random but fixed."""

    hidden: np.ndarray
    output: np.ndarray

    @classmethod
    def make(cls, seed: int) -> "Model":
        rng = np.random.default_rng(seed)
        return cls(rng.normal(size=(FEATURES, HIDDEN)), rng.normal(size=(HIDDEN, CLASSES)))

    def predict(self, rows: np.ndarray) -> np.ndarray:
        return np.argmax(np.maximum(rows @ self.hidden, 0.0) @ self.output, axis=1)


def load_batch(number: int) -> np.ndarray:
    return np.random.default_rng(1_000 + number).normal(size=(BATCH_ROWS, FEATURES))


@ray.remote
def predict_batch(model: Model, number: int) -> np.ndarray:
    return model.predict(load_batch(number))


@ray.remote
def is_shared(model: Model) -> bool:
    """Arrays from the store are views of it: read-only, and not this worker's own copy."""
    return not model.hidden.flags.writeable and not model.hidden.flags.owndata


@ray.remote
class Predictor:
    def __init__(self, model: Model) -> None:
        self.model = model

    def predict(self, number: int) -> tuple[int, np.ndarray]:
        return number, self.model.predict(load_batch(number))


def main() -> None:
    ray.init()
    model = Model.make(seed=3)
    model_ref = ray.put(model)
    print(f"shared, not copied: {ray.get(is_shared.remote(model_ref))}")

    by_tasks = ray.get([predict_batch.remote(model_ref, number) for number in range(BATCHES)])

    pool = ActorPool([Predictor.remote(model_ref) for _ in range(2)])
    by_pool = dict(pool.map_unordered(lambda actor, number: actor.predict.remote(number), range(BATCHES)))

    plain = [model.predict(load_batch(number)) for number in range(BATCHES)]
    print(f"tasks agree with the loop: {all(map(np.array_equal, by_tasks, plain))}")
    print(f"pool agrees with the loop: {all(np.array_equal(by_pool[n], plain[n]) for n in range(BATCHES))}")
    print(f"rows per class: {np.bincount(np.concatenate(by_tasks), minlength=CLASSES).tolist()}")
    ray.shutdown()


if __name__ == "__main__":
    main()
