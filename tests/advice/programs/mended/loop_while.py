"""The mended twin of loop_while.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


x = 0
seen = []
while x < 8:
    seen.append(nap.remote(x))
    x += 1
seen = ray.get(seen)
