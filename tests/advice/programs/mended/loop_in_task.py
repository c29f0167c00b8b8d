"""The mended twin of loop_in_task.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


@ray.remote
def parent(n):
    out = []
    for x in range(n):
        out.append(nap.remote(x))
    return ray.get(out)


print(ray.get(parent.remote(8)))
