"""The mended twin of loop_variable.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


total = 0
refs = [nap.remote(x) for x in range(8)]
for ref in refs:
    total += ray.get(ref)
print(total)
