"""Batch inference with a model in an actor."""

import numpy as np

import sundog as ray


@ray.remote
class Predictor:
    def __init__(self, size):
        self.weights = np.random.default_rng(0).normal(size=(size, size)) / size
        self.seen = 0

    def predict(self, batch):
        self.seen += len(batch)
        out = batch
        for _ in range(12):
            out = np.tanh(out @ self.weights)
        return out.sum(axis=1)


def main():
    ray.init()
    models = [Predictor.remote(500) for _ in range(2)]
    rng = np.random.default_rng(1)
    batches = [rng.normal(size=(1000, 500)) for _ in range(16)]
    outputs = ray.get([models[i % 2].predict.remote(b) for i, b in enumerate(batches)])
    print(sum(float(each.sum()) for each in outputs))


if __name__ == "__main__":
    main()
