"""The weights go to every worker actor at each call."""

import numpy as np

import sundog as ray


@ray.remote
class Rollout:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def sample(self, weights, steps):
        state = self.rng.normal(size=weights.shape[1])
        for _ in range(steps):
            state = np.tanh(weights[:300, :300] @ state[:300])
        return float(state.sum())


def train(iterations):
    workers = [Rollout.remote(i) for i in range(2)]
    weights = np.random.default_rng(0).normal(size=(2500, 2500)) / 50
    for _ in range(iterations):
        samples = []
        ref = ray.put(weights)
        for worker in workers:
            for _part in range(3):
                samples.append(worker.sample.remote(ref, 200))
        weights = weights * 0.999 + 1e-6 * sum(ray.get(samples))


if __name__ == "__main__":
    ray.init()
    train(8)
