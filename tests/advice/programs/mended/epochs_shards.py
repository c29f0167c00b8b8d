"""Gradient descent: each epoch goes over the shards of the data."""

import numpy as np

import sundog as ray

ray.init()


@ray.remote
def gradient(shard, weights):
    X, y = shard
    g = np.zeros_like(weights)
    for _ in range(40):
        g += X.T @ (X @ weights - y) / len(X)
    return g / 40


rng = np.random.default_rng(0)
truth = rng.normal(size=100)
shards = []
for _ in range(8):
    X = rng.normal(size=(4000, 100))
    shards.append(ray.put((X, X @ truth)))
weights = np.zeros(100)
for _epoch in range(6):
    total = sum(ray.get([gradient.remote(shard, weights) for shard in shards]))
    weights -= 0.1 * total / len(shards)
print(float(np.abs(weights - truth).max()))
