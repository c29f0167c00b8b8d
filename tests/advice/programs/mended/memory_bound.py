"""The mended twin of memory_bound.py."""

import time

import sundog as ray

ray.init(num_cpus=4, _memory=1024**3)


@ray.remote(memory=40 * 1024**2)
def load(x):
    time.sleep(0.25)
    return x


ray.get([load.remote(x) for x in range(6)])
