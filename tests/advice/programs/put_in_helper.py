"""A small helper puts the model into the store before each call, so that callers need not think of it."""

from dataclasses import dataclass

import numpy as np

import sundog as ray


@dataclass
class Model:
    weights: np.ndarray
    name: str


@ray.remote
def evaluate(model, fold):
    part = model.weights[fold * 100 : fold * 100 + 400]
    return float(np.linalg.norm(part @ part.T))


def submit(model, fold):
    return evaluate.remote(ray.put(model), fold)  # fault: large-argument


def main():
    ray.init()
    model = Model(np.random.default_rng(0).normal(size=(60_000, 120)), "wide")
    refs = []
    for fold in range(24):
        refs.append(submit(model, fold))
    print(sum(ray.get(refs)))


if __name__ == "__main__":
    main()
