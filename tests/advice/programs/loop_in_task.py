"""A program with a planted fault: get-in-loop. Run by tests/advice/table.py."""

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
        out.append(ray.get(nap.remote(x)))  # fault: get-in-loop
    return out


print(ray.get(parent.remote(8)))
