"""A program with a planted fault: spilling. Run by tests/advice/table.py."""

import numpy as np

import sundog as ray

ray.init(num_cpus=4, object_store_memory=90 * 1024**2)


@ray.remote
def total(part):
    return float(part.sum())


parts = [ray.put(np.ones(2_500_000)) for _ in range(12)]  # fault: spilling
for _ in range(2):
    print(sum(ray.get([total.remote(part) for part in parts])))
