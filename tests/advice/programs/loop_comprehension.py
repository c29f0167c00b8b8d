"""A program with a planted fault: get-in-loop. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


print([ray.get(nap.remote(x)) for x in range(8)])  # fault: get-in-loop
