"""A program without a fault: nothing may be found in it. Run by tests/advice/table.py."""

import time

import numpy as np

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def use(data, x):
    time.sleep(0.02)
    return len(data) + x


data = np.arange(4_000_000.0)
ray.get([use.remote(chunk, 0) for chunk in np.array_split(data, 8)])
ray.get([use.remote(chunk, 1) for chunk in np.array_split(data, 8)])
