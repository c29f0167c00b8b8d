"""Data-parallel gradient steps: each needs the weights of the one before."""

import time

import numpy as np

import sundog as ray


@ray.remote
def gradient(weights, shard):
    time.sleep(0.08)
    return weights * 0.1 + shard * 1e-3


class SGD:
    def __init__(self, lr):
        self.lr, self.history = lr, []

    def step(self, weights, grads):
        self.history.append(float(np.abs(grads).max()))
        return weights - self.lr * np.mean(grads, axis=0)


def train(epochs=12, shards=4):
    optimiser, weights = SGD(0.5), np.ones(32)
    for epoch in range(epochs):
        grads = ray.get([gradient.remote(weights, shard) for shard in range(shards)])
        weights = optimiser.step(weights, grads)
        print(f"epoch {epoch}: |w| = {np.linalg.norm(weights):.4f}")
    return weights


if __name__ == "__main__":
    ray.init(num_cpus=4)
    train()
