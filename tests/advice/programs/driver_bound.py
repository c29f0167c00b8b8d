"""A program with a planted fault: driver-bound. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def small(text):
    time.sleep(0.004)
    return len(text)


def prepare(x):
    time.sleep(0.008)
    return str(x)


refs = []
for x in range(120):
    text = prepare(x)  # fault: driver-bound
    refs.append(small.remote(text))
ray.get(refs)
