"""A program with a planted fault: get-in-loop. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


total = 0
for x in range(8):
    result = ray.get(nap.remote(x))  # fault: get-in-loop
    total += result
print(total)
