"""The mended twin of loop_two_stages.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


@ray.remote
def second(x):
    time.sleep(0.1)
    return x + 1


out = []
for x in range(6):
    a = nap.remote(x)
    out.append(second.remote(a))
out = ray.get(out)
