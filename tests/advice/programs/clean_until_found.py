"""A program without a fault: nothing may be found in it. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


for x in range(6):
    if ray.get(nap.remote(x)) == 5:
        break
