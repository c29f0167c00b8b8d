"""A join claims 3 GB for each part though it needs a few."""

import time

import sundog as ray

GB = 1024**3


@ray.remote(memory=3 * GB, num_cpus=1)  # fault: memory-bound
def join(left, right):
    rows = dict.fromkeys(range(1000), (left, right))
    time.sleep(0.2)
    return len(rows)


ray.init(num_cpus=4, _memory=4 * GB)
pairs = [(f"left{n}", f"right{n}") for n in range(12)]
print(sum(ray.get([join.remote(*pair) for pair in pairs])))
