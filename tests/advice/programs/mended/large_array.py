"""The mended twin of large_array.py."""

import time

import numpy as np

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def use(data, x):
    time.sleep(0.02)
    return len(data) + x


weights = ray.put(np.random.default_rng(0).random(6_000_000))


def submit(x):
    return use.remote(weights, x)


ray.get([submit(x) for x in range(16)])
