"""A model of several layers goes by value to each shard, epoch after epoch."""

import numpy as np

import sundog as ray


@ray.remote
def gradient(layers, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=400)
    for layer in layers.values():
        x = np.tanh(layer[:400, :400] @ x)
    return float(x.sum())


def train(layers, epochs, shards):
    for epoch in range(epochs):
        refs = [gradient.remote(layers, epoch * shards + n) for n in range(shards)]  # fault: large-argument
        step = sum(ray.get(refs))
        for layer in layers.values():
            layer *= 1.0 - 1e-9 * step


if __name__ == "__main__":
    ray.init()
    rng = np.random.default_rng(0)
    train({f"layer{n}": rng.normal(size=(1200, 1200)) / 35 for n in range(3)}, epochs=6, shards=6)
