"""Tasks that compute, declared as a tenth of a CPU."""

import numpy as np

import sundog as ray

ray.init()
_tables = {}


def table(size):
    if size not in _tables:  # each worker builds it once
        _tables[size] = sum(np.sin(np.arange(size) + k) for k in range(40))
    return _tables[size]


@ray.remote(num_cpus=0.1)  # fault: too-many-workers
def price(option):
    values = table(400_000)
    return float(np.sort(np.abs(values - option))[:1000].sum())


print(sum(ray.get([price.remote(i / 60) for i in range(60)])))
