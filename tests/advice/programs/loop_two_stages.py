"""A program with a planted fault: get-in-loop. Run by tests/advice/table.py."""

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
    a = ray.get(nap.remote(x))  # fault: get-in-loop
    b = ray.get(second.remote(a))  # fault: get-in-loop
    out.append(b)
