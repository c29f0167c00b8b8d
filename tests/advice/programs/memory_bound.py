"""A program with a planted fault: memory-bound. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=4, _memory=1024**3)


@ray.remote(memory=700 * 1024**2)  # fault: memory-bound
def load(x):
    time.sleep(0.25)
    return x


ray.get([load.remote(x) for x in range(6)])
