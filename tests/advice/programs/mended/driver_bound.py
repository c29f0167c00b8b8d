"""The mended twin of driver_bound.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def small(x):
    text = prepare(x)
    time.sleep(0.004)
    return len(text)


def prepare(x):
    time.sleep(0.008)
    return str(x)


refs = []
for x in range(120):
    refs.append(small.remote(x))
ray.get(refs)
