"""A tree of sums, by references."""

import numpy as np

import sundog as ray

ray.init()


@ray.remote
def make(i):
    return np.random.default_rng(i).random(1_000_000)


@ray.remote
def add(a, b):
    return np.sort(a + b)


level = [make.remote(i) for i in range(16)]
while len(level) > 1:
    level = [add.remote(a, b) for a, b in zip(level[::2], level[1::2])]
print(float(ray.get(level[0]).sum()))
