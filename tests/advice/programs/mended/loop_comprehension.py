"""The mended twin of loop_comprehension.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


print(ray.get([nap.remote(x) for x in range(8)]))
