"""The mended twin of loop_in_helper.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


def one(x):
    return nap.remote(x)


results = []
for x in range(8):
    results.append(one(x))
results = ray.get(results)
